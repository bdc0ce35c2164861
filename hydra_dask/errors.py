"""What the launcher raises."""

from hydra.errors import HydraException


class SweepError(HydraException):
    """The sweep as a whole cannot be done; nothing was started."""


class Interrupted(KeyboardInterrupt):
    """The user stopped the sweep, and was told how it goes on."""


class JobDied(RuntimeError):
    """A job did not come to its end: its process died, or it was never started."""

    @property
    def reason(self) -> str:
        """The sentence."""
        return str(self)
