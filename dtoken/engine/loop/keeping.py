"""What a run does beside running: look at the clock now and then, and keep checkpoints that are worth their time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from dtoken.engine.loop.settings import Checkpointing

FIRST = 4  # events before the first look at the clock
GROWTH = 8  # times as many events from one look to the next, at most
LOOK_SECONDS = 0.5  # from one look to the next
SHARE = 0.02  # of a run's time that checkpoints may take
FIRST_COST = 0.005  # seconds that one is believed to take before the first was written


def clock() -> float:
    """Seconds from some moment on."""
    return time.perf_counter()


class Stopwatch:
    """Counts the seconds of a run; what it does beside running is left out."""

    def __init__(self) -> None:
        self._began = clock()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._began = self._began, clock()
        return self._began - before


@dataclass
class Pace:
    """How many events may happen from one look at the clock to the next; None: as many as there are."""

    events: int | None
    wall: float  # seconds that the run took until the last look
    _since: int = 0  # events

    def is_over(self, events: int) -> bool:
        """So many events happened: is it time to look?"""
        self._since += events
        return self.events is not None and self._since >= self.events

    def looked(self, wall: float) -> None:
        """All events have happened, and the run took ``wall`` seconds so far."""
        taken = max(wall - self.wall, 1e-9)
        if self.events is not None and self._since * GROWTH >= self.events:  # fewer tell nothing
            self.events = int(max(1, min(self._since * LOOK_SECONDS / taken, GROWTH * self.events)))
        self._since, self.wall = 0, wall


class Keeper:
    """Writes checkpoints when they are due.

    Parameters
    ----------
    settings
        When they are due; by time not before the run took fifty times as long as writing the last one.
    write
        Writes one.
    """

    def __init__(self, settings: Checkpointing, write: Callable[[], None]) -> None:
        self._seconds, self._every, self._write = settings.seconds, settings.every, write
        self._last, self._cost = clock(), 0.0

    def look(self, number: int | None, stopping: bool, leaving: bool = False) -> None:
        """Write one if it is due, at record point ``number`` or at none, or if the run is to stop here.

        ``leaving``: a part of the engine is about to go, and one is due at once.
        """
        due = self._seconds is not None and self._since >= max(self._seconds, self._cost / SHARE)
        if stopping or leaving or due or (self._every is not None and number is not None and number % self._every == 0):
            self._save()

    def end(self, stopping: bool) -> None:
        """Write one at the end if it spares a longer run much more than its cost."""
        if stopping or self._every is not None or self._since >= (self._cost or FIRST_COST) / SHARE:
            self._save()

    def _save(self) -> None:
        began = clock()
        self._write()
        self._last = clock()
        self._cost = self._last - began

    @property
    def _since(self) -> float:
        return clock() - self._last
