"""Reading the nodes' rows pass after pass with bounded memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoken.data.ranges import joined
from dtoken.data.rows import RowBlock

GROUP = 1 << 22  # entries of a group of nodes, and numbers of the vectors of its nodes

T = TypeVar("T")
Counts = NDArray[np.int64]


class Shards(Protocol):
    """What a problem needs of a dataset, one shard of rows per node: a shard store, or a stand-in for it."""

    @property
    def n(self) -> int:
        """Number of nodes."""

    @property
    def d(self) -> int:
        """Number of features."""

    @property
    def node_rows(self) -> Counts:
        """(n,) rows of each node."""

    @property
    def node_nonzeros(self) -> Counts:
        """(n,) stored values of each node."""

    @property
    def classes(self) -> bool:
        """Whether the labels are -1 and +1."""

    @property
    def path(self) -> str | os.PathLike[str] | None:
        """Where the dataset lies; None if only in memory."""

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        """Row blocks of bounded size: the rows of the nodes from ``first`` to before ``stop``, of one by default."""


class NodeBlock(NamedTuple):
    """Consecutive rows of a group of nodes."""

    rows: RowBlock
    nodes: NDArray[np.int32]  # (rows,) the node of each row, counted from the first one of the group
    row: int  # the number of the first row, counted over all nodes


class BlockReader:
    """The rows of all nodes, group by group, the first groups that fit into ``memory`` bytes read only once.

    A group is a range of consecutive nodes: a large one alone, or so many small ones that a pass over all nodes is a
    few compiled calls. The choice of what is kept is fixed from the start: passes scan the groups in a circle, where
    keeping the most recent ones would lose each group just before it is needed again.

    Parameters
    ----------
    shards
        Where the rows are.
    memory
        Bytes of rows that are kept.
    numbers
        What a pass holds for each node of a group, beside its rows; None: a vector of d.

    Examples
    --------
    >>> class One:
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, np.ones(1, int), np.ones(1, int), True, None
    ...     def blocks(self, first, stop):
    ...         print("reading")
    ...         yield RowBlock(np.ones(1), np.zeros(1, np.int32), np.array([0, 1]), np.ones(1))
    >>> reader = BlockReader(One(), memory=100)
    >>> for _ in range(2):
    ...     print([block.rows.rows for block in reader.blocks(0)])
    reading
    [1]
    [1]
    """

    def __init__(self, shards: Shards, memory: int, numbers: int | None = None) -> None:
        self._shards = shards
        self._memory = memory
        weights = np.maximum(shards.node_nonzeros, shards.d if numbers is None else numbers)
        self.first = np.append(joined(weights, GROUP), shards.n)  # (groups + 1,) first node of each group
        self._row = np.concatenate([[0], np.cumsum(shards.node_rows)])
        self._keep = self._first_that_fit()
        self._kept: dict[int, list[NodeBlock]] = {}

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.first) - 1

    def nodes(self, group: int) -> tuple[int, int]:
        """The first node of a group, and the first that follows."""
        return int(self.first[group]), int(self.first[group + 1])

    def bounds(self, group: int) -> Counts:
        """(nodes + 1,) the first row of each node of a group, counted from the first one of the group."""
        first, stop = self.nodes(group)
        return np.asarray(self._row[first : stop + 1] - self._row[first])

    def blocks(self, group: int) -> Iterable[NodeBlock]:
        """The rows of a group, in order; kept if the group is one of those that fit."""
        if group not in self._keep:
            return self._read(group)
        if group not in self._kept:
            self._kept[group] = list(self._read(group))
        return self._kept[group]

    def _read(self, group: int) -> Iterator[NodeBlock]:
        (first, stop), ends = self.nodes(group), self.bounds(group)[1:]
        row = 0
        for rows in self._shards.blocks(first, stop):
            nodes = np.searchsorted(ends, np.arange(row, row + rows.rows), "right").astype(np.int32)
            yield NodeBlock(rows, nodes, int(self._row[first]) + row)
            row += rows.rows

    def one(self, node: int) -> Iterator[RowBlock]:
        """The rows of one node."""
        return self._shards.blocks(node)

    def repeated(self, node: int) -> Callable[[], Iterable[RowBlock]]:
        """Blocks of one node for many passes in a row, held while the result lives if they fit ``memory``."""
        if self._bytes(node, node + 1) > self._memory:
            return lambda: self.one(node)
        self.forget()  # or there would be twice as much as there may be
        held = list(self.one(node))
        return lambda: held

    def forget(self) -> None:
        """Let go of what is kept; it is read again when it is needed."""
        self._kept = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": {}}  # another process reads the blocks itself

    def _bytes(self, first: int, stop: int) -> int:
        entries, rows = self._shards.node_nonzeros[first:stop], self._shards.node_rows[first:stop]
        return int(12 * np.sum(entries) + 20 * np.sum(rows) + 16)

    def _first_that_fit(self) -> frozenset[int]:
        keep, memory = set(), self._memory
        for group in range(self.groups):
            size = self._bytes(*self.nodes(group))
            if size <= memory:
                keep.add(group)
                memory -= size
        return frozenset(keep)


def in_order(function: Callable[[int], T], count: int, threads: int) -> Iterator[T]:
    """Yield function(0), ..., function(count - 1), with at most ``threads`` results at work or waiting.

    Examples
    --------
    >>> list(in_order(abs, 3, threads=2))
    [0, 1, 2]
    """
    if threads == 1:
        yield from map(function, range(count))
        return
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for i in range(count):
            if len(pending) == threads:
                yield pending.popleft().result()
            pending.append(pool.submit(function, i))
        while pending:
            yield pending.popleft().result()
