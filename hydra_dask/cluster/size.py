"""How many workers are asked for, and how many jobs of a batch system there should be at the moment."""

import math
import re
from typing import NamedTuple


class Size(NamedTuple):
    """From how many workers to how many."""

    least: int
    most: int

    @classmethod
    def of(cls, workers: int | str) -> "Size":
        """What ``cluster.workers`` says.

        Examples
        --------
        >>> Size.of(4), Size.of("2..16")
        (Size(least=4, most=4), Size(least=2, most=16))
        """
        found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(workers))
        if found is None:
            raise ValueError(f"cluster.workers={workers} must be a number, or from..to as 2..16")
        size = cls(int(found[1]), int(found[2] or found[1]))
        if not 1 <= size.least <= size.most:
            what = "must be at least 1" if size.least < 1 else "must not begin above its end"
            raise ValueError(f"cluster.workers={workers} {what}")
        return size

    def __str__(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least}..{self.most}"

    def for_runs(self, runs: int) -> "Size":
        """The same, but no more than there are runs."""
        return Size(min(self.least, runs), min(self.most, runs))


class Wanted:
    """How many jobs there should be.

    As many as work needs, in steps: when all that there are have started and more are needed, twice as many are wanted.
    """

    def __init__(self, size: Size, per_job: int = 1) -> None:
        self._per_job = per_job
        self._allowed, self._most = math.ceil(size.least / per_job), math.ceil(size.most / per_job)
        self._needed: int | None = None

    def need(self, workers: int | None) -> None:
        """So many workers have something to do; None: as many as there can be."""
        self._needed = workers

    def all_started(self) -> None:
        """No job waits in the queue."""
        if self._bound > self._allowed:
            self._allowed = min(2 * self._allowed, self._most)

    @property
    def _bound(self) -> int:
        return self._most if self._needed is None else min(self._most, math.ceil(self._needed / self._per_job))

    @property
    def jobs(self) -> int:
        """How many there should be now."""
        return min(self._allowed, self._bound)
