"""Rows on their way from a source to the packs: append-only files of frames, read back frame by frame."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dtoken.data.partition import DROPPED
from dtoken.data.ranges import joined
from dtoken.data.rows import RowBlock, concatenate, cut, select

Counts = NDArray[np.int64]


def append_frame(file: Path, block: RowBlock, nodes: NDArray[np.int32] | None = None) -> None:
    """Append ``block`` to ``file`` as one frame, perhaps with the nodes of its rows behind it."""
    arrays = (block.indptr, block.y, block.indices, block.data, *([] if nodes is None else [nodes]))
    with open(file, "ab") as out:
        out.write(np.array([block.rows, len(block.data)], np.int64).data)
        for array in arrays:
            out.write(np.ascontiguousarray(array).data)


def read_frames(file: Path) -> Iterator[RowBlock]:
    """Yield the frames of ``file``, without nodes, in the order in which they were appended."""
    with open(file, "rb") as frames:
        while header := frames.read(16):
            yield _read_frame(frames, header)


def _read_frame(frames: BinaryIO, header: bytes) -> RowBlock:
    rows, entries = np.frombuffer(header, np.int64).tolist()
    indptr = np.fromfile(frames, np.int64, rows + 1)
    y = np.fromfile(frames, np.float64, rows)
    indices = np.fromfile(frames, np.int32, entries)
    return RowBlock(np.fromfile(frames, np.float64, entries), indices, indptr, y)


class NodeSpools:
    """Rows sorted by node within a fixed amount of memory, however many nodes there are.

    Rows wait in memory until they exceed ``memory`` bytes. Then each goes to the file of its bucket, a range of
    consecutive nodes with about as many bytes. Files are opened for an append only, so there may be many more buckets
    than open files. A bucket is sorted when it is read; one that is much larger than expected is read several times,
    for some of its nodes each.

    Parameters
    ----------
    folder
        For the files; it is made.
    rows
        (n,) rows that each node will have.
    row_bytes
        Of a row, on average.
    memory
        Bytes that may wait.
    """

    def __init__(self, folder: Path, rows: Counts, row_bytes: float, memory: int) -> None:
        folder.mkdir()
        self._folder, self._memory = folder, memory
        self._first = joined(rows, max(1, int(memory / row_bytes)))  # first node of each bucket
        self._blocks: list[RowBlock] = []
        self._nodes: list[NDArray[np.int32]] = []
        self.nonzeros = np.zeros(len(rows), np.int64)  # of each node, so far
        self._rows = rows

    def append(self, block: RowBlock, nodes: NDArray[np.int32]) -> None:
        """Add rows; ``nodes`` says for each where it goes."""
        self._blocks.append(block)
        self._nodes.append(nodes)
        if sum(block.nbytes for block in self._blocks) > self._memory:
            self.flush()

    def flush(self) -> None:
        """Write out what waits in memory."""
        if not self._blocks:
            return
        block, nodes = concatenate(self._blocks), np.concatenate(self._nodes)
        self._blocks, self._nodes = [], []
        block, nodes = _sorted(block, nodes)
        kept = np.searchsorted(nodes, DROPPED, "right")
        sizes = np.diff(block.indptr)[kept:]
        self.nonzeros += np.bincount(nodes[kept:], sizes, len(self.nonzeros)).astype(np.int64)
        bounds = np.append(np.searchsorted(nodes, self._first), len(nodes))
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            part = slice(bounds[bucket], bounds[bucket + 1])
            append_frame(self._folder / str(bucket), cut(block, part.start, part.stop), nodes[part])

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows, node after node, each in the order in which they came; their files go."""
        for bucket, (first, stop) in enumerate(pairwise([*self._first.tolist(), len(self._rows)])):
            weights = 12 * self.nonzeros[first:stop] + 24 * self._rows[first:stop]
            parts = first + joined(weights, 4 * self._memory)
            for low, high in pairwise([*parts.tolist(), stop]):
                yield from self._some(self._folder / str(bucket), low, high)
            (self._folder / str(bucket)).unlink()

    def _some(self, file: Path, low: int, high: int) -> Iterator[RowBlock]:
        """The rows of the nodes from ``low`` to before ``high`` of a bucket."""
        found = (_of_nodes(block, nodes, low, high) for block, nodes in _read_with_nodes(file))
        if high - low == 1:
            yield from (block for block, _ in found)  # they need not be sorted, and may be many
            return
        blocks, numbers = zip(*found, strict=True)
        yield _sorted(concatenate(blocks), np.concatenate(numbers))[0]


def _read_with_nodes(file: Path) -> Iterator[tuple[RowBlock, NDArray[np.int32]]]:
    with open(file, "rb") as frames:
        while header := frames.read(16):
            block = _read_frame(frames, header)
            yield block, np.fromfile(frames, np.int32, block.rows)


def _of_nodes(block: RowBlock, nodes: NDArray[np.int32], low: int, high: int) -> tuple[RowBlock, NDArray[np.int32]]:
    """Those rows of a frame, which is sorted by node."""
    start, stop = np.searchsorted(nodes, (low, high)).tolist()
    return cut(block, start, stop), nodes[start:stop]


def _sorted(block: RowBlock, nodes: NDArray[np.int32]) -> tuple[RowBlock, NDArray[np.int32]]:
    if not np.any(nodes[1:] < nodes[:-1]):
        return block, nodes
    order = np.argsort(nodes, kind="stable")
    return select(block, order), nodes[order]
