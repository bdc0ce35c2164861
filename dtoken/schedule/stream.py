"""The shared-seed schedule: a pure function from (seed, law, walk) to events (Hendrikx 2022, appendix Experiments).

Events are drawn in segments of a fixed number of steps from Philox, a counter-based generator: the numbers of a segment
depend on the seed and the segment's number only. What a segment inherits from the ones before it is a ``Start``: where
the tokens are, how many jumps each has made, what the clock says, where nodes go through their samples in order
(``permuted``) how many each has used, and what a walk remembers that has a law of its own (``walks``). Nothing else is
remembered, so any worker can produce any segment. Tokens may be lost and forked (``failures``): who is there, and what
nodes noted to know, is inherited, too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.graph.sampler import step
from dtoken.graph.walks import Walk
from dtoken.schedule.events import LOCAL, MEET, MOVE, NO_SAMPLE, NONE, VISIT, Events
from dtoken.schedule.failures import NO_FAILURES, Failures
from dtoken.schedule.fate import Fate, after_visit, burst, chance, die, fate_of, is_lost_on_way, living, pick
from dtoken.schedule.permuted import Order, in_order
from dtoken.schedule.random import bits

SEGMENT_STEPS = 1 << 16


@dataclass(frozen=True)
class Law:
    """The law of one step of a token method."""

    tokens: int  # K
    p_visit: float  # p_comm
    p_meet: float  # p_tt: meetings of two tokens wherever they are; the rest, p_comp, are local steps
    nodes: NDArray[np.float64]  # (n,) law of the node of a local step
    jumps: int = 1  # N: jumps of a token before it mixes
    computing_visits: bool = False  # a visit uses a sample of its node, too
    continuized: bool = False  # steps ring at the points of a Poisson process of rate 1
    unit: float = 1.0  # otherwise step t (from 0) happens at (t + 1) * unit
    p_here: float = 0.0  # probability that a token that arrives where others are then mixes with one of them
    order: Order | None = None  # nodes go through their samples in permuted order; None: these are independent draws


class Start(NamedTuple):
    """All that a segment inherits from those before it."""

    segment: int
    positions: NDArray[np.int64]  # (K,) node of each token
    jumps: NDArray[np.int64]  # (K,) jumps of each token so far: its clock on a graph that varies
    at: float  # time of the last step
    used: NDArray[np.int64] = np.empty(0, np.int64)  # (n,) samples that each node has used; (0,): none, or no order
    walk: NDArray[np.float64] = np.empty(0)  # what the walk remembers; (0,): nothing, or nothing yet
    fate: NDArray[np.float64] = np.empty(0)  # which tokens there are, and what nodes noted; (0,): none is ever lost
    busy: NDArray[np.float64] = np.empty(
        0
    )  # (n,) of a timed schedule: until when each node computes; (0,): no start yet
    arrival: NDArray[np.float64] = np.empty(0)  # (K,) the same: when each token arrives
    path: NDArray[np.int64] = np.empty((0, 0), np.int64)  # (K, longest) the nodes to which each is on its way
    hops: NDArray[np.int64] = np.empty(0, np.int64)  # (K,) how many these are


class Schedule(Protocol):
    """Where events come from: drawn, or read from a log."""

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment, each with the start of the next."""


def first_start(n: int, tokens: int) -> Start:
    """Tokens evenly spread over the nodes, nothing happened yet."""
    return start_at(np.arange(tokens, dtype=np.int64) * n // tokens)


def start_at(positions: NDArray[np.int64]) -> Start:
    """Tokens at ``positions``, nothing happened yet."""
    return Start(0, positions, np.zeros(len(positions), np.int64), 0.0)


@dataclass(frozen=True)
class Drawn:
    """An endless schedule, drawn from a seed.

    Examples
    --------
    >>> from dtoken.graph import build, walk
    >>> law = Law(tokens=2, p_visit=0.5, p_meet=0.0, nodes=np.full(4, 0.25))
    >>> schedule = Drawn(0, law, walk(build("ring", 4), "simple"))
    >>> events, _ = next(schedule.segments(first_start(4, 2)))
    >>> events.size
    65536
    """

    seed: int
    law: Law
    walk: Walk
    failures: Failures = NO_FAILURES

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment, as long as there is a token."""
        while not self.failures.on or living(self.failures, start.fate, self.walk.n).any():
            events, start = self.segment(start)
            yield events, start

    def segment(self, start: Start) -> tuple[Events, Start]:
        """The events of one segment, and the start of the next."""
        law = self.law
        generator = np.random.Generator(
            np.random.Philox(key=np.array([self.seed, 0], np.uint64), counter=[0, 0, 0, start.segment])
        )
        what, who, draw = generator.random((3, SEGMENT_STEPS))
        visits = int(np.count_nonzero(what < law.p_visit))
        jumps = generator.random(visits * law.jumps)
        here = generator.random(visits if law.p_here > 0 else 0)
        if law.continuized:
            at = start.at + np.cumsum(generator.standard_exponential(SEGMENT_STEPS))
        else:
            before = start.segment * SEGMENT_STEPS
            at = law.unit * np.arange(before + 1, before + SEGMENT_STEPS + 1, dtype=np.float64)
        positions, taken = start.positions.copy(), start.jumps.copy()
        choose, own, tables, most = self.walking(start)
        fates = start.fate.copy()
        own_fate = fate_of(self.failures, fates, self.seed, law.tokens, self.walk.n)
        changes = 2 * visits + len(positions) if own_fate.used else 0
        events = empty_events(SEGMENT_STEPS + len(jumps) * most - visits + len(here) + changes)
        odds = _Odds(law.p_visit, law.p_meet, law.p_here, law.tokens, law.jumps, law.computing_visits, *self._nodes)
        numbers = _Numbers(what, who, draw, jumps, here, at)
        count = _expander(choose or nowhere)(numbers, odds, tables, own, own_fate, positions, taken, events)
        events = events.between(0, count)
        used = in_order(events, law.order, self.seed, start.used)
        return events, Start(start.segment + 1, positions, taken, float(at[-1]), used, own.state, fates)

    def walking(self, start: Start) -> "tuple[Callable[..., int] | None, Own, Tables, int]":
        """How tokens choose where to go (None: by tables), what that needs and remembers, and the most moves of one."""
        walk, law = self.walk, self.walk.law
        tables = Tables(walk.iid, walk.n, walk.indptr, walk.neighbours, walk.cumulative, walk.hold)
        key = np.uint64(bits(np.uint64(self.seed), 2))
        if law is None or law.jump is None:
            return None, Own(False, key, _NOTHING, start.walk), tables, 1
        state = start.walk.copy() if start.walk.size else law.state(walk.n, len(start.positions))
        own = Own(True, key, self._constants, np.ascontiguousarray(state, dtype=np.float64))
        return law.jump, own, tables, law.most_moves

    @cached_property
    def _constants(self) -> Any:
        assert self.walk.law is not None
        return self.walk.law.constants(self.walk)

    @cached_property
    def _nodes(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The law of the node of a local step, summed up, and where to begin to search in it."""
        cumulative = np.cumsum(self.law.nodes)
        cumulative /= cumulative[-1]
        return cumulative, _guide(cumulative)


def empty_events(size: int) -> Events:
    """Room for so many events, to which nothing applies yet."""
    return Events(
        kind=np.empty(size, np.int8),
        node=np.full(size, NONE, np.int32),
        source=np.full(size, NONE, np.int32),
        token=np.full(size, NONE, np.int32),
        other=np.full(size, NONE, np.int32),
        draw=np.full(size, NO_SAMPLE),
        at=np.empty(size),
    )


def _guide(cumulative: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each of len(cumulative) equal bins of [0, 1): where a search for a number in the bin may begin."""
    return np.searchsorted(cumulative, np.arange(len(cumulative)) / len(cumulative), side="right")


class _Numbers(NamedTuple):
    """The numbers of a segment, uniform in [0, 1) but for the times."""

    what: NDArray[np.float64]  # (steps,) visit, meeting or local step
    who: NDArray[np.float64]  # (steps,) which token, or which node
    draw: NDArray[np.float64]  # (steps,) which sample, or which second token
    jumps: NDArray[np.float64]  # (visits * jumps,) where a token goes
    here: NDArray[np.float64]  # (visits,) whether, and whom, a token that arrives meets; (0,): nobody
    at: NDArray[np.float64]  # (steps,) times


class _Odds(NamedTuple):
    """A law as compiled code takes it."""

    p_visit: float
    p_meet: float
    p_here: float
    tokens: int
    jumps: int
    computing_visits: bool
    cumulative: NDArray[np.float64]  # (n,) law of the node of a local step, summed up
    guide: NDArray[np.int64]  # (n,) where to begin to search in it


class Tables(NamedTuple):
    """A walk as compiled code takes it."""

    iid: bool
    n: int
    indptr: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    cumulative: NDArray[np.float64]
    hold: int


class Own(NamedTuple):
    """A walk with a law of its own as compiled code takes it."""

    used: bool  # False: tokens walk by tables
    key: np.uint64  # of all its random numbers
    constants: Any
    state: NDArray[np.float64]


class _Nothing(NamedTuple):
    nothing: int


_NOTHING = _Nothing(0)


@compiled
def nowhere(w: Any, state: Any, k: int, i: int, number: int, key: np.uint64) -> int:
    """In place of the jumps of a walk by tables."""
    return 0


@cache
def _expander(choose: Callable[..., int]) -> Any:
    """Compile what turns numbers into events, with the jumps of a walk."""

    @compiled
    def expand(
        numbers: _Numbers,
        odds: _Odds,
        tables: Tables,
        own: Own,
        fate: Fate,
        positions: NDArray[np.int64],
        taken: NDArray[np.int64],
        events: Events,
    ) -> int:
        """Turn uniform numbers into events, and count these.

        ``positions`` follows the tokens, ``taken`` counts the jumps of each.
        """
        what, who, draw, jumps, here, at = numbers
        p_visit, p_meet, p_here, tokens, jumps_per_visit, computing_visits, node_cumulative, guide = odds
        iid, n, indptr, neighbours, cumulative, hold = tables
        event = jump = visit = 0
        total = taken.sum() if fate.used else 0
        period = len(indptr)
        for t in range(len(what)):
            if what[t] < p_visit:
                k = np.int64(pick(fate, who[t])) if fate.used else np.int64(who[t] * tokens)
                if k < 0:
                    continue
                hop, before, lost = 0, total, False
                while hop < jumps_per_visit and not lost:
                    source = positions[k]
                    hop += 1
                    if own.used:
                        key = bits(bits(own.key, int(k)), taken[k])
                        target = np.int64(choose(own.constants, own.state, k, source, taken[k], key))
                        if target < 0:  # it only passes through
                            target = -1 - target
                            hop -= 1
                    elif iid:
                        target = np.int64(jumps[jump] * n)
                        jump += 1
                    else:
                        table = (taken[k] // hold) % period
                        target = step(indptr, neighbours, cumulative, source, table, jumps[jump])
                        jump += 1
                    taken[k] += 1
                    events.kind[event] = MOVE
                    events.node[event] = target
                    events.source[event] = source
                    events.token[event] = k
                    events.at[event] = at[t]
                    positions[k] = target
                    event += 1
                    if fate.used:
                        total += 1
                        lost = is_lost_on_way(fate, int(source), int(target), chance(fate, int(k), taken[k]))
                if lost:
                    event = die(events, event, fate, int(k), positions, at[t])
                else:
                    events.kind[event - 1] = VISIT
                    if computing_visits:
                        events.draw[event - 1] = draw[t]
                    if p_here > 0 and here[visit] < p_here:
                        companion = _companion(positions, k, here[visit] / p_here)
                        if companion >= 0:
                            events.kind[event] = MEET
                            events.node[event] = events.source[event] = positions[k]
                            events.token[event] = k
                            events.other[event] = companion
                            events.at[event] = at[t]
                            event += 1
                    visit += 1
                    if fate.used:
                        key = chance(fate, int(k), taken[k])
                        event = after_visit(events, event, fate, int(k), positions, at[t], total, key)
                if fate.used:
                    if before < fate.burst_at <= total:
                        event = burst(events, event, fate, positions, at[t])
                    if fate.alive.sum() == 0.0:
                        return event
            elif what[t] < p_visit + p_meet:
                k = np.int64(who[t] * tokens)
                other = np.int64(draw[t] * (tokens - 1))
                other += other >= k
                events.kind[event] = MEET
                events.node[event] = positions[k]
                events.source[event] = positions[other]
                events.token[event] = k
                events.other[event] = other
                events.at[event] = at[t]
                event += 1
            else:
                node = guide[np.int64(who[t] * n)]
                while node_cumulative[node] <= who[t]:
                    node += 1
                events.kind[event] = LOCAL
                events.node[event] = node
                events.draw[event] = draw[t]
                events.at[event] = at[t]
                event += 1
        return event

    return expand


@compiled
def _companion(positions: NDArray[np.int64], k: np.int64, draw: float) -> int:
    """One of the tokens that are where token k is, by a uniform number; -1: it is alone."""
    others = -1
    for position in positions:
        others += position == positions[k]
    left = np.int64(draw * others)
    for other in range(len(positions)):
        if other != k and positions[other] == positions[k]:
            if left == 0:
                return other
            left -= 1
    return -1
