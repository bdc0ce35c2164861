"""Schedules of methods that exchange messages in rounds: one pattern again and again, or two in random order.

Token k is the message of node k. A node loads it, and it is delivered to one node after the other; on the ideal clock
all deliveries happen at once, tau_comm after the load. The order in the pattern fixes the order of the receivers' sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoken.schedule.events import DELIVER, LOAD, LOCAL, NO_SAMPLE, NONE, VISIT, Events, concatenate
from dtoken.schedule.permuted import Order, in_order
from dtoken.schedule.stream import SEGMENT_STEPS, Start

Nodes = NDArray[np.int32]


def local_steps(n: int) -> Events:
    """Every node takes a local step."""
    return _part(LOCAL, np.arange(n))


def all_to_all(n: int) -> Events:
    """Every node sends its message to all others, after all are loaded.

    A second load of each message, which costs nothing, is where its own node adds it up: so all nodes can add up all
    messages in the same order.
    """
    deliveries = [(_part(DELIVER, np.delete(np.arange(n), i), i, i), _load(i)) for i in range(n)]
    return concatenate([*(_load(i) for i in range(n)), *(part for parts in deliveries for part in parts)])


def exchange(neighbours: Sequence[Nodes]) -> Events:
    """Every node sends its message to its neighbours, after all messages are loaded."""
    return concatenate([loads(len(neighbours)), *(_part(DELIVER, to, i, i) for i, to in enumerate(neighbours))])


def loads(n: int) -> Events:
    """Every node loads its message, which costs nothing."""
    return concatenate([_load(i) for i in range(n)])


def two_laps(n: int) -> Events:
    """One token goes around all nodes, twice."""
    nodes = np.arange(2 * n)
    return _part(VISIT, (nodes + 1) % n, nodes % n, 0)


def star(n: int) -> Events:
    """Every node sends its message to the server, node 0, which then sends one to every node; also to itself."""
    up = [part for i in range(n) for part in (_load(i), _part(DELIVER, np.array([0]), i, i))]
    return concatenate([*up, _load(0), _part(DELIVER, np.arange(n), 0, 0)])


def _load(i: int) -> Events:
    return _part(LOAD, np.array([i]), NONE, i)


def _part(kind: int, node: NDArray[np.integer], source: int | NDArray[np.integer] = NONE, token: int = NONE) -> Events:
    size = len(node)
    return Events(
        kind=np.full(size, kind, np.int8),
        node=node.astype(np.int32),
        source=np.full(size, source, np.int32),
        token=np.full(size, token, np.int32),
        other=np.full(size, NONE, np.int32),
        draw=np.full(size, NO_SAMPLE),
        at=np.zeros(size),
    )


@dataclass(frozen=True, eq=False)
class Rounds:
    """An endless schedule that repeats one round.

    Examples
    --------
    >>> from dtoken.schedule.stream import start_at
    >>> round_ = concatenate([all_to_all(3), local_steps(3)])
    >>> events, _ = next(Rounds(round_).segments(start_at(np.arange(3))))
    >>> events.size % round_.size, events.at[:3].tolist()
    (0, [1.0, 2.0, 3.0])
    """

    pattern: Events  # of one round

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        segment = concatenate([self.pattern] * max(1, SEGMENT_STEPS // self.pattern.size))
        while True:
            events, start = _numbered(segment, start)
            yield events, start


@dataclass(frozen=True, eq=False)
class SampledRounds(Rounds):
    """One round again and again, whose local steps use samples.

    As in ``stream.Drawn``, the numbers of a segment depend on the seed and the segment's number only.
    """

    seed: int

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        for events, after in super().segments(start):
            local = events.kind == LOCAL
            draw = events.draw.copy()
            draw[local] = generator(self.seed, after.segment - 1).random(int(np.count_nonzero(local)))
            yield events._replace(draw=draw), after


@dataclass(frozen=True, eq=False)
class RandomRounds:
    """An endless schedule whose steps are an exchange with probability ``p``, else a local step at every node.

    As in ``stream.Drawn``, the numbers of a segment depend on the seed and the segment's number only.
    """

    seed: int
    p: float
    exchange: Events
    n: int
    order: Order | None = None  # nodes go through their samples in permuted order; None: these are independent draws

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        patterns = concatenate([self.exchange, local_steps(self.n)])
        steps = max(1, SEGMENT_STEPS // max(self.exchange.size, self.n))
        while True:
            numbers = generator(self.seed, start.segment)
            exchanging = numbers.random(steps) < self.p
            draws = numbers.random((steps, self.n))
            sizes = np.where(exchanging, self.exchange.size, self.n)
            step = np.repeat(np.arange(steps), sizes)
            place = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            chosen = np.where(exchanging[step], place, self.exchange.size + place)
            columns = Events(*(column[chosen] for column in patterns))
            local = ~exchanging[step]
            columns.draw[local] = draws[step[local], place[local]]
            start = start._replace(used=in_order(columns, self.order, self.seed, start.used))
            events, start = _numbered(columns, start)
            yield events, start


def generator(seed: int, segment: int) -> np.random.Generator:
    """The numbers of a segment."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, 0], np.uint64), counter=[0, 0, 0, segment]))


def _numbered(events: Events, start: Start) -> tuple[Events, Start]:
    """The events with their times, one after the other, and the start of the next segment.

    Between rounds every message is with its node, and a token that goes around is where it began.
    """
    events = events._replace(at=start.at + np.arange(1.0, events.size + 1))
    moved = events.token[(events.kind == VISIT) | (events.kind == DELIVER)]
    taken = start.jumps + np.bincount(moved, minlength=len(start.jumps))
    return events, Start(start.segment + 1, start.positions, taken, float(events.at[-1]), start.used, start.walk)
