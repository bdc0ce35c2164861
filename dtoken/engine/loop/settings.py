"""The settings of the loop: when a run stops, when it is measured, when it is kept."""

import math
from dataclasses import dataclass

from dtoken.errors import InputError
from dtoken.schedule.clock import UNLIMITED


@dataclass(frozen=True)
class Stop:
    """When a run ends: as soon as one of these is reached.

    Parameters
    ----------
    passes
        Gradients of single samples, divided by the number of rows.
    jumps
        Jumps of all tokens.
    events
        Events of any kind.
    suboptimality
        F - F*, looked at when it is recorded.
    patience
        Record points in a row that must be at or below ``suboptimality``.
    """

    passes: float | None = 50.0
    jumps: int | None = None
    events: int | None = None
    suboptimality: float | None = None
    patience: int = 3

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise InputError(f"stop.patience={self.patience} must be at least 1: how many records in a row")
        given = {name: value for name, value in vars(self).items() if value is not None and name != "patience"}
        if not given:
            raise InputError("nothing stops this run; set one of stop.passes, stop.jumps, stop.events")
        for name, value in given.items():
            if not value > 0:
                raise InputError(f"stop.{name}={value} must be positive")
            if name in ("jumps", "events") and value >= 2**63:
                raise InputError(f"stop.{name}={value} is too large; use at most 2**63 - 1")
        if set(given) == {"suboptimality"}:
            raise InputError("stop.suboptimality may never be reached; set stop.passes, stop.jumps or stop.events, too")


@dataclass(frozen=True)
class Recording:
    """When to measure, beside the start and the end, and what to keep.

    Parameters
    ----------
    every_passes, every_jumps
        Measure each time that so many passes or jumps have gone by.
    growth
        Let intervals grow to this share of the passes (jumps) so far: 0.05 measures all methods to within 5 %.
    events
        Write the event log.
    accuracies
        For which suboptimalities to say what it took to reach them.
    sample
        Estimate the objective from so many random rows, with a standard error; null: from all rows.
    tokens
        Estimate it from so many random tokens; null: from all.
    exact_ends
        Measure on all rows and tokens at the first and the last record all the same.
    """

    every_passes: float | None = 1.0
    every_jumps: int | None = None
    growth: float | None = None
    events: bool = False
    accuracies: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)
    sample: int | None = None
    tokens: int | None = None
    exact_ends: bool = True

    def __post_init__(self) -> None:
        for name in ("sample", "tokens"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise InputError(f"record.{name}={value} has no standard error; use at least 2, or null for all")
        for name in ("every_passes", "every_jumps", "growth"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"record.{name}={value} must be positive")
        for accuracy in self.accuracies:
            if not accuracy > 0:
                raise InputError(f"record.accuracies has {accuracy}, but a suboptimality to reach is positive")

    @property
    def sampled(self) -> bool:
        """Whether records between the ends are estimates."""
        return self.sample is not None or self.tokens is not None

    def following(self, jumps: int, gradients: int, rows: int) -> tuple[int, int]:
        """The next record points, in jumps and in gradients, after so many of them."""
        passes = None if self.every_passes is None else max(1, round(self.every_passes * rows))
        return _after(jumps, self.every_jumps, self.growth), _after(gradients, passes, self.growth)


@dataclass(frozen=True)
class Checkpointing:
    """How often to keep what is needed to go on after an interruption.

    Parameters
    ----------
    seconds
        Seconds from one checkpoint to the next, more where writing takes over 2 % of the time; None: not by time.
    every
        Record points from one checkpoint to the next, whatever they cost; None: not by records.
    """

    seconds: float | None = 60.0
    every: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"checkpoint.seconds={self.seconds} must be positive, or null for no checkpoints by time")
        if self.every is not None and self.every < 1:
            raise InputError(f"checkpoint.every={self.every} must be at least 1, or null for none by records")

    @property
    def wanted(self) -> bool:
        """Whether there are to be checkpoints at all."""
        return self.seconds is not None or self.every is not None


NO_CHECKPOINTS = Checkpointing(seconds=None)


def _after(amount: int, interval: int | None, growth: float | None) -> int:
    """The first point after ``amount``: points are the same ones wherever a run was resumed.

    Examples
    --------
    >>> _after(0, 10, None), _after(25, 10, None), _after(25, None, None) == UNLIMITED
    (10, 30, True)
    >>> _after(25, 10, 0.5), _after(30, 10, 0.5), _after(45, 10, 0.5)
    (30, 45, 67)
    """
    if interval is None:
        return UNLIMITED
    if growth is None:
        return (amount // interval + 1) * interval
    point = min(amount, int(interval / growth)) // interval * interval  # so far intervals are equal
    while point <= amount:
        point += max(interval, int(growth * point))
    return point
