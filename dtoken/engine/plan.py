"""A stretch of events as one host sees it: for each of its nodes a queue of local steps, and the visits in order.

Local steps of a node touch nothing but the node. So they may wait until the next visit to it, and run as one block: the
same bits as in schedule order, and memory is visited node by node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.schedule.events import LOCAL, MEET, VISIT, Events
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
    visit_row: NDArray[np.int64]  # (visits,) row that the visit uses; -1: none
    visit_at: NDArray[np.float64]  # (visits,) time of the visit


def make_plan(
    events: Events, slot: NDArray[np.int64], samples: Samples, first_row: NDArray[np.int64], tokens: int
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
    )
    _fill(plan, events, slot, samples, first_row, np.zeros(tokens, np.int64))
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
            elif events.kind[event] in (VISIT, MEET):
                visits += 1
    return steps, visits


@compiled
def _fill(
    plan: Plan,
    events: Events,
    slot: NDArray[np.int64],
    samples: Samples,
    first_row: NDArray[np.int64],
    turns: NDArray[np.int64],
) -> None:
    hosted = len(first_row) - 1
    end = plan.first[:-1].copy()
    last = np.full(hosted, -1)
    v = 0
    for event in range(len(events.kind)):
        kind, i = events.kind[event], slot[events.node[event]]
        if kind == LOCAL:
            if i >= 0:
                plan.row[end[i]] = row_of(samples, first_row, i, events.draw[event])
                plan.at[end[i]] = events.at[event]
                end[i] += 1
        elif kind in (VISIT, MEET):
            k = events.token[event]
            turn = turns[k]
            turns[k] += 1
            if kind == MEET:
                other = events.other[event]
                if i >= 0:
                    plan.other[v] = other
                    plan.other_turn[v] = turns[other]
                turns[other] += 1
            elif i >= 0:
                plan.node[v] = i
                plan.upto[v] = end[i]
                plan.before[v] = last[i]
                last[i] = v
                plan.visit_row[v] = row_of(samples, first_row, i, events.draw[event])
            if i >= 0:
                plan.token[v] = k
                plan.turn[v] = turn
                plan.visit_at[v] = events.at[event]
                v += 1
    for i in range(hosted):
        plan.node[v] = i
        plan.token[v] = FLUSH
        plan.upto[v] = end[i]
        plan.before[v] = last[i]
        v += 1
