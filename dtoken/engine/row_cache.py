"""The rows of the hosted nodes in a fixed amount of memory: what is needed next is there, what is needed last is not.

Work comes in pieces, each with a set of rows that it needs (`stream`). Memory is one arena in equal parts that take
turns: the rows that piece p lacks go into part p mod parts, from which the rows are dropped whose next use, as far as
the schedule is known, is farthest away; rows that stay move together. Rows of the piece that lie in the part whose turn
is next are copied over, because that part changes while the piece is at work. So bytes that change while a piece is at
work are none of its own, and the table that says where each row is (``rows.start``, ``rows.stop``) changes only between
two pieces (`Change`): compiled steps never notice. See docs/design/out-of-core.md.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.row_files import ENTRY_BYTES, RowFiles, Spans, row_digests
from dtoken.data.store import ShardStore
from dtoken.errors import InputError
from dtoken.problem.blocks import SINGLE_ROWS, Blocks, block_norms
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import squared_norms
from dtoken.problem.losses import Loss

ROW_BYTES = 40  # y, q, start, stop, place in the store, digest
PIECE_ENTRIES = 1 << 20  # of a part of the arena, unless a single step needs more, or there is less memory

Rows = NDArray[np.int64]


class Change(NamedTuple):
    """What a piece changes in the table of rows."""

    dropped: Rows
    placed: Rows
    start: NDArray[np.int64]  # of the placed ones


class RowCache:
    """As many rows of ``nodes`` as fit into ``entries`` entries, in ``rows``.

    Parameters
    ----------
    store, nodes, loss
        Whose rows, and the loss.
    entries
        Size of the arena.
    sample
        What a step uses: blocks of rows; None: all rows of a node.
    readers
        Threads that read side by side.
    """

    def __init__(
        self,
        store: ShardStore,
        nodes: Sequence[int],
        loss: Loss,
        entries: int,
        sample: Blocks | None = SINGLE_ROWS,
        readers: int = 1,
    ) -> None:
        if max((store.node_nonzeros[node] for node in nodes), default=0) >= 2**32:
            raise InputError("a node has more than 4,294,967,295 non-zeros, too many for engine.memory; use more nodes")
        counts = [store.node_rows[node] for node in nodes]
        first = np.cumsum([0, *counts])
        start, stop = np.full(first[-1], -1), np.full(first[-1], -1)
        labels, norms = np.empty(first[-1]), np.empty(first[-1])
        data, indices = np.empty(entries), np.empty(entries, np.uint32)
        w = 1.0 / np.array(counts)
        block = 1 if sample is None else sample.rows
        self.rows = HostedRows(
            data, indices, start, stop, labels, norms, first, w, store.d, loss.code, loss.curvature, block
        )
        self._home = np.empty(first[-1], np.uint32)  # first entry of each row inside its node
        self._digest = np.empty(first[-1], np.uint32)
        self._scan(store, nodes)
        if sample is not None and sample.rows > 1:
            norms.fill(0.0)
            of_blocks = block_norms(store, sample)
            for i, node in enumerate(nodes):
                norms[first[i] : first[i + 1] : sample.rows] = of_blocks[node]
        largest = self._largest(sample)
        if 2 * largest > entries:
            raise InputError(
                f"a step uses up to {ENTRY_BYTES * largest / 1e6:,.1f} MB of rows, and there must be room for two, but "
                f"engine.memory leaves {ENTRY_BYTES * entries / 1e6:,.1f} MB; use more memory, or smaller blocks"
            )
        self._files = RowFiles(store, nodes, readers)
        self.piece = min(max(PIECE_ENTRIES, largest), entries // 2)
        self._contents: list[Rows] = [np.empty(0, np.int64)] * (entries // self.piece)  # rows of each part, by address
        self._turn = 0
        self.entries_read = 0

    def _scan(self, store: ShardStore, nodes: Sequence[int]) -> None:
        """Fill the tables in one pass, in which all chunks are verified."""
        rows, row = self.rows, 0
        for node in nodes:
            entry = 0
            for block in store.blocks(node):
                part = slice(row, row + block.rows)
                rows.y[part] = block.y
                squared_norms(block.data, block.indptr, rows.q[part])
                row_digests(block.data.view(np.uint64), block.indices.view(np.uint32), block.indptr, self._digest[part])
                self._home[part] = entry + block.indptr[:-1]
                rows.start[part] = -1 - np.diff(block.indptr)  # absent, but the size is known: see `sizes`
                row, entry = row + block.rows, entry + len(block.data)

    def _largest(self, sample: Blocks | None) -> int:
        """Most entries that a step uses."""
        largest = 0
        for first, last in pairwise(self.rows.first.tolist()):
            sizes = self.sizes(np.arange(first, last))
            step = last - first if sample is None else sample.rows
            largest = max(largest, int(np.add.reduceat(sizes, np.arange(0, last - first, step)).max()))
        return largest

    def sizes(self, rows: Rows) -> NDArray[np.int64]:
        """Entries of rows, in memory or not."""
        return np.asarray(np.abs(self.rows.stop[rows] - self.rows.start[rows]))

    def load(self, needed: Rows, later: Sequence[Rows] = ()) -> Change:
        """Bring rows into memory, while the piece before is at work.

        Parameters
        ----------
        needed
            The rows of the piece, in increasing order, with at most ``piece`` entries.
        later
            The rows of the pieces after it, as far as they are known, each in increasing order.
        """
        turn, size = self._turn % len(self._contents), self.piece
        if self.sizes(needed).sum() > size:
            raise ValueError(f"{len(needed)} rows do not fit into a part of {size} entries")
        following = (turn + 1) % len(self._contents)
        where = self.rows.start[needed]
        # a floor division by the size is the number of the part; negative: not in memory
        moved, lacking = needed[where // size == following], needed[where < 0]
        own = self._contents[turn]
        own = own[self.rows.start[own] // size == turn]  # others were copied to another part meanwhile
        room = size - int(self.sizes(moved).sum() + self.sizes(lacking).sum())
        stays = self._staying(own, [needed, *later], room)
        kept = own[stays]
        placed = np.concatenate([kept, moved, lacking])
        sizes = self.sizes(placed)
        start = turn * size + np.cumsum(sizes) - sizes
        copied = len(kept) + len(moved)
        try:
            _copy(self.rows.data, self.rows.indices, self.rows.start[placed[:copied]], start[:copied], sizes[:copied])
            self._read(lacking, sizes[copied:], start[copied:])
        except BaseException:
            self._forget(own)  # they may be overwritten; the piece that is at work does not use them
            raise
        return Change(own[~stays], placed, start)

    def _staying(self, own: Rows, uses: Sequence[Rows], room: int) -> NDArray[np.bool_]:
        """Which of the rows of a part stay: those that are used soonest, as many as there is room for."""
        rank = np.full(len(own), len(uses))
        for number, rows in reversed(list(enumerate(uses))):
            rank[_among(own, rows)] = number
        order = np.argsort(rank, kind="stable")
        stays = np.zeros(len(own), np.bool_)
        stays[order[np.cumsum(self.sizes(own[order])) <= room]] = True
        return stays

    def _read(self, rows: Rows, sizes: NDArray[np.int64], start: NDArray[np.int64]) -> None:
        node = np.searchsorted(self.rows.first, rows, "right") - 1
        spans = Spans(node, self._home[rows].astype(np.int64), sizes, self._digest[rows], start)
        self._files.read(spans, self.rows.data, self.rows.indices)
        self.entries_read += int(sizes.sum())

    def commit(self, change: Change) -> None:
        """Let the table say where the rows are now; no piece is at work."""
        self._forget(change.dropped)
        sizes = self.sizes(change.placed)
        self.rows.start[change.placed] = change.start
        self.rows.stop[change.placed] = change.start + sizes
        self._contents[self._turn % len(self._contents)] = change.placed
        self._turn += 1

    def _forget(self, rows: Rows) -> None:
        self.rows.start[rows] = -1 - self.sizes(rows)
        self.rows.stop[rows] = -1

    def close(self) -> None:
        """Close all files."""
        self._files.close()


def _among(rows: Rows, ordered: Rows) -> NDArray[np.bool_]:
    """Which of the rows occur in a list in increasing order."""
    if len(ordered) == 0:
        return np.zeros(len(rows), np.bool_)
    place = np.minimum(np.searchsorted(ordered, rows), len(ordered) - 1)
    return np.asarray(ordered[place] == rows)


@compiled
def _copy(data: Any, indices: Any, source: Any, target: Any, size: Any) -> None:
    """Copy rows, one after the other: a row may move down by less than its length."""
    for row in range(len(source)):
        shift = source[row] - target[row]
        if shift != 0:
            for entry in range(target[row], target[row] + size[row]):
                data[entry] = data[entry + shift]
                indices[entry] = indices[entry + shift]
