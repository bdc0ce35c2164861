"""A stretch of events as one host sees it: for each of its nodes a queue of local steps, and the visits in order.

Local steps of a node touch nothing but the node. So they may wait until the next visit to it, and run as one block: the
same bits as in schedule order, and memory is visited node by node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.schedule.events import LOAD, LOADING, LOCAL, MEET, MOVE, Events
from dtoken.schedule.samples import Samples, row_of

FLUSH = -1  # a "visit" without token: only runs what is left in the queue of a node


class Plan(NamedTuple):
    """What one host does in one stretch of events."""

    first: NDArray[np.int64]  # (hosted + 1,) bounds of each node's queue in the next two
    row: NDArray[np.int64]  # (local steps,) row that the step uses; -1: all rows of the node
    at: NDArray[np.float64]  # (local steps,) time of the step
    node: NDArray[np.int64]  # (visits,) hosted node; -1 for a meet
    token: NDArray[np.int64]  # (visits,) token, or FLUSH
    other: NDArray[np.int64]  # (visits,) second token of a meet, else -1
    turn: NDArray[np.int64]  # (visits,) how many visits and meets of the token come before
    other_turn: NDArray[np.int64]  # (visits,) the same for the second token
    upto: NDArray[np.int64]  # (visits,) end of the node's queue that precedes the visit
    before: NDArray[np.int64]  # (visits,) the visit before at the same node; -1: none
    visit_row: NDArray[np.int64]  # (visits,) row that the visit uses; -1: none; LOADING: the token is loaded
    visit_at: NDArray[np.float64]  # (visits,) time of the visit
    leave: NDArray[np.int64]  # (visits,) host to which the token goes afterwards; -1: it stays
    other_leave: NDArray[np.int64]  # (visits,) the same for the second token
    depart: NDArray[np.int64]  # (K,) host to which a token goes before anything else; -1: it stays


class Traffic(NamedTuple):
    """Where tokens are, for hosts that must send them to each other; the arrays follow the events."""

    host: NDArray[np.int64]  # (n,) host of each node
    me: int  # the host whose plan is made
    where: NDArray[np.int64]  # (K,) node that each token mixed at last
    turns: NDArray[np.int64]  # (K,) visits and meets of each token so far


def one_host(n: int, tokens: int) -> Traffic:
    """No traffic: all nodes and tokens are here."""
    zeros = np.zeros(tokens, np.int64)
    return Traffic(np.zeros(n, np.int64), 0, zeros, zeros.copy())


def make_plan(
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    first_row: NDArray[np.int64],
    tokens: int,
    traffic: Traffic | None = None,
) -> Plan:
    """The part of ``events`` that concerns the hosted nodes.

    Parameters
    ----------
    events
        All events of the stretch.
    slot
        Place of each node among the hosted ones; -1: hosted elsewhere.
    samples
        What the hosted nodes draw from.
    first_row
        First row of each hosted node.
    tokens
        Number of tokens.
    traffic
        Where tokens are; None: there is one host only.
    """
    hosted = len(first_row) - 1
    steps, visits = _count(events, slot, hosted)
    entries = visits + hosted
    plan = Plan(
        first=np.concatenate([[0], np.cumsum(steps)]),
        row=np.empty(steps.sum(), np.int64),
        at=np.empty(steps.sum()),
        node=np.full(entries, -1, np.int64),
        token=np.full(entries, -1, np.int64),
        other=np.full(entries, -1, np.int64),
        turn=np.full(entries, -1, np.int64),
        other_turn=np.full(entries, -1, np.int64),
        upto=np.full(entries, -1, np.int64),
        before=np.full(entries, -1, np.int64),
        visit_row=np.full(entries, -1, np.int64),
        visit_at=np.empty(entries),
        leave=np.full(entries, -1, np.int64),
        other_leave=np.full(entries, -1, np.int64),
        depart=np.full(tokens, -1, np.int64),
    )
    _fill(plan, events, slot, samples, first_row, traffic or one_host(len(slot), tokens))
    return plan


@compiled
def _count(events: Events, slot: NDArray[np.int64], hosted: int) -> tuple[NDArray[np.int64], int]:
    steps = np.zeros(hosted, np.int64)
    visits = 0
    for event in range(len(events.kind)):
        i = slot[events.node[event]]
        if i >= 0:
            if events.kind[event] == LOCAL:
                steps[i] += 1
            elif events.kind[event] != MOVE:
                visits += 1
    return steps, visits


@compiled
def _fill(
    plan: Plan,
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    first_row: NDArray[np.int64],
    traffic: Traffic,
) -> None:
    hosted, turns = len(first_row) - 1, traffic.turns
    end = plan.first[:-1].copy()
    last_at_node = np.full(hosted, -1)
    last_of_token = np.full(len(turns), -1)
    v = 0
    for event in range(len(events.kind)):
        kind, i = events.kind[event], slot[events.node[event]]
        if kind == LOCAL:
            if i >= 0:
                plan.row[end[i]] = row_of(samples, first_row, i, events.draw[event])
                plan.at[end[i]] = events.at[event]
                end[i] += 1
        elif kind != MOVE:
            k, other = events.token[event], events.other[event]
            _send_on(plan, traffic, last_of_token, k, events.node[event])
            if kind == MEET:
                _send_on(plan, traffic, last_of_token, other, events.node[event])
            if i >= 0:
                plan.token[v], plan.turn[v], plan.visit_at[v] = k, turns[k], events.at[event]
                last_of_token[k] = v
                if kind == MEET:
                    plan.other[v], plan.other_turn[v] = other, turns[other]
                    last_of_token[other] = v
                else:
                    plan.node[v], plan.upto[v], plan.before[v] = i, end[i], last_at_node[i]
                    loading = kind == LOAD
                    plan.visit_row[v] = LOADING if loading else row_of(samples, first_row, i, events.draw[event])
                    last_at_node[i] = v
                v += 1
            turns[k] += 1
            if kind == MEET:
                turns[other] += 1
    for i in range(hosted):
        plan.node[v], plan.token[v], plan.upto[v], plan.before[v] = i, FLUSH, end[i], last_at_node[i]
        v += 1


@compiled
def _send_on(plan: Plan, traffic: Traffic, last_of_token: NDArray[np.int64], k: int, node: int) -> None:
    """Note that token k, if it is here, goes to the host of ``node`` after what it did here last."""
    target = traffic.host[node]
    if traffic.host[traffic.where[k]] == traffic.me and target != traffic.me:
        v = last_of_token[k]
        if v < 0:
            plan.depart[k] = target
        elif plan.token[v] == k:
            plan.leave[v] = target
        else:
            plan.other_leave[v] = target
        last_of_token[k] = -1
    traffic.where[k] = node
