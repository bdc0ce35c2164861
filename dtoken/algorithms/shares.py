"""Visits that use a share of the node's rows, in order or by the event's own chance: which rows, known beforehand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import BUCKET_ROWS, check_buckets
from dtoken.algorithms.contract import Facts, Foreseen, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.clock import Costs
from dtoken.schedule.permuted import TOGETHER, cut_bucket, fill, window_room
from dtoken.schedule.random import below, event_key

SAMPLING = ("permuted", "uniform")
ROUNDING = 1e-12  # 0.7 of 10 rows are 7, not 8


@compiled
def choose(c: Any, i: int, size: int, used: int, t: float, out: NDArray[np.int64]) -> None:
    """Write the rows of node i that a visit at time t uses, counted inside the node."""
    if c.bucket > 0:
        fill(c.seed, c.node[i], size, c.bucket, used, out)
    else:
        key = event_key(c.seed, t)
        for draw in range(len(out)):
            out[draw] = below(key, draw, size)


@dataclass(frozen=True)
class SharedRows:
    """A method whose visits use a share of the node's rows.

    Constants have ``seed``, ``node``, ``visited`` and ``bucket`` (0: rows are drawn), nodes ``used``.

    Parameters
    ----------
    share
        Share of a node's rows that a visit uses, at least one row.
    sampling
        ``permuted`` or ``uniform``.
    bucket_rows
        Of ``permuted``: rows of a bucket.
    """

    share: float = 0.3
    sampling: str = "permuted"
    bucket_rows: int = BUCKET_ROWS

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"algorithm.share={self.share} is the share of a node's rows; it must lie in (0, 1]")
        check_choice("sampling", self.sampling, SAMPLING)
        check_buckets(self.bucket_rows, self.sampling)

    def costs(self, facts: Facts) -> Costs:
        """A gradient for each row of a visit."""
        return Costs(np.zeros(facts.n, np.int64), self.visited(facts))

    @property
    def permuted(self) -> bool:
        """Whether nodes go through their rows in order."""
        return self.sampling == "permuted"

    @property
    def bucket(self) -> int:
        """How many rows are read together."""
        return self.bucket_rows if self.permuted else 1

    def visited(self, facts: Facts) -> NDArray[np.int64]:
        """(n,) rows that a visit uses."""
        return self._share_of(facts.rows)

    def _share_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.maximum(1, np.ceil(self.share * rows * (1 - ROUNDING))), np.int64)

    def foresee(self, c: Any, rows: HostedRows, nodes: Any) -> Foreseen:
        """The order of rows, and what events draw, are known beforehand."""
        used, sizes = nodes.used.copy(), np.diff(rows.first)

        def of_visit(i: int, t: float) -> NDArray[np.int64]:
            found = np.empty(c.visited[i], np.int64)
            choose(c, i, sizes[i], used[i], t, found)
            used[i] += len(found)
            return found

        return of_visit

    def reach(self, rows: int) -> int:
        """All rows of the buckets that take turns while a visit lasts, which may begin and end amidst them."""
        visited = int(self._share_of(np.array(rows)))
        if self.permuted:
            window = int(window_room(rows, self.bucket_rows))
            turns = -(-(visited - 1) // window) + 3  # one more at either end, and one that ends with its epoch
            apart = 1 if cut_bucket(rows, self.bucket_rows) == self.bucket_rows else 2  # then one may lie in two units
            visited = turns * TOGETHER * apart * self.bucket_rows
        return min(visited, rows)
