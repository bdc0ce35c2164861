"""The rows of the hosted nodes in a fixed amount of memory: what is needed next is there, what is needed last is not.

Work comes in pieces, each with a set of rows that it needs (`pieces`). Rows that are used together, those of a sample
or of a bucket of samples (``sampling=permuted``), are brought in and dropped together, as one unit. Memory is one arena
in equal parts that take turns: the units that piece p lacks go into part p mod parts, from which those are dropped
whose next use, as far as the schedule is known, is farthest away; what stays moves together. Units of the piece that
lie in the part whose turn is next are copied over, because that part changes while the piece is at work. So bytes that
change while a piece is at work are none of its own, and the tables that say where everything is (``rows.start``,
``rows.stop``) change only between two pieces (`Change`): compiled steps never notice. See docs/design/out-of-core.md.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoken.algorithms.contract import Method
from dtoken.compiled import compiled
from dtoken.data.row_files import ENTRY_BYTES, RowFiles, Spans, digest_of, digest_part
from dtoken.data.store import ShardStore
from dtoken.errors import InputError
from dtoken.problem.blocks import Blocks
from dtoken.problem.hosted import HostedRows, hosted_groups, place_block_norms
from dtoken.problem.kernels import squared_norms
from dtoken.problem.losses import Loss

OF_NODES = 64  # rows of a unit where steps use all rows of a node, unless the method says it
UNKNOWN = 255  # as a rank: no use is known
PIECE_ENTRIES = 1 << 20  # of a part of the arena, unless a single step needs more; two parts fit into a cache

Units = NDArray[np.int64]


def table_bytes(unit: int) -> float:
    """Bytes for each row beside its entries: y, q, start and stop; its unit's place in the store, digest and rank."""
    return 32 + 9 if unit == 1 else 32 + (9 + 24) / unit


def unit_rows(method: Method) -> int:
    """How many rows are read and kept together: those of a sample, or of a bucket of samples that are used in order."""
    bucket = getattr(method, "bucket", 1 if method.draws_samples else None)
    return int(getattr(method, "block_rows", OF_NODES)) if bucket is None else method.blocks.rows * int(bucket)


def reaches(method: Method, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that a visit uses at most, of nodes with so many rows each."""
    distinct, place = np.unique(rows, return_inverse=True)
    return np.array([method.reach(int(m)) for m in distinct], np.int64)[place]


class Change(NamedTuple):
    """What a piece changes in the tables."""

    dropped: Units
    placed: Units
    begin: NDArray[np.int64]  # of the placed ones


class RowCache:
    """As many rows of ``nodes`` as fit into ``entries`` entries, in ``rows``.

    Parameters
    ----------
    store, nodes, loss
        Whose rows, and the loss.
    entries
        Size of the arena.
    method
        What a step uses: a block of rows, or all rows of a node, part by part if it can and must.
    readers
        Threads that read side by side.
    """

    def __init__(
        self,
        store: ShardStore,
        nodes: ArrayLike,
        loss: Loss,
        entries: int,
        method: Method,
        readers: int = 1,
    ) -> None:
        numbers = np.asarray(nodes, np.int64)
        if store.node_nonzeros[numbers].max(initial=0) >= 2**32:
            raise InputError("a node has more than 4,294,967,295 non-zeros, too many for engine.memory; use more nodes")
        counts = store.node_rows[numbers]
        first, self.unit = np.concatenate([[0], np.cumsum(counts)]), unit_rows(method)
        self.first = np.concatenate([[0], np.cumsum(-(-counts // self.unit))])  # first unit of each node
        start, stop = np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64)
        labels, norms = np.empty(first[-1]), np.empty(first[-1])
        data, indices, block = np.empty(entries), np.empty(entries, np.uint32), method.blocks.rows
        self.rows = HostedRows(
            data, indices, start, stop, labels, norms, first, 1.0 / counts, store.d, loss.code, loss.curvature, block
        )
        units = int(self.first[-1])
        self._row = np.empty(0, np.int64)  # first row of each unit, where units are not rows
        self.begin, self.end = start, stop  # of each unit in the arena; where it is not there, both negative
        if self.unit > 1:
            self._row = Blocks(self.unit).first_rows(first)
            self.begin, self.end = np.empty(units, np.int64), np.empty(units, np.int64)
        self._home, self._digest = np.empty(units, np.uint32), np.empty(units, np.uint32)  # first entry in its node
        self._rank = np.full(units, UNKNOWN, np.uint8)  # scratch: which of the next pieces uses a unit first
        self._scan(store, numbers)
        if block > 1:
            place_block_norms(store, numbers, method.blocks, first, norms)
        sizes, of_nodes = self.sizes(np.arange(units)), store.node_nonzeros[numbers]
        self.in_parts = bool(method.phases) and 2 * of_nodes.max(initial=0) > entries  # whether steps are divided
        by_units = method.draws_samples or self.in_parts
        largest = int((sizes if by_units else self._of_visits(method, sizes, of_nodes)).max(initial=0))
        if 2 * largest > entries:
            raise InputError(
                f"a step uses up to {ENTRY_BYTES * largest / 1e6:,.1f} MB of rows, and there must be room for two, but "
                f"engine.memory leaves {ENTRY_BYTES * entries / 1e6:,.1f} MB; use more memory, or smaller blocks"
            )
        self._files = RowFiles(store, nodes, readers)
        self.piece = min(max(PIECE_ENTRIES, largest), entries // 2)
        self._contents: list[Units] = [np.empty(0, np.int64)] * (entries // self.piece)  # of each part, by address
        self._turn = 0
        self.entries_read = 0

    def _of_visits(self, method: Method, sizes: NDArray[np.int64], of_nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entries that a visit of each node uses at most: of all its rows, or of the longest ones that it can reach."""
        found, reach = of_nodes.copy(), -(-reaches(method, np.diff(self.rows.first)) // self.unit)
        for i in np.flatnonzero(reach < np.diff(self.first)).tolist():
            found[i] = np.sort(sizes[self.first[i] : self.first[i + 1]])[-reach[i] :].sum()
        return found

    def _scan(self, store: ShardStore, nodes: NDArray[np.int64]) -> None:
        """Fill the tables in one pass, in which all chunks are verified."""
        rows, i, row = self.rows, 0, 0
        for count, blocks in hosted_groups(store, nodes):
            own, bounds = slice(self.first[i], self.first[i + count]), self.first[i : i + count + 1]
            size, digest = np.zeros(own.stop - own.start, np.int64), np.zeros(own.stop - own.start, np.uint64)
            units = _Units(self.unit, i, rows.first, self.first, size, digest)
            for block in blocks:
                part = slice(row, row + block.rows)
                rows.y[part] = block.y
                squared_norms(block.data, block.indptr, rows.q[part])
                columns = _Columns(block.data.view(np.uint64), block.indices.view(np.uint32), block.indptr)
                _note(columns, row, units, rows.start[part], rows.stop[part])
                row += block.rows
            before = np.cumsum(size) - size  # entries before each unit, over these nodes
            self._home[own] = before - np.repeat(before[bounds[:-1] - own.start], np.diff(bounds))
            self.begin[own], self.end[own] = -1 - size, -1  # absent, but the size is known: see `sizes`
            _note_digests(digest, size, self._digest[own])
            i += count

    def sizes(self, units: Units) -> NDArray[np.int64]:
        """Entries of units, in memory or not."""
        return np.asarray(np.abs(self.end[units] - self.begin[units]))

    def first_row(self, unit: int) -> int:
        """The first row of a unit; of the one after the last, how many rows there are."""
        return unit if self.unit == 1 else int(self._row[unit]) if unit < len(self._row) else len(self.rows.y)

    def load(self, needed: Units, later: Sequence[Units] = ()) -> Change:
        """Bring units into memory, while the piece before is at work.

        Parameters
        ----------
        needed
            The units of the piece, in increasing order, with at most ``piece`` entries.
        later
            Those of the pieces after it, as far as they are known, each in increasing order.
        """
        turn, size, rows = self._turn % len(self._contents), self.piece, self.rows
        if self.sizes(needed).sum() > size:
            raise ValueError(f"{len(needed)} units do not fit into a part of {size} entries")
        own = self._contents[turn]
        uses, bounds = np.concatenate([needed, *later]), np.cumsum([0, len(needed), *map(len, later)])
        arena = _Arena(self.begin, self.end, size, turn, len(self._contents))
        placed, sizes, begin, copied, dropped = _arrange(needed, own, uses, bounds, self._rank, arena)
        try:
            _copy(rows.data, rows.indices, self.begin, placed[:copied], begin, sizes)
            if later:
                self._files.announce(self._spans(later[0][self.begin[later[0]] < 0]))
            spans = _spans(placed[copied:], sizes[copied:], begin[copied:], self.first, self._home, self._digest)
            self._files.read(Spans(*spans), rows.data, rows.indices)
        except BaseException:
            _forget(own[self.begin[own] // size == turn], self.begin, self.end)  # the piece at work does not use them
            raise
        self.entries_read += int(sizes[copied:].sum())
        return Change(dropped, placed, begin)

    def _spans(self, units: Units) -> Spans:
        """Where units are, which have no place in memory yet."""
        return Spans(*_spans(units, self.sizes(units), units, self.first, self._home, self._digest))

    def commit(self, change: Change) -> None:
        """Let the tables say where everything is now; no piece is at work."""
        _forget(change.dropped, self.begin, self.end)
        _place(change.placed, change.begin, self.begin, self.end)
        if self.unit > 1:
            _place_rows(change.placed, change.begin, self._row, self.rows)
        self._contents[self._turn % len(self._contents)] = change.placed
        self._turn += 1

    def close(self) -> None:
        """Close all files."""
        self._files.close()


class _Columns(NamedTuple):
    """A block of rows, as its digests see it."""

    bits: NDArray[np.uint64]
    indices: NDArray[np.uint32]
    indptr: NDArray[np.int64]


class _Units(NamedTuple):
    """The units of some nodes, while their rows are taken down."""

    rows: int  # of a unit
    node: int  # the first one
    first_row: NDArray[np.int64]  # of all nodes
    first: NDArray[np.int64]  # first unit of all nodes
    size: NDArray[np.int64]  # (units,) entries so far
    digest: NDArray[np.uint64]  # (units,) of these


@compiled
def _note(columns: Any, row: int, units: Any, start: Any, stop: Any) -> None:
    """Take down a block of rows, the first of which is number ``row`` of all: where each lies inside its unit."""
    bits, indices, indptr = columns
    size, digest, i = units.size, units.digest, units.node
    base = units.first[i]
    for j in range(len(start)):
        while row + j >= units.first_row[i + 1]:
            i += 1
        u = units.first[i] - base + (row + j - units.first_row[i]) // units.rows
        length = indptr[j + 1] - indptr[j]
        digest[u] += digest_part(bits, indices, indptr[j], indptr[j + 1], size[u])
        start[j], stop[j] = size[u], size[u] + length
        size[u] += length


@compiled
def _note_digests(shares: Any, size: Any, out: Any) -> None:
    for u in range(len(out)):
        out[u] = digest_of(shares[u], size[u])


class _Arena(NamedTuple):
    """Where units lie, and which part's turn it is."""

    begin: NDArray[np.int64]  # (units,)
    end: NDArray[np.int64]  # (units,)
    size: int  # of a part
    turn: int
    parts: int


@compiled
def _arrange(needed: Any, own: Any, uses: Any, bounds: Any, rank: Any, arena: Any) -> tuple[Any, Any, Any, int, Any]:
    """Who lies where in the part whose turn it is.

    Returns the units in their new order (those that stay, those copied from the part that is next, those to be read),
    their sizes and places, how many of them are not read, and the ones that are dropped. ``uses`` are the units of the
    piece and of the ones after it, from bounds[k] to before bounds[k + 1]; ``rank`` is all UNKNOWN before and after.
    """
    begin, end, size, turn, parts = arena
    low, following = turn * size, (turn + 1) % parts * size
    for level in range(len(bounds) - 2, -1, -1):
        for k in range(bounds[level], bounds[level + 1]):
            rank[uses[k]] = level
    moved, lacking = np.empty(len(needed), np.int64), np.empty(len(needed), np.int64)
    moves = lacks = 0
    room = size
    for u in needed:
        if begin[u] < 0:
            lacking[lacks], room = u, room - abs(end[u] - begin[u])
            lacks += 1
        elif following <= begin[u] < following + size:
            moved[moves], room = u, room - (end[u] - begin[u])
            moves += 1
    unknown = len(bounds) - 1
    level_of, sizes_own = np.full(len(own), UNKNOWN, np.uint8), np.empty(len(own), np.int64)
    here = 0
    for k in range(len(own)):
        u = own[k]
        if low <= begin[u] < low + size:  # else it was copied elsewhere
            level_of[k], sizes_own[k] = min(rank[u], unknown), end[u] - begin[u]
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
    for u in uses:
        rank[u] = UNKNOWN
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
    place = low
    for k in range(len(placed)):
        sizes[k] = abs(end[placed[k]] - begin[placed[k]])
        target[k] = place
        place += sizes[k]
    return placed, sizes, target, staying + moves, dropped


@compiled
def _spans(units: Any, sizes: Any, target: Any, first: Any, home: Any, digest: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What to read for units in increasing order."""
    count = len(units)
    node, entry, expected = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint32)
    i = 0
    for k in range(count):
        while units[k] >= first[i + 1]:
            i += 1
        node[k], entry[k], expected[k] = i, home[units[k]], digest[units[k]]
    return node, entry, sizes, expected, target


@compiled
def _forget(units: Any, begin: Any, end: Any) -> None:
    """Units are not in memory any more; their sizes stay known."""
    for u in units:
        begin[u], end[u] = -1 - abs(end[u] - begin[u]), -1


@compiled
def _place(units: Any, target: Any, begin: Any, end: Any) -> None:
    """Units are in memory at ``target``."""
    for k in range(len(units)):
        u = units[k]
        size = abs(end[u] - begin[u])
        begin[u], end[u] = target[k], target[k] + size


@compiled
def _place_rows(units: Any, target: Any, row: Any, rows: Any) -> None:
    """So are their rows."""
    for k in range(len(units)):
        r = row[units[k]]
        last = row[units[k] + 1] if units[k] + 1 < len(row) else len(rows.y)
        shift = target[k] - rows.start[r]
        for other in range(r, last):
            rows.start[other] += shift
            rows.stop[other] += shift


@compiled
def _copy(data: Any, indices: Any, begin: Any, units: Any, target: Any, sizes: Any) -> None:
    """Copy units, one after the other: one may move down by less than its length."""
    for k in range(len(units)):
        shift = begin[units[k]] - target[k]
        if shift != 0:
            for entry in range(target[k], target[k] + sizes[k]):
                data[entry] = data[entry + shift]
                indices[entry] = indices[entry + shift]
