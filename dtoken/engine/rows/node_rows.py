"""The rows of hosted nodes, in memory or streamed through it: what engines do with all of them is the same here."""

import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoken.algorithms.contract import Arrays, Method, Origin, Vector
from dtoken.algorithms.starts import Starting
from dtoken.data.store import ShardStore
from dtoken.engine.processors import processors
from dtoken.engine.rows.memory import Room
from dtoken.engine.rows.pieces import RowPieces
from dtoken.engine.rows.row_cache import RowCache, unit_rows
from dtoken.problem.hosted import HostedRows, add_node_values, host, row_excess
from dtoken.problem.kernels import compensated_sums
from dtoken.problem.losses import Loss
from dtoken.problem.shards import Shards

MOST_READERS = 8
SHARES = 64  # into which the evaluation of all rows is divided, at most, for threads to take one after the other

Places = NDArray[np.int64]
Share = tuple[int, int]
Map = Callable[[Callable[[Share], None], list[Share]], Iterable[None]]


class NodeRows:
    """The rows of ``nodes``: all in memory, or as many as there is ``room`` for."""

    def __init__(self, shards: Shards, nodes: ArrayLike, loss: Loss, method: Method, room: Room | None) -> None:
        self._method = method
        self.start_seconds = 0.0  # that the initial state took
        self.work = np.asarray(shards.node_nonzeros)[np.asarray(nodes, np.int64)]  # what a pass over each node costs
        self.pieces: RowPieces | None = None  # None: all rows are in memory
        if room is None or not isinstance(shards, ShardStore):
            self.rows: HostedRows = host(shards, nodes, loss, method.blocks)
            return
        cache = RowCache(shards, nodes, loss, room.entries, method, readers(method) if room.read_ahead else 1)
        self.pieces = RowPieces(cache, room.read_ahead)
        self.rows = cache.rows

    def start(self, c: Arrays, origin: Origin | None = None) -> tuple[Arrays, Arrays]:
        """The initial states of nodes and tokens: those of the method, or those of an earlier run."""
        method, rows = self._method, self.rows
        nodes, tokens = method.states(c, rows)
        if origin is not None:
            cast(Starting, method).begin_from(c, rows, nodes, tokens, origin)
            return nodes, tokens
        if isinstance(method, Starting):
            method.begin(c, rows._replace(first=np.zeros_like(rows.first)), nodes)  # compiles
        began = time.perf_counter()
        self._begin(c, nodes)
        self.start_seconds = time.perf_counter() - began
        return nodes, tokens

    def _begin(self, c: Arrays, nodes: Arrays) -> None:
        method, rows = self._method, self.rows
        if self.pieces is None:
            method.begin(c, rows, nodes)
            return

        def begin(first: int, stop: int) -> None:
            method.begin(c, rows._replace(first=np.clip(rows.first, first, stop)), nodes)  # the others have no rows

        in_parts = method.draws_samples or method.phases or method.foresee(c, rows, nodes)
        self.pieces.over_all_rows(begin, whole_nodes=not in_parts)

    def values(self, models: Vector, in_parallel: Map | None = None) -> Vector:
        """f_i(theta) of every hosted node (rows) and model (columns), without regulariser.

        ``in_parallel`` has several threads for it; None: this one does it all, in one call where rows are in memory.
        """
        rows, models = self.rows, np.ascontiguousarray(models)
        nodes, count = len(rows.w), len(models)
        totals = np.zeros((nodes, count, 2))
        each = in_parallel or map

        def of_part(first: int, stop: int) -> None:
            list(each(lambda share: add_node_values(rows, first, stop, models, *share, totals), shares(count)))

        def of_nodes(share: Share) -> None:
            first, stop = rows.first[list(share)].tolist()
            add_node_values(rows, first, stop, models, 0, count, totals)

        if self.pieces is not None:
            self.pieces.over_all_rows(of_part)
        else:
            list(each(of_nodes, [(0, nodes)] if in_parallel is None else shares(nodes)))
        return np.asarray(rows.w[:, None] * compensated_sums(totals))

    def excess(self, models: Vector, theta_star: Vector, nodes: Places, numbers: Places) -> Vector:
        """Weighted losses of single rows at each model, less those at theta*.

        Rows of hosted ``nodes``, numbered among all rows that are hosted here, increasing.
        """
        rows, models = self.rows, np.ascontiguousarray(models)
        found = np.empty((len(numbers), len(models)))

        def of_part(own: slice) -> None:
            row_excess(rows, nodes[own], numbers[own], models, theta_star, found[own])

        if self.pieces is None:
            of_part(slice(None))
        else:
            self.pieces.over_rows(nodes, numbers, of_part)
        return found

    def close(self) -> None:
        """Stop reading ahead, and let go of the files."""
        if self.pieces is not None:
            self.pieces.close()


def shares(count: int) -> list[Share]:
    """So many things in consecutive shares, as equal as can be.

    Examples
    --------
    >>> shares(3), len(shares(1000))
    ([(0, 1), (1, 2), (2, 3)], 64)
    """
    return list(pairwise(np.linspace(0, count, min(count, SHARES) + 1).astype(np.int64).tolist()))


def readers(method: Method) -> int:
    """How many threads read ahead: the steps need processors, too, but single rows take two reads each."""
    return max(2 if unit_rows(method) == 1 else 1, min(MOST_READERS, processors() // 2))
