"""Rows on their way from a source to the shards: append-only files of frames, read back frame by frame."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dtoken.data.partition import DROPPED
from dtoken.data.rows import RowBlock, concatenate, cut, select


def append_frame(file: Path, block: RowBlock) -> None:
    """Append ``block`` to ``file`` as one frame."""
    with open(file, "ab") as out:
        out.write(np.array([block.rows, len(block.data)], np.int64).data)
        for array in (block.indptr, block.y, block.indices, block.data):
            out.write(np.ascontiguousarray(array).data)


def read_frames(file: Path) -> Iterator[RowBlock]:
    """Yield the frames of ``file`` in the order in which they were appended."""
    with open(file, "rb") as frames:
        while header := frames.read(16):
            rows, entries = np.frombuffer(header, np.int64).tolist()
            indptr = np.fromfile(frames, np.int64, rows + 1)
            y = np.fromfile(frames, np.float64, rows)
            indices = np.fromfile(frames, np.int32, entries)
            yield RowBlock(np.fromfile(frames, np.float64, entries), indices, indptr, y)


class NodeSpools:
    """One spool per node, filled side by side within a fixed amount of memory.

    Rows wait in memory until they exceed ``memory`` bytes; then they are sorted by node, and every node's
    rows are appended to its file as one frame. Files are opened for an append only, so there may be many more
    nodes than open files.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        folder.mkdir()
        self._folder = folder
        self._memory = memory
        self._blocks: list[RowBlock] = []
        self._nodes: list[NDArray[np.int32]] = []

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
        if np.any(nodes[1:] < nodes[:-1]):
            order = np.argsort(nodes, kind="stable")
            block, nodes = select(block, order), nodes[order]
        present, starts = np.unique(nodes, return_index=True)
        stops = np.append(starts[1:], len(nodes))
        for node, start, stop in zip(present.tolist(), starts.tolist(), stops.tolist(), strict=True):
            if node != DROPPED:
                append_frame(self._folder / str(node), cut(block, start, stop))

    def frames(self, node: int) -> Iterator[RowBlock]:
        """Yield the rows of ``node`` in the order in which they came, and remove them from disk."""
        file = self._folder / str(node)
        yield from read_frames(file)
        file.unlink()
