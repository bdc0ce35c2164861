"""What the parts of a run take on this machine, measured briefly before it: what ``algorithm.p_comm=auto`` goes by."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dtoken.data.rows import RowBlock
from dtoken.engine.assignment import subset
from dtoken.engine.experiment import Experiment
from dtoken.engine.local import LocalEngine
from dtoken.problem.shards import Shards
from dtoken.schedule.events import LOCAL, NO_SAMPLE, NONE, VISIT, Events, no_events
from dtoken.theory.local_work import Times, choose_p_comm

if TYPE_CHECKING:
    from dtoken.engine.dask_engine import DaskEngine

ENOUGH = 0.02  # seconds that can be measured well
REPEATS = 3


@dataclass(frozen=True)
class _Some:
    """A few nodes of a dataset."""

    shards: Shards
    nodes: tuple[int, ...]
    path: None = None

    @property
    def n(self) -> int:
        return len(self.nodes)

    @property
    def d(self) -> int:
        return self.shards.d

    @property
    def classes(self) -> bool:
        return self.shards.classes

    @property
    def node_rows(self) -> tuple[int, ...]:
        return tuple(self.shards.node_rows[node] for node in self.nodes)

    @property
    def node_nonzeros(self) -> tuple[int, ...]:
        return tuple(self.shards.node_nonzeros[node] for node in self.nodes)

    def blocks(self, node: int) -> Iterator[RowBlock]:
        return self.shards.blocks(self.nodes[node])


@dataclass(frozen=True)
class Choice:
    """A p_comm, and what it was chosen by."""

    value: float
    seconds: Mapping[str, float] = field(default_factory=dict)  # Times by name; none if it comes from a log
    workers: int | None = None

    def text(self, balanced: float) -> str:
        """The choice in words."""
        times = ", ".join(f"{name} {1e6 * seconds:.3g} us" for name, seconds in self.seconds.items() if seconds)
        return f"{self.value:.3g} chosen, balanced {balanced:.3g}: {times}"


def choose(experiment: Experiment, engine: "LocalEngine | DaskEngine", threads: int, reads: bool) -> Choice:
    """Choose a p_comm by what is measured now; ``threads`` are those of the local engine."""
    if isinstance(engine, LocalEngine):
        times, workers = measure_times(experiment, threads, reads), threads
    else:
        hop, workers = min(engine.hop_seconds, default=0.0), engine.workers
        times = measure_times(experiment, 1, reads)._replace(hop=hop)
    tokens = len(experiment.start.positions)
    value = choose_p_comm(experiment.constants.balanced, times, tokens, experiment.law.jumps, workers)
    return Choice(value, times._asdict(), workers)


def measure_times(experiment: Experiment, threads: int, reads: bool) -> Times:
    """Times of the steps of an experiment on two of its nodes; a hop is one from thread to thread.

    Parameters
    ----------
    experiment
        What is to be run.
    threads
        Threads of the run; with one, tokens are never away.
    reads
        Whether shards are read again and again.
    """
    nodes = tuple(np.flatnonzero(experiment.facts.samples)[:2].tolist())
    some = _Some(experiment.problem.shards, nodes)
    constants = subset(experiment.constants, np.array(nodes), experiment.n)

    def engine(count: int) -> LocalEngine:
        return LocalEngine(experiment.method, constants, some, experiment.problem.loss, count)

    with engine(1) as alone:
        alone.run(no_events())  # compiles
        local = _seconds_each(lambda count: alone.run(_steps(LOCAL, count, some.n)))
        visit = _seconds_each(lambda count: alone.run(_steps(VISIT, count, some.n)))
    hop = 0.0
    if threads > 1 and some.n > 1:
        with engine(2) as pair:
            hop = max(0.0, _seconds_each(lambda count: pair.run(_steps(VISIT, count, 2))) - visit)
    return Times(local, visit, hop, _read_seconds(some) if reads else 0.0)


def _read_seconds(some: _Some) -> float:
    began = time.perf_counter()
    for node in range(some.n):
        for _ in some.blocks(node):
            pass
    return (time.perf_counter() - began) / some.n


def _seconds_each(run: Callable[[int], None]) -> float:
    """Seconds of one of many steps: the best of some repetitions that are long enough."""
    count, taken = 64, 0.0
    while taken < ENOUGH:
        count *= 2
        taken = _seconds(run, count)
    return min(taken, *(_seconds(run, count) for _ in range(REPEATS - 1))) / count


def _seconds(run: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return time.perf_counter() - began


def _steps(kind: int, count: int, nodes: int) -> Events:
    """Steps at all nodes in turn; samples are spread evenly, in an order without pattern."""
    number = np.arange(count, dtype=np.float64)
    local = kind == LOCAL
    return Events(
        kind=np.full(count, kind, np.int8),
        node=(number % nodes).astype(np.int32),
        source=np.full(count, NONE, np.int32) if local else ((number - 1) % nodes).astype(np.int32),
        token=np.full(count, NONE if local else 0, np.int32),
        other=np.full(count, NONE, np.int32),
        draw=np.mod(number * 0.6180339887498949, 1.0) if local else np.full(count, NO_SAMPLE),
        at=number + 1.0,
    )
