"""What the driver tells the hosts of a run."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Origin, Vector
from dtoken.engine.placement import Placement
from dtoken.schedule.events import Events
from dtoken.schedule.stream import Schedule, Start


@dataclass(frozen=True)
class Assignment:
    """What every host of a run knows."""

    run: str  # number of the run, unique on the cluster
    store: str  # folder or URL
    loss: str
    method: Method
    constants: Arrays
    schedule: Schedule
    token_start: NDArray[np.int64]  # (K,) first node of each token
    placement: Placement
    theta_star: Vector
    jumps: int  # that the walk's tables list
    memory: int | None = None  # bytes for each host; None: as the worker's own limit says
    read_ahead: bool = True
    scratch: Path | None = None  # folder for what is fetched of a remote store; None: the system's temporary one


@dataclass(frozen=True)
class Stretch:
    """Events number ``offset`` to before ``offset + count`` of a segment."""

    start: Start
    offset: int
    count: int


def subset(constants: Arrays, nodes: NDArray[np.int64], n: int) -> Arrays:
    """The constants of some nodes: arrays have one number per node."""
    return constants._replace(
        **{
            name: value[nodes]
            for name, value in constants._asdict().items()
            if isinstance(value, np.ndarray) and len(value) == n
        }
    )


def share_of(origin: Origin, nodes: NDArray[np.int64], node_rows: NDArray[np.int64]) -> Origin:
    """The part of ``origin`` that some nodes, in increasing order, begin at; ``node_rows`` are those of all nodes."""
    own = np.zeros(len(node_rows), np.bool_)
    own[nodes] = True
    return Origin(origin.nodes[nodes], origin.tokens, origin.margins[np.repeat(own, node_rows)])


class Segments:
    """The schedule, segment by segment; the next one is drawn while the events of this one happen."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._drawer = ThreadPoolExecutor(1, "dtoken-draw")
        self._drawn: dict[int, Future[tuple[Events, Start]]] = {}

    def events(self, start: Start) -> Events:
        """The events of the segment that begins at ``start``."""
        drawn = self._draw(start)
        self._drawn = {}  # nothing is kept of what could not be drawn
        events, following = drawn.result()
        self._drawn = {start.segment: drawn, following.segment: self._draw(following)}
        return events

    def _draw(self, start: Start) -> "Future[tuple[Events, Start]]":
        found = self._drawn.get(start.segment)
        return found or self._drawer.submit(lambda: next(iter(self._schedule.segments(start))))

    def close(self) -> None:
        """Draw no more."""
        self._drawer.shutdown(wait=False, cancel_futures=True)
