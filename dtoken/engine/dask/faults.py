"""How a run on a cluster deals with workers that are lost."""

from dataclasses import dataclass

from dtoken.errors import InputError

START_SECONDS = 60.0


@dataclass(frozen=True)
class Faults:
    """How to deal with workers that are lost.

    Parameters
    ----------
    attempts
        How often the same stretch of events is tried before the run gives up.
    silence
        Seconds after which a worker that does not answer counts as lost.
    rejoin
        Seconds to wait for a lost worker's replacement before the others take over its nodes.
    start
        Seconds to wait for a worker when there is none; None: a minute, and on a batch system without end.
    """

    attempts: int = 10
    silence: float = 2.0
    rejoin: float = 5.0
    start: float | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InputError(f"engine.attempts={self.attempts} must be at least 1")
        for name in ("silence", "rejoin", "start"):
            value = getattr(self, name)
            if value is not None and not value >= (0.1 if name == "silence" else 0):
                raise InputError(f"engine.{name}={value} is too short; use for instance 5")

    @property
    def patience(self) -> float:
        """Seconds to wait for the first worker."""
        return START_SECONDS if self.start is None else self.start
