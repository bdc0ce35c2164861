"""Reading the nodes' rows pass after pass with bounded memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from dtoken.data.rows import RowBlock

T = TypeVar("T")


class Shards(Protocol):
    """What a problem needs of a dataset, one shard of rows per node: a shard store, or a stand-in for it."""

    @property
    def n(self) -> int:
        """Number of nodes."""

    @property
    def d(self) -> int:
        """Number of features."""

    @property
    def node_rows(self) -> tuple[int, ...]:
        """Rows of each node."""

    @property
    def node_nonzeros(self) -> tuple[int, ...]:
        """Stored values of each node."""

    @property
    def classes(self) -> bool:
        """Whether the labels are -1 and +1."""

    @property
    def path(self) -> str | os.PathLike[str] | None:
        """Where the dataset lies; None if only in memory."""

    def blocks(self, node: int) -> Iterator[RowBlock]:
        """Consecutive row blocks of bounded size that together are the node's shard."""


class BlockReader:
    """Row blocks of every node, the first shards that fit into ``memory`` bytes read only once.

    The choice is fixed from the start: passes scan the nodes in a circle, where keeping the most recent ones
    would lose each shard just before it is needed again.

    Examples
    --------
    >>> import numpy as np
    >>> class One:
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, (1,), (1,), True, None
    ...     def blocks(self, node):
    ...         print("reading")
    ...         yield RowBlock(np.ones(1), np.zeros(1, np.int32), np.array([0, 1]), np.ones(1))
    >>> reader = BlockReader(One(), memory=100)
    >>> for _ in range(2):
    ...     print([block.rows for block in reader.blocks(0)])
    reading
    [1]
    [1]
    """

    def __init__(self, shards: Shards, memory: int) -> None:
        self._shards = shards
        self._memory = memory
        self._keep = _first_that_fit(shards, memory)
        self._kept: dict[int, list[RowBlock]] = {}

    def blocks(self, node: int) -> Iterable[RowBlock]:
        """Blocks of the node's rows, in order; kept if the node is one of those that fit."""
        if node not in self._keep:
            return self._shards.blocks(node)
        if node not in self._kept:
            self._kept[node] = list(self._shards.blocks(node))
        return self._kept[node]

    def repeated(self, node: int) -> Callable[[], Iterable[RowBlock]]:
        """Blocks of one node for many passes in a row, held while the result lives if they fit ``memory``."""
        if node in self._kept:
            return lambda: self.blocks(node)
        if _bytes(self._shards, node) > self._memory:
            return lambda: self._shards.blocks(node)
        self.forget()  # or there would be twice as much as there may be
        held = list(self._shards.blocks(node))
        return lambda: held

    def forget(self) -> None:
        """Let go of what is kept; it is read again when it is needed."""
        self._kept = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": {}}  # another process reads the blocks itself


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


def _bytes(shards: Shards, node: int) -> int:
    return 12 * shards.node_nonzeros[node] + 16 * (shards.node_rows[node] + 1)


def _first_that_fit(shards: Shards, memory: int) -> frozenset[int]:
    keep = set()
    for node in range(shards.n):
        if _bytes(shards, node) <= memory:
            keep.add(node)
            memory -= _bytes(shards, node)
    return frozenset(keep)
