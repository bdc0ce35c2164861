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

ROW_BYTES = 41  # y, q, start, stop, place in the store, digest, rank
UNKNOWN = 255  # as a rank: no use is known
PIECE_ENTRIES = 1 << 21  # of a part of the arena, unless a single step needs more, or there is less memory

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
        self._rank = np.full(first[-1], UNKNOWN, np.uint8)  # scratch: which of the next pieces uses a row first
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
        turn, size, rows = self._turn % len(self._contents), self.piece, self.rows
        if self.sizes(needed).sum() > size:
            raise ValueError(f"{len(needed)} rows do not fit into a part of {size} entries")
        own = self._contents[turn]
        uses, bounds = np.concatenate([needed, *later]), np.cumsum([0, len(needed), *map(len, later)])
        arena = (rows.start, rows.stop, size, turn, len(self._contents))
        placed, sizes, start, copied, dropped = _arrange(needed, own, uses, bounds, self._rank, *arena)
        try:
            _copy(rows.data, rows.indices, rows.start, placed[:copied], start, sizes)
            spans = _spans(placed[copied:], sizes[copied:], start[copied:], rows.first, self._home, self._digest)
            self._files.read(Spans(*spans), rows.data, rows.indices)
        except BaseException:
            _forget(own[rows.start[own] // size == turn], rows.start, rows.stop)  # the piece at work does not use them
            raise
        self.entries_read += int(sizes[copied:].sum())
        return Change(dropped, placed, start)

    def commit(self, change: Change) -> None:
        """Let the table say where the rows are now; no piece is at work."""
        _forget(change.dropped, self.rows.start, self.rows.stop)
        _place(change.placed, change.start, self.rows.start, self.rows.stop)
        self._contents[self._turn % len(self._contents)] = change.placed
        self._turn += 1

    def close(self) -> None:
        """Close all files."""
        self._files.close()


@compiled
def _arrange(
    needed: Any, own: Any, uses: Any, bounds: Any, rank: Any, start: Any, stop: Any, size: int, turn: int, parts: int
) -> tuple[Any, Any, Any, int, Any]:
    """Who lies where in the part whose turn it is.

    Returns the rows in their new order (those that stay, those copied from the part that is next, those to be read),
    their sizes and places, how many of them are not read, and the rows that are dropped. ``uses`` are the rows of the
    piece and of the ones after it, from bounds[k] to before bounds[k + 1]; ``rank`` is all UNKNOWN before and after.
    """
    low, following = turn * size, (turn + 1) % parts * size
    for level in range(len(bounds) - 2, -1, -1):
        for k in range(bounds[level], bounds[level + 1]):
            rank[uses[k]] = level
    moved, lacking = np.empty(len(needed), np.int64), np.empty(len(needed), np.int64)
    moves = lacks = 0
    room = size
    for r in needed:
        if start[r] < 0:
            lacking[lacks], room = r, room - abs(stop[r] - start[r])
            lacks += 1
        elif following <= start[r] < following + size:
            moved[moves], room = r, room - (stop[r] - start[r])
            moves += 1
    unknown = len(bounds) - 1
    level_of, sizes_own = np.full(len(own), UNKNOWN, np.uint8), np.empty(len(own), np.int64)
    here = 0
    for k in range(len(own)):
        r = own[k]
        if low <= start[r] < low + size:  # else it was copied elsewhere
            level_of[k], sizes_own[k] = min(rank[r], unknown), stop[r] - start[r]
            here += 1
    stays = np.zeros(len(own), np.bool_)
    staying, full = 0, False
    for level in range(unknown + 1):
        for k in range(len(own)):
            if level_of[k] == level and not full:
                full = sizes_own[k] > room
                if not full:
                    stays[k], room = True, room - sizes_own[k]
                    staying += 1
    for r in uses:
        rank[r] = UNKNOWN
    placed, dropped = np.empty(staying + moves + lacks, np.int64), np.empty(here - staying, np.int64)
    count = drops = 0
    for k in range(len(own)):
        if stays[k]:
            placed[count] = own[k]
            count += 1
        elif level_of[k] != UNKNOWN:
            dropped[drops] = own[k]
            drops += 1
    placed[staying : staying + moves] = moved[:moves]
    placed[staying + moves :] = lacking[:lacks]
    sizes, target = np.empty(len(placed), np.int64), np.empty(len(placed), np.int64)
    end = low
    for k in range(len(placed)):
        sizes[k] = abs(stop[placed[k]] - start[placed[k]])
        target[k] = end
        end += sizes[k]
    return placed, sizes, target, staying + moves, dropped


@compiled
def _spans(rows: Any, sizes: Any, target: Any, first: Any, home: Any, digest: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What to read for rows in increasing order."""
    node, entry, expected = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), np.empty(len(rows), np.uint32)
    i = 0
    for k in range(len(rows)):
        while rows[k] >= first[i + 1]:
            i += 1
        node[k], entry[k], expected[k] = i, home[rows[k]], digest[rows[k]]
    return node, entry, sizes, expected, target


@compiled
def _forget(rows: Any, start: Any, stop: Any) -> None:
    """Rows are not in memory any more; their sizes stay known."""
    for r in rows:
        start[r], stop[r] = -1 - abs(stop[r] - start[r]), -1


@compiled
def _place(rows: Any, target: Any, start: Any, stop: Any) -> None:
    """Rows are in memory at ``target``."""
    for k in range(len(rows)):
        r = rows[k]
        size = abs(stop[r] - start[r])
        start[r], stop[r] = target[k], target[k] + size


@compiled
def _copy(data: Any, indices: Any, start: Any, rows: Any, target: Any, sizes: Any) -> None:
    """Copy rows, one after the other: a row may move down by less than its length."""
    for k in range(len(rows)):
        shift = start[rows[k]] - target[k]
        if shift != 0:
            for entry in range(target[k], target[k] + sizes[k]):
                data[entry] = data[entry + shift]
                indices[entry] = indices[entry + shift]
