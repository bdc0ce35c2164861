"""Work on rows that do not fit into memory, piece by piece; the rows of the next piece are read meanwhile.

Events are ordered node by node (`order`) and cut into pieces whose rows fit into a part of the arena (`RowCache`).
While one piece is at work, a background thread plans later ones and brings in the rows of the next. This changes
nothing but when local steps happen, which does not matter between two visits of their node: the bits are those of a run
with all rows in memory.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Foreseen, Method
from dtoken.compiled import compiled
from dtoken.data.ranges import joined
from dtoken.engine.events.order import Groups, is_at_node, node_by_node
from dtoken.engine.rows.row_cache import Change, RowCache, Units
from dtoken.schedule.events import LOCAL, VISIT, Events
from dtoken.schedule.samples import Samples, row_of

LOOKAHEAD = 6  # pieces that are planned before the first of them is at work: what is needed soon is known

T = TypeVar("T")


class PlannedPiece(NamedTuple):
    """A piece of work whose rows are known."""

    needed: Units  # in increasing order
    work: Callable[[], None]


class _Now:
    """No background: everything happens when it is asked for."""

    def submit(self, work: Callable[..., T], /, *arguments: Any) -> "Future[T]":
        done: Future[T] = Future()
        try:
            done.set_result(work(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing goes on."""


class RowPieces:
    """Pieces of work in order, each with its rows in memory.

    Parameters
    ----------
    cache
        Where the rows are.
    read_ahead
        Read the rows of the next piece while one is at work.
    """

    def __init__(self, cache: RowCache, read_ahead: bool = True) -> None:
        self.cache = cache
        self._reader = ThreadPoolExecutor(1, "dtoken-ahead") if read_ahead else _Now()
        self._queue: deque[Future[PlannedPiece]] = deque()
        self._loaded: Future[tuple[Change, PlannedPiece]] | None = None  # the next piece, taken from the queue

    def add(self, plan: Callable[[], PlannedPiece]) -> None:
        """Add a piece, and work on an earlier one when enough are known."""
        self._queue.append(self._reader.submit(plan))
        if len(self._queue) > LOOKAHEAD:
            self._advance()

    def finish(self) -> None:
        """Work on all pieces that were added."""
        while self._queue or self._loaded:
            self._advance()

    def forget(self) -> None:
        """Drop all pieces that were not at work yet."""
        dropped: list[Future[Any]] = [*self._queue, *([self._loaded] if self._loaded else [])]
        self._queue, self._loaded = deque(), None
        for pending in dropped:
            if not pending.cancel():
                pending.exception()  # waits until reading has stopped, whatever became of it

    def _advance(self) -> None:
        ready = None
        if self._loaded is not None:
            change, ready = self._loaded.result()
            self._loaded = None
            self.cache.commit(change)
        if self._queue:
            piece, later = self._queue.popleft(), list(self._queue)
            self._loaded = self._reader.submit(self._load, piece, later)
        if ready is not None:
            ready.work()

    def _load(
        self, piece: "Future[PlannedPiece]", later: "Sequence[Future[PlannedPiece]]"
    ) -> tuple[Change, PlannedPiece]:
        planned = piece.result()
        return self.cache.load(planned.needed, [other.result().needed for other in later]), planned

    def over_all_rows(self, work: Callable[[int, int], None], whole_nodes: bool = False) -> None:
        """Let ``work(first, stop)`` see all rows, in consecutive parts."""
        self.finish()
        self._over(0, len(self.cache.first) - 1, work, whole_nodes)
        self.finish()

    def over_node(self, i: int, work: Callable[[int, int], None]) -> None:
        """Add pieces in which ``work(first, stop)`` sees all rows of node i, in consecutive parts."""
        self._over(i, i + 1, work)

    def over_rows(self, nodes: NDArray[np.int64], numbers: NDArray[np.int64], work: Callable[[slice], None]) -> None:
        """Let ``work(own)`` see rows of ``nodes``, in parts: ``own`` are places in ``numbers``, which increase."""
        self.finish()
        cache = self.cache
        used = cache.first[nodes] + (numbers - cache.rows.first[nodes]) // cache.unit
        units = np.unique(used)
        bounds = np.append(joined(cache.sizes(units), cache.piece), len(units)).tolist()
        for first, stop in pairwise(bounds):
            own = slice(*np.searchsorted(used, (units[first], units[stop - 1] + 1)).tolist())
            self.add(lambda needed=units[first:stop], own=own: PlannedPiece(needed, lambda: work(own)))  # type: ignore[misc]
        self.finish()

    def _over(self, low: int, high: int, work: Callable[[int, int], None], whole: bool = False) -> None:
        """Add pieces with all rows of the nodes from ``low`` to before ``high``."""
        for first, stop in self._parts(low, high, whole):
            rows = self.cache.first_row(first), self.cache.first_row(stop)
            self.add(lambda a=first, b=stop, rows=rows: PlannedPiece(np.arange(a, b), lambda: work(*rows)))  # type: ignore[misc]

    def _parts(self, low: int, high: int, whole: bool) -> Iterator[tuple[int, int]]:
        """First unit and the one after the last of parts that fit into memory, of whole nodes if that is asked for."""
        cache = self.cache
        first, stop = cache.first[[low, high]].tolist()
        while first < stop:
            end = _fitting(cache.begin, cache.end, first, stop, cache.piece)
            if whole:
                end = int(cache.first[np.searchsorted(cache.first, end, "right") - 1])
                end = end if end > first else int(cache.first[np.searchsorted(cache.first, first, "right")])
            yield first, end
            first = end

    def close(self) -> None:
        """End reading, and close all files."""
        self.forget()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self.cache.close()


def computes_on_visit(method: Method) -> bool:
    """Whether a visit may use the node's rows; to believe so wrongly costs reads, nothing else."""
    return bool(getattr(method, "on_arrival", True))


class Piece(NamedTuple):
    """Events whose rows fit into a part of the arena."""

    events: Events
    used: NDArray[np.int64]  # units that the events use, or nodes all of whose units they use; -1: none, or said before
    whole_nodes: bool

    def needed(self, cache: RowCache) -> Units:
        """The units that the events use, in increasing order."""
        used = np.unique(self.used[self.used >= 0])
        if not self.whole_nodes:
            return used
        counts = cache.first[used + 1] - cache.first[used]
        ends = np.cumsum(counts)
        return np.asarray(np.arange(counts.sum()) + np.repeat(cache.first[used] - (ends - counts), counts))


class Step(NamedTuple):
    """A local step that uses more rows than fit into a part of the arena."""

    node: int  # its place among the hosted ones


def cut(
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    cache: RowCache,
    method: Method,
    groups: Groups = None,
    foreseen: Foreseen | None = None,
) -> Iterator[Piece | Step]:
    """Cut events into pieces, and steps that must be divided.

    Parameters
    ----------
    events, samples, method
        What happens.
    slot
        Place of each node among the hosted ones, -1: hosted elsewhere.
    cache
        Where rows will be.
    groups
        The group of each node, if several work side by side.
    foreseen
        Which rows visits use; None: what the events say, or all rows of their node.
    """
    events = node_by_node(events, slot, groups)
    if cache.in_parts:
        yield from _single_steps(events, slot)
        return
    if foreseen is not None:
        yield from _foreseen_visits(events, slot, cache, foreseen)
        return
    entries = np.empty(0, np.int64)
    if not method.draws_samples:
        totals = np.concatenate([[0], np.cumsum(cache.sizes(np.arange(cache.first[-1])))])
        entries = np.diff(totals[cache.first])
    used = np.full(events.size, -1)
    shared = cache.unit > cache.rows.block  # several samples, so a piece may use a unit more than once
    seen = np.full(len(cache.begin) if shared else len(entries), -1)
    tables = _Tables(cache.rows.first, cache.unit, cache.first, cache.begin, cache.end, entries, seen)
    ends = _ends(events, slot, samples, tables, computes_on_visit(method), cache.piece, used)
    for start, end in pairwise([0, *ends.tolist()]):
        yield Piece(events.between(start, end), used[start:end], not method.draws_samples)


def _foreseen_visits(
    events: Events, slot: NDArray[np.int64], cache: RowCache, foreseen: Foreseen
) -> Iterator[Piece | Step]:
    """Visits whose rows are known, as many as fit into a part of the arena at a time."""
    seen, used = np.zeros(len(cache.begin), bool), np.empty(0, np.int64)
    start = total = 0
    for event in np.flatnonzero((events.kind == VISIT) & (slot[events.node] >= 0)).tolist():
        i = int(slot[events.node[event]])
        units = np.unique(cache.first[i] + foreseen(i, float(events.at[event])) // cache.unit)
        fresh = units[~seen[units]]
        if total + (size := int(cache.sizes(fresh).sum())) > cache.piece:
            yield Piece(events.between(start, event), used, whole_nodes=False)
            seen[used], used = False, used[:0]
            start, total, fresh, size = event, 0, units, int(cache.sizes(units).sum())
        seen[fresh], used, total = True, np.concatenate([used, fresh]), total + size
    yield Piece(events.between(start, events.size), used, whole_nodes=False)


def _single_steps(events: Events, slot: NDArray[np.int64]) -> Iterator[Piece | Step]:
    """Each local step for itself, and what lies between them, which needs no rows."""
    start = 0
    for step in [*np.flatnonzero(events.kind == LOCAL).tolist(), events.size]:
        if start < step:
            yield Piece(events.between(start, step), np.empty(0, np.int64), whole_nodes=True)
        if step < events.size:
            yield Step(int(slot[events.node[step]]))
        start = step + 1


@compiled
def _fitting(begin: Any, end: Any, first: int, stop: int, limit: int) -> int:
    """The end of the longest run of units from ``first`` on that has at most so many entries, or of one unit."""
    total, last = abs(end[first] - begin[first]), first + 1
    while last < stop and total + abs(end[last] - begin[last]) <= limit:
        total += abs(end[last] - begin[last])
        last += 1
    return last


class _Tables(NamedTuple):
    """What is known of the hosted rows, in memory or not."""

    first: NDArray[np.int64]  # (hosted + 1,) first row of each node
    unit: int  # rows of a unit
    first_unit: NDArray[np.int64]  # (hosted + 1,) first unit of each node
    begin: NDArray[np.int64]  # (units,) where a unit lies; with the next, its size
    end: NDArray[np.int64]  # (units,)
    entries: NDArray[np.int64]  # (hosted,) of each node, if steps use all its rows; else (0,)
    seen: NDArray[np.int64]  # (units or hosted,) the last piece that used it; (0,): no piece uses anything twice


@compiled
def _ends(
    events: Any, slot: Any, samples: Any, tables: Any, visits_compute: bool, limit: int, used: Any
) -> NDArray[np.int64]:
    """Where pieces end; writes what each event uses that no event of its piece before it does."""
    first, rows, first_unit, begin, end, entries, seen = tables
    ends, count, total = np.empty(len(events.kind) + 1, np.int64), 0, 0
    for event in range(len(events.kind)):
        kind, i = events.kind[event], slot[events.node[event]]
        if i < 0 or not is_at_node(kind):
            continue
        if len(entries) == 0:
            row = row_of(samples, first, i, events.draw[event])
            if row < 0:
                continue
            thing = first_unit[i] + (row - first[i]) // rows
            size = abs(end[thing] - begin[thing])
        elif kind == LOCAL or visits_compute:
            thing, size = i, entries[i]
        else:
            continue
        if len(seen) > 0 and seen[thing] == count:
            continue
        used[event] = thing
        if total + size > limit:
            ends[count], total = event, 0
            count += 1
        if len(seen) > 0:
            seen[thing] = count
        total += size
    ends[count] = len(events.kind)
    return ends[: count + 1]
