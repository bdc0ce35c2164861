"""Rows on their way from a source to the shards: an append-only file of frames, never larger in memory than one frame."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dtoken.data.rows import RowBlock, concatenate


def append_frame(file: Path, block: RowBlock) -> None:
    """Append ``block`` to ``file`` as one frame."""
    with open(file, "ab") as out:
        out.write(np.array([block.rows, len(block.data)], np.int64))
        for array in (block.indptr, block.y, block.indices, block.data):
            out.write(np.ascontiguousarray(array))


def read_frames(file: Path) -> Iterator[RowBlock]:
    """Yield the frames of ``file`` in the order in which they were appended."""
    if not file.exists():  # a spool that nothing was appended to
        return
    with open(file, "rb") as frames:
        while header := frames.read(16):
            rows, entries = np.frombuffer(header, np.int64).tolist()
            indptr = np.fromfile(frames, np.int64, rows + 1)
            y = np.fromfile(frames, np.float64, rows)
            indices = np.fromfile(frames, np.int32, entries)
            yield RowBlock(np.fromfile(frames, np.float64, entries), indices, indptr, y)


class NodeSpools:
    """One spool per node, filled side by side within a fixed amount of memory.

    Rows wait in memory until all of them together exceed ``memory`` bytes; then every node's rows are appended to its
    file as one frame. Files are opened for an append only, so there may be many more nodes than open files.
    """

    def __init__(self, folder: Path, nodes: int, memory: int) -> None:
        folder.mkdir()
        self._files = [folder / str(node) for node in range(nodes)]
        self._waiting: list[list[RowBlock]] = [[] for _ in range(nodes)]
        self._memory = memory
        self._bytes = 0

    def append(self, node: int, block: RowBlock) -> None:
        """Add rows to ``node``."""
        self._waiting[node].append(block)
        self._bytes += block.nbytes
        if self._bytes > self._memory:
            self.flush()

    def flush(self) -> None:
        """Write out what waits in memory."""
        for file, blocks in zip(self._files, self._waiting, strict=True):
            if blocks:
                append_frame(file, concatenate(blocks))
                blocks.clear()
        self._bytes = 0

    def frames(self, node: int) -> Iterator[RowBlock]:
        """Yield the rows of ``node`` in the order in which they came, and remove them from disk."""
        yield from read_frames(self._files[node])
        self._files[node].unlink(missing_ok=True)
