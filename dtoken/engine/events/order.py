"""Another order of the same events: the local steps of a node together, just before its next visit.

Local steps of a node touch nothing but the node, so they may wait until then, and the bits are the same. A stretch of
events in this order uses the rows and the state of few nodes, where memory does not hold those of all. Groups of nodes
that work side by side keep equal shares of every stretch: a group goes on with its next steps while others have not
come to the visit that is next.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.schedule.events import DIE, FORK, LOCAL, MEET, MOVE, Events

Groups: TypeAlias = NDArray[np.int64] | None
RUN = 16  # steps that a group takes before it is compared with the others


def node_by_node(events: Events, slot: NDArray[np.int64], groups: Groups = None) -> Events:
    """The events in the new order, without the local steps of nodes that are hosted elsewhere.

    Parameters
    ----------
    events
        In the order of the schedule.
    slot
        Place of each node among the hosted ones, -1: hosted elsewhere.
    groups
        The group of each node; None: there is one.
    """
    group = np.zeros(len(slot), np.int64) if groups is None else groups
    order = _order(events.kind, events.node, slot >= 0, group, int(group.max()) + 1)
    return Events(*(column[order] for column in events))


@compiled
def is_at_node(kind: int) -> bool:
    """Whether an event changes its node."""
    return bool(kind != MOVE and kind != MEET and kind != DIE and kind != FORK)


@compiled
def _order(kind: Any, node: Any, hosted: Any, group: Any, groups: int) -> Any:
    """Numbers of the events in the new order."""
    steps, bounds, before = _runs(kind, node, hosted)
    runs, events = len(before), len(kind)
    order = np.empty(len(steps) + np.count_nonzero(kind != LOCAL), np.int64)
    waits = bounds[1:] > bounds[:-1]  # whether steps of a run are not in order yet
    current, taken = np.full(groups, -1), np.zeros(groups, np.int64)
    position = np.full(groups, -1)  # of the next step
    for g in range(groups):
        current[g] = _next_run(-1, g, waits, node, group)
        position[g] = bounds[min(current[g], runs)]
    count = visit = 0  # events in order; the first event that is not, local steps apart
    while count < len(order):
        while visit < events and (kind[visit] == LOCAL or not waits[visit]):
            if kind[visit] != LOCAL:
                order[count] = visit
                count += 1
            visit += 1
        chosen = -1  # who has the fewest steps so far; the group of the next visit can always go on
        for g in range(groups):
            ready = current[g] < runs and before[current[g]] < visit
            if ready and (chosen < 0 or taken[g] < taken[chosen]):
                chosen = g
        if chosen >= 0:
            run = current[chosen]
            stop = min(position[chosen] + RUN, bounds[run + 1])
            for k in range(position[chosen], stop):
                order[count] = steps[k]
                count += 1
            taken[chosen] += stop - position[chosen]
            position[chosen] = stop
            if stop == bounds[run + 1]:
                waits[run] = False
                current[chosen] = _next_run(run, chosen, waits, node, group)
                position[chosen] = bounds[min(current[chosen], runs)]
    return order


@compiled
def _runs(kind: Any, node: Any, hosted: Any) -> tuple[Any, Any, Any]:
    """Local steps by what they precede: run e is before event e, the last runs, one for each node, before nothing.

    Returns the events that are local steps of hosted nodes, the bounds of the runs therein, and for each run the visit
    to its node before it, or -1.
    """
    events, nodes = len(kind), len(hosted)
    target, following = np.empty(events, np.int64), np.arange(events, events + nodes)
    bounds = np.zeros(events + nodes + 1, np.int64)
    before, latest = np.full(events + nodes, -1), np.full(nodes, -1)
    for e in range(events - 1, -1, -1):
        i = node[e]
        if kind[e] == LOCAL:
            target[e] = following[i]
            bounds[target[e] + 1] += hosted[i]
        elif is_at_node(kind[e]):
            following[i] = e
    for e in range(events):
        if kind[e] != LOCAL and is_at_node(kind[e]):
            before[e], latest[node[e]] = latest[node[e]], e
    before[events:] = latest
    bounds = np.cumsum(bounds)
    place, steps = bounds[:-1].copy(), np.empty(bounds[-1], np.int64)
    for e in range(events):
        if kind[e] == LOCAL and hosted[node[e]]:
            steps[place[target[e]]] = e
            place[target[e]] += 1
    return steps, bounds, before


@compiled
def _next_run(run: int, g: int, waits: Any, node: Any, group: Any) -> int:
    """The next run of a group that has steps; the number of runs if there is none."""
    run += 1
    while run < len(waits) and not (waits[run] and group[node[run] if run < len(node) else run - len(node)] == g):
        run += 1
    return run
