"""The schedule of a method whose steps are exchanges of two neighbours, or local steps of single nodes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoken.schedule.events import DELIVER, LOAD, LOCAL, NO_SAMPLE, NONE, Events
from dtoken.schedule.permuted import Order, in_order
from dtoken.schedule.rounds import generator
from dtoken.schedule.stream import SEGMENT_STEPS, Start

PARTS = 4  # of an exchange: both nodes load their messages, both are delivered, all at the same time


@dataclass(frozen=True, eq=False)
class Exchanges:
    """An endless schedule whose steps are an exchange along an edge with probability ``p``, else a local step.

    As in ``stream.Drawn``, the numbers of a segment depend on the seed and the segment's number only.
    """

    seed: int
    p: float
    edges: NDArray[np.int32]  # (E, 2), drawn uniformly
    nodes: NDArray[np.float64]  # (n,) law of the node of a local step
    unit: float  # step t (from 0) happens at (t + 1) * unit
    order: Order | None = None  # nodes go through their samples in permuted order; None: these are independent draws

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        cumulative = np.cumsum(self.nodes) / np.sum(self.nodes)
        while True:
            what, who, draw = generator(self.seed, start.segment).random((3, SEGMENT_STEPS))
            exchanging = what < self.p
            local = np.minimum(np.searchsorted(cumulative, who, side="right"), len(self.nodes) - 1)
            i, j = self.edges[(who * len(self.edges)).astype(np.int64)].T
            step = np.repeat(np.arange(SEGMENT_STEPS), np.where(exchanging, PARTS, 1))
            first = np.searchsorted(step, np.arange(SEGMENT_STEPS))
            place = np.where(exchanging[step], np.arange(len(step)) - first[step], PARTS)
            node = np.choose(place, (i[step], j[step], j[step], i[step], local[step])).astype(np.int32)
            token = np.choose(place, (i[step], j[step], i[step], j[step], NONE)).astype(np.int32)
            events = Events(
                kind=np.array([LOAD, LOAD, DELIVER, DELIVER, LOCAL], np.int8)[place],
                node=node,
                source=np.where((place == 2) | (place == 3), token, NONE).astype(np.int32),
                token=token,
                other=np.full(len(step), NONE, np.int32),
                draw=np.where(place == PARTS, draw[step], NO_SAMPLE),
                at=self.unit * np.asarray(start.segment * SEGMENT_STEPS + step + 1, np.float64),
            )
            used = in_order(events, self.order, self.seed, start.used)
            jumps = start.jumps + np.bincount(token[events.kind == DELIVER], minlength=len(start.jumps))
            start = start._replace(segment=start.segment + 1, jumps=jumps, at=float(events.at[-1]), used=used)
            yield events, start
