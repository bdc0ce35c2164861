"""A stretch of events as one thread sees it: its visits in order, each with the local steps of its node before it.

Local steps of a node touch nothing but the node. So they may wait until the next visit to it, and run as one block: the
same bits as in schedule order, and memory is visited node by node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.problem.prefetch import prefetch
from dtoken.schedule.events import DIE, FORK, LOAD, LOADING, LOCAL, MEET, MOVE, Events
from dtoken.schedule.samples import Samples, row_of

AHEAD = 16  # events between asking for what a table has for a node and using it
FLUSH = -1  # a "visit" without token: only runs what is left in the queue of a node


@compiled
def is_of_two(kind: int) -> bool:
    """Whether an event is one of two tokens and no node: they meet, or one becomes a copy of the other."""
    return bool(kind in (MEET, FORK))


class Plan(NamedTuple):
    """What one thread does in one stretch of events."""

    row: NDArray[np.int64]  # (local steps,) row that the step uses; -1: all rows of the node
    at: NDArray[np.float64]  # (local steps,) time of the step
    first: NDArray[np.int64]  # (visits + 1,) bounds in the above of the steps that a visit waits for
    node: NDArray[np.int64]  # (visits,) hosted node; -1 for a meet or a fork
    token: NDArray[np.int64]  # (visits,) token, or FLUSH
    other: NDArray[np.int64]  # (visits,) second token of a meet, new token of a fork, else -1
    turn: NDArray[np.int64]  # (visits,) how many visits and meets of the token come before
    other_turn: NDArray[np.int64]  # (visits,) the same for the second token
    before: NDArray[np.int64]  # (visits,) the visit before at the same node; -1: none
    visit_row: NDArray[np.int64]  # (visits,) row that the visit uses; -1: none; LOADING: the token is loaded
    visit_at: NDArray[np.float64]  # (visits,) time of the visit
    leave: NDArray[np.int64]  # (visits,) thread to which the token goes afterwards; -1: it stays
    other_leave: NDArray[np.int64]  # (visits,) the same for the second token
    depart: NDArray[np.int64]  # (K,) thread to which a token goes before anything else; -1: it stays
    came: NDArray[np.int64]  # (threads,) how often a token came from each thread, from another node

    @property
    def events(self) -> int:
        """How many of the events happen here; moves are not counted."""
        return len(self.row) + int(np.count_nonzero(self.token != FLUSH))


class Traffic(NamedTuple):
    """Where tokens are, for threads that must tell each other of them; the last two arrays follow the events."""

    thread: NDArray[np.int64]  # (n,) thread of each node, those of all hosts counted
    threads: int  # how many there are
    me: int  # the thread whose plan is made
    where: NDArray[np.int64]  # (K,) node that each token mixed at last
    turns: NDArray[np.int64]  # (K,) visits and meets of each token so far


@compiled
def make_plan(
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    first_row: NDArray[np.int64],
    traffic: Traffic,
) -> Plan:
    """The part of ``events`` that concerns some of the hosted nodes.

    Parameters
    ----------
    events
        All events of the stretch.
    slot
        Place among the hosted nodes of each node that the plan is for; -1: it is for another thread.
    samples
        What the hosted nodes draw from.
    first_row
        First row of each hosted node.
    traffic
        Where tokens are; follows them.
    """
    who = _number(events, slot, len(first_row) - 1)
    steps, visits, left = _count(events, who)
    entries, none = visits + left, np.int64(-1)
    visited = np.full(entries, np.int32(-1))  # number of the node of each visit
    plan = Plan(
        row=np.empty(steps, np.int64),
        at=np.empty(steps),
        first=np.zeros(entries + 1, np.int64),
        node=np.empty(entries, np.int64),
        token=np.empty(entries, np.int64),
        other=np.full(entries, none),
        turn=np.empty(entries, np.int64),
        other_turn=np.full(entries, none),
        before=np.empty(entries, np.int64),
        visit_row=np.empty(entries, np.int64),
        visit_at=np.empty(entries),
        leave=np.full(entries, none),
        other_leave=np.full(entries, none),
        depart=np.full(len(traffic.turns), none),
        came=np.zeros(traffic.threads, np.int64),
    )
    _list_visits(plan, events, slot, samples, first_row, traffic, who, visited)
    _list_steps(plan, events, samples, first_row, who, visited)
    return plan


class _Who(NamedTuple):
    """The nodes to which anything happens, numbered: tables of these stay in a cache, of a million nodes not."""

    number: NDArray[np.int32]  # (events,) of the event's node; -1: it is not hosted here
    hosted: NDArray[np.int64]  # (numbers,) its place among the hosted nodes


@compiled
def _number(events: Events, slot: NDArray[np.int64], nodes: int) -> _Who:
    count, touched = len(events.node), 0
    number, hosted = np.empty(count, np.int32), np.empty(min(count, nodes), np.int64)
    place = np.full(nodes, -1, np.int32)
    for event in range(count):
        if event + 2 * AHEAD < count:
            prefetch(slot, events.node[event + 2 * AHEAD])
            prefetch(place, slot[events.node[event + AHEAD]])
        i = slot[events.node[event]]
        if i >= 0 and place[i] < 0:
            place[i], hosted[touched] = touched, i
            touched += 1
        number[event] = place[i] if i >= 0 else -1
    return _Who(number, hosted[:touched])


@compiled
def _count(events: Events, who: _Who) -> tuple[int, int, int]:
    """Local steps, visits, and nodes with steps that no visit follows."""
    pending = np.zeros(len(who.hosted), np.bool_)
    steps = visits = 0
    for event in range(len(events.kind)):
        p = who.number[event]
        if p >= 0:
            if events.kind[event] == LOCAL:
                steps += 1
                pending[p] = True
            elif events.kind[event] != MOVE and events.kind[event] != DIE:
                visits += 1
                pending[p] = pending[p] and is_of_two(events.kind[event])
    return steps, visits, pending.sum()


@compiled
def _list_visits(
    plan: Plan,
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    first_row: NDArray[np.int64],
    traffic: Traffic,
    who: _Who,
    visited: NDArray[np.int32],
) -> None:
    """Fill in all but the steps. No calls that pass the plan: numba would count references to all its arrays."""
    thread, _, me, where, turns = traffic
    pending, last_at_node = np.zeros(len(who.hosted), np.int64), np.full(len(who.hosted), -1)
    last_of_token = np.full(len(turns), -1)
    v = 0
    for event in range(len(events.kind)):
        kind, p = events.kind[event], who.number[event]
        if kind == LOCAL:
            if p >= 0:
                pending[p] += 1
        elif kind != MOVE and kind != DIE:
            k, other, node = events.token[event], events.other[event], events.node[event]
            if slot[where[k]] >= 0 and thread[node] != me:
                _send_on(plan, last_of_token, k, thread[node])
            if p >= 0 and where[k] != node:
                plan.came[thread[where[k]]] += 1
            where[k] = node
            if is_of_two(kind):
                if slot[where[other]] >= 0 and thread[node] != me:
                    _send_on(plan, last_of_token, other, thread[node])
                if p >= 0 and where[other] != node:
                    plan.came[thread[where[other]]] += 1
                where[other] = node
            if p >= 0:
                plan.token[v], plan.turn[v], plan.visit_at[v] = k, turns[k], events.at[event]
                last_of_token[k] = v
                if is_of_two(kind):
                    plan.other[v], plan.other_turn[v] = other, turns[other]
                    plan.node[v], plan.before[v], plan.visit_row[v] = -1, -1, -1
                    plan.first[v + 1] = plan.first[v]
                    last_of_token[other] = v
                else:
                    i, loading = who.hosted[p], kind == LOAD
                    plan.visit_row[v] = LOADING if loading else row_of(samples, first_row, i, events.draw[event])
                    plan.node[v], plan.before[v] = i, last_at_node[p]
                    plan.first[v + 1] = plan.first[v] + pending[p]
                    last_at_node[p], pending[p], visited[v] = v, 0, p
                v += 1
            turns[k] += 1
            if is_of_two(kind):
                turns[other] += 1
    for p in range(len(pending)):
        if pending[p] > 0:
            plan.token[v], plan.turn[v], plan.visit_at[v], plan.visit_row[v] = FLUSH, -1, 0.0, -1
            plan.node[v], plan.before[v], visited[v] = who.hosted[p], last_at_node[p], p
            plan.first[v + 1] = plan.first[v] + pending[p]
            v += 1


@compiled
def _send_on(plan: Plan, last_of_token: NDArray[np.int64], k: int, target: int) -> None:
    """Note that token k, which is here, goes to another thread after what it did here last."""
    v = last_of_token[k]
    if v < 0:
        plan.depart[k] = target
    elif plan.token[v] == k:
        plan.leave[v] = target
    else:
        plan.other_leave[v] = target
    last_of_token[k] = -1


@compiled
def _list_steps(
    plan: Plan,
    events: Events,
    samples: Samples,
    first_row: NDArray[np.int64],
    who: _Who,
    visited: NDArray[np.int32],
) -> None:
    """Fill in the steps."""
    (number, hosted), (of_node, kept, accept, _), draw = who, samples, events.draw
    weighted = len(accept) > 0
    place = np.zeros(len(who.hosted), np.int64)  # where the next step of each node goes
    after = np.zeros(len(plan.node), np.int64)  # the same once a visit is over
    for v in range(len(plan.node) - 1, -1, -1):
        p = visited[v]
        if p >= 0:
            after[v], place[p] = place[p], plan.first[v]
    v = 0
    for event in range(len(events.kind)):
        if event + 2 * AHEAD < len(number):  # no call: numba would count references to all arrays of the samples
            later, soon = number[event + 2 * AHEAD], number[event + AHEAD]
            if later >= 0:
                prefetch(of_node, hosted[later])
                prefetch(first_row, hosted[later])
            if soon >= 0 and draw[event + AHEAD] >= 0.0:
                begin, end = of_node[hosted[soon]], of_node[hosted[soon] + 1]
                prefetch(kept, begin + np.int64(draw[event + AHEAD] * (end - begin)))
                if weighted:
                    prefetch(accept, begin + np.int64(draw[event + AHEAD] * (end - begin)))
        kind, p = events.kind[event], number[event]
        if p >= 0:
            if kind == LOCAL:
                plan.row[place[p]] = row_of(samples, first_row, hosted[p], draw[event])
                plan.at[place[p]] = events.at[event]
                place[p] += 1
            elif kind != MOVE and kind != DIE:
                if not is_of_two(kind):
                    place[p] = after[v]
                v += 1
