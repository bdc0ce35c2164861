"""The timed schedule: nodes compute as fast as they can, tokens travel as links allow, and what begins first is first.

A node takes its next step at the moment at which it is done with the last: it mixes with a token that is there, the one
that came first, or else takes a local step. So a visit interrupts nothing, and a token waits for at most one local step
and for the tokens before it. A token that is done leaves at once, and where it goes is decided then. A node without
local steps waits for tokens.

Events come in the order in which they begin. Two that begin at the same time are in the order of their nodes; of tokens
that came at the same time, the lowest is first; a token that comes when a step ends is before the next one. Moves of
a token are told with the visit to which they lead.

What a segment inherits are the clocks of the nodes, the times at which tokens arrive, and the ways on which they are
(``Start``). Numbers are functions of (seed, token, jump) and of (seed, step). So any worker can produce any segment.
The ideal clock, with ``time.rule=token_clock``, computes the same times from the events alone, to the last bit.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.graph.sampler import step
from dtoken.graph.walks import Walk
from dtoken.schedule.clock import Costs, Times, hop_time, less
from dtoken.schedule.events import LOCAL, MOVE, VISIT, Events
from dtoken.schedule.permuted import in_order
from dtoken.schedule.random import bits, uniform
from dtoken.schedule.stream import SEGMENT_STEPS, Drawn, Own, Start, Tables, empty_events, nowhere

CAPACITY = 4 * SEGMENT_STEPS  # events of a segment, about
DRAWS = 4  # the key of the numbers that become samples


@dataclass(frozen=True)
class Timed:
    """An endless schedule that follows from speeds.

    Parameters
    ----------
    drawn
        The same method's schedule by its law: its walk, and what its steps use.
    times, costs
        What a gradient takes at each node, a jump along each link, and how many gradients a step computes.
    begin
        (n,) when each node begins.
    """

    drawn: Drawn
    times: Times
    costs: Costs
    begin: NDArray[np.float64]

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        while True:
            events, start = self.segment(start)
            yield events, start

    def segment(self, start: Start) -> tuple[Events, Start]:
        """The events of one segment, and the start of the next."""
        law, seed = self.drawn.law, self.drawn.seed
        choose, own, tables, most = self.drawn.walking(start)
        K, longest = law.tokens, law.jumps * most
        world = _World(self.times, self.costs, law.jumps, law.computing_visits, works(self.drawn, self.costs))
        if len(start.busy):
            now = _Now(start.busy.copy(), start.arrival.copy(), start.path.copy(), start.hops.copy())
        else:
            now = _Now(self.begin.copy(), np.zeros(K), np.zeros((K, longest), np.int64), np.zeros(K, np.int64))
        positions, taken = start.positions.copy(), start.jumps.copy()
        events = empty_events(CAPACITY + longest)
        before = round(start.at / law.unit)
        draws = np.uint64(bits(np.uint64(seed), DRAWS))
        count, steps = _simulator(choose or nowhere)(world, tables, own, now, positions, taken, draws, before, events)
        events = events.between(0, count)
        events.at[:] = law.unit * (before + 1 + events.at)
        used = in_order(events, law.order, seed, start.used)
        end = law.unit * (before + steps)
        return events, Start(start.segment + 1, positions, taken, float(end), used, own.state, start.fate, *now)


def works(drawn: Drawn, costs: Costs) -> NDArray[np.bool_]:
    """(n,) which nodes take local steps."""
    found: NDArray[np.bool_] = (drawn.law.nodes > 0) & (costs.local > 0)
    return found if drawn.law.p_visit < 1 else np.zeros_like(found)


def expected_share(drawn: Drawn, times: Times, costs: Costs) -> float:
    """The share of visits among all steps that speeds make one expect: p_comm.

    Tokens go round in a jump, or several, and the rest of the step at which they find a node: half of it on average.
    """
    walk, law, costs = drawn.walk, drawn.law, costs.expected()
    pi, taken = walk.visit_law(law.jumps), times.comp * costs.local
    local = works(drawn, costs)
    hop = mean_hop(walk, times)
    turn = law.jumps * walk.moves * hop + float(pi @ (np.where(local, taken / 2, 0.0) + times.comp * costs.visit))
    visits, steps = law.tokens / turn, float((1 / taken[local]).sum())
    return visits / (visits + steps)


def mean_hop(walk: Walk, times: Times) -> float:
    """The mean time of a jump in the long run."""
    n, pi = walk.n, walk.stationary
    comm = np.broadcast_to(times.comm, (n, n)) if n <= 2_000 else times.comm
    if len(comm) == 1:
        return float(comm[0, 0])
    P = np.full((n, n), 1 / n) if walk.iid else walk.transition().toarray()
    if not times.charge_self_jumps:
        comm = np.where(np.eye(n, dtype=bool), 0.0, comm)
    return float(pi @ np.where(P > 0, P * np.where(P > 0, comm, 0.0), 0.0).sum(axis=1))


class _World(NamedTuple):
    """What does not change."""

    times: Times
    costs: Costs
    jumps: int
    computing_visits: bool
    works: NDArray[np.bool_]  # (n,) whether the node takes local steps


class _Now(NamedTuple):
    """What does, beside where tokens were last."""

    busy: NDArray[np.float64]  # (n,) until when
    arrival: NDArray[np.float64]  # (K,)
    path: NDArray[np.int64]  # (K, longest) the nodes to which each token is on its way
    hops: NDArray[np.int64]  # (K,) how many; 0: it has not left yet


@compiled
def _first_there(now: _Now, i: int, moment: float) -> int:
    """The token that came to node i first, until this moment; -1: none."""
    found = -1
    for k in range(len(now.hops)):
        here = now.path[k, now.hops[k] - 1] == i and now.arrival[k] <= moment
        if here and (found < 0 or now.arrival[k] < now.arrival[found]):
            found = k
    return found


@compiled
def _next(world: _World, now: _Now, i: int) -> float:
    """When node i takes its next step, as far as is known."""
    if world.works[i]:
        return float(now.busy[i])
    k = _first_there(now, i, math.inf)
    return math.inf if k < 0 else max(float(now.busy[i]), float(now.arrival[k]))


@compiled
def _put(tree: NDArray[np.int64], when: NDArray[np.float64], i: int, moment: float) -> None:
    """Let node i be next at this moment; the root of the tree is the first node of all."""
    when[i] = moment
    place = (len(when) + i) // 2
    while place > 0:
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = left if when[left] <= when[right] else right
        place //= 2


@compiled
def _tree(world: _World, now: _Now) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A tournament of all nodes."""
    size = 1
    while size < len(now.busy):
        size *= 2
    when, tree = np.full(size, math.inf), np.zeros(2 * size, np.int64)
    for i in range(size):
        tree[size + i] = i
    for i in range(len(now.busy)):
        when[i] = _next(world, now, i)
    for place in range(size - 1, 0, -1):
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = left if when[left] <= when[right] else right
    return tree, when


@cache
def _simulator(choose: Callable[..., int]) -> Any:
    """Compile the simulation, with the jumps of a walk."""

    @compiled
    def leave(
        world: _World, tables: Tables, own: Own, now: _Now, source: int, taken: NDArray[np.int64], k: int, t: float
    ) -> None:
        """Token k leaves at time t: where it goes, and when it is there."""
        hop = moves = 0
        period = len(tables.indptr)
        while hop < world.jumps:
            key = bits(bits(own.key, k), taken[k])
            hop += 1
            if own.used:
                target = np.int64(choose(own.constants, own.state, k, source, taken[k], key))
                if target < 0:  # it only passes through
                    target = -1 - target
                    hop -= 1
            elif tables.iid:
                target = np.int64(uniform(key, 0) * tables.n)
            else:
                table = (taken[k] // tables.hold) % period
                target = step(tables.indptr, tables.neighbours, tables.cumulative, source, table, uniform(key, 0))
            taken[k] += 1
            t += hop_time(world.times, source, int(target))
            now.path[k, moves] = target
            moves += 1
            source = int(target)
        now.arrival[k], now.hops[k] = t, moves

    @compiled
    def simulate(
        world: _World,
        tables: Tables,
        own: Own,
        now: _Now,
        positions: NDArray[np.int64],
        taken: NDArray[np.int64],
        draws: np.uint64,
        before: int,
        events: Events,
    ) -> tuple[int, int]:
        """Fill ``events``, with the number of the step as their time; count events and steps."""
        for k in range(len(positions)):
            if now.hops[k] == 0:
                leave(world, tables, own, now, positions[k], taken, k, 0.0)
        tree, when = _tree(world, now)
        event = steps = 0
        last = len(events.kind) - now.path.shape[1]
        while steps < SEGMENT_STEPS and event < last:
            i = tree[1]
            k = _first_there(now, i, when[i])
            draw = -1.0
            if k < 0 or world.computing_visits:
                draw = uniform(bits(draws, before + steps), 0)
            if k < 0:
                events.kind[event], events.node[event] = LOCAL, i
                events.draw[event], events.at[event] = draw, steps
                event += 1
                used = world.costs.local[i] - less(world.costs, i, draw)
                now.busy[i] += world.times.comp[i] * used
            else:
                for move in range(now.hops[k]):
                    target = now.path[k, move]
                    events.kind[event], events.node[event] = MOVE, target
                    events.source[event], events.token[event] = positions[k], k
                    events.at[event] = steps
                    positions[k] = target
                    event += 1
                events.kind[event - 1] = VISIT
                if world.computing_visits:
                    events.draw[event - 1] = draw
                used = world.costs.visit[i] - less(world.costs, i, draw)
                now.busy[i] = max(now.busy[i], now.arrival[k])
                now.busy[i] += world.times.comp[i] * used
                leave(world, tables, own, now, i, taken, k, now.busy[i])
                goal = now.path[k, now.hops[k] - 1]
                _put(tree, when, goal, _next(world, now, goal))
            _put(tree, when, i, _next(world, now, i))
            steps += 1
        return event, steps

    return simulate
