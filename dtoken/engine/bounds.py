"""What bounds a run on several workers: computing, the link between them, or the schedule itself.

Each bound is a time that a stretch of events cannot stay below, however well everything else is done. Computing: the
work of the thread that has most of it. Link: the tokens that one host sends, one after the other. Schedule: the longest
chain of events that depend on each other (events of one node, visits and hops of one token), as if there were a
processor for each node and a link for each token.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.engine.placement import balanced_groups
from dtoken.schedule.events import DIE, LOCAL, MOVE, Events


class Costs(NamedTuple):
    """Seconds that the parts of a run on several hosts take."""

    local: float  # a local step
    visit: float  # what a node does at a visit
    hop: float  # a token on its way to another host
    sending: float  # of it, those in which no other token of its host can leave


class Bounds(NamedTuple):
    """Seconds that some events take at least."""

    computing: float
    link: float
    schedule: float

    @property
    def largest(self) -> str:
        """What bounds the run.

        Examples
        --------
        >>> Bounds(computing=1.0, link=3.0, schedule=2.0).largest
        'link'
        """
        return max(self._fields, key=lambda name: float(getattr(self, name)))


def bounds(
    events: Events,
    host: NDArray[np.int64],
    where: NDArray[np.int64],
    costs: Costs,
    work: NDArray[np.int64] | None = None,
    threads: int = 1,
) -> Bounds:
    """What ``events`` take at least.

    Parameters
    ----------
    events
        Some of the schedule.
    host
        Of each node.
    where
        Node of each token before the events.
    costs
        What the parts take.
    work
        Of each node, by which its host shares nodes out among its threads; None: equal.
    threads
        Of each host.

    Examples
    --------
    One token that goes to and fro between two hosts is always the one that all wait for:

    >>> count = np.arange(10)
    >>> none = np.full(10, -1, np.int32)
    >>> kind = np.where(count < 8, 1, 0).astype(np.int8)  # eight visits, two local steps
    >>> events = Events(kind, (count % 2).astype(np.int32), none, none + 1, none, none + 0.0, count + 1.0)
    >>> bounds(events, np.array([0, 1]), np.array([1]), Costs(local=1.0, visit=1.0, hop=2.0, sending=1.0))
    Bounds(computing=5.0, link=4.0, schedule=25.0)
    """
    group, first = np.empty(len(host), np.int64), 0
    for number in range(int(host.max()) + 1):
        nodes = np.flatnonzero(host == number)
        shares = [1 if work is None else int(work[node]) for node in nodes.tolist()]
        group[nodes] = first + balanced_groups(shares, min(threads, len(nodes)))
        first += threads
    return Bounds(*_bounds(events, host, group, where.copy(), *costs))


@compiled
def _bounds(
    events: Any, host: Any, group: Any, where: Any, local: float, visit: float, hop: float, sending: float
) -> tuple[float, float, float]:
    work, sent = np.zeros(group.max() + 1), np.zeros(host.max() + 1)
    node_clock, token_clock = np.zeros(len(host)), np.zeros(len(where))
    for event in range(len(events.kind)):
        kind, i, k, other = events.kind[event], events.node[event], events.token[event], events.other[event]
        if kind == LOCAL:
            node_clock[i] += local
            work[group[i]] += local
        elif kind != MOVE and kind != DIE:
            begin = 0.0 if other >= 0 else node_clock[i]
            for token in (k, other):
                if token >= 0:
                    away = host[where[token]] != host[i]
                    begin = max(begin, token_clock[token] + (hop if away else 0.0))
                    sent[host[where[token]]] += sending if away else 0.0
                    where[token] = i
            token_clock[k] = begin + visit
            work[group[i]] += visit
            if other >= 0:
                token_clock[other] = begin + visit
            else:
                node_clock[i] = begin + visit
    return work.max(), sent.max(), max(node_clock.max(), token_clock.max())
