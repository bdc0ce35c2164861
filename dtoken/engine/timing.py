"""What the parts of a run take on this machine, measured briefly before it: what ``algorithm.p_comm=auto`` goes by."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.starts import from_zero
from dtoken.data.rows import RowBlock, cut
from dtoken.data.store import ShardStore
from dtoken.engine.bounds import Costs, bounds
from dtoken.engine.dask.assignment import subset
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.rows.node_rows import readers
from dtoken.engine.rows.row_cache import RowCache, Units, unit_rows
from dtoken.errors import InputError
from dtoken.problem.blocks import Blocks
from dtoken.problem.shards import Counts, Shards
from dtoken.schedule.events import LOCAL, MOVE, NO_SAMPLE, NONE, VISIT, Events, no_events
from dtoken.theory.local_work import Times, choose_p_comm

ENOUGH = 0.02  # seconds that can be measured well
REPEATS = 3
ENTRIES = 1 << 17  # of each of two nodes where memory is short: as many as the smallest budget has room for


@dataclass(frozen=True)
class _Some:
    """The first rows of a few nodes of a dataset."""

    shards: Shards
    nodes: tuple[int, ...]
    node_rows: Counts
    node_nonzeros: Counts
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

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        for node in range(first, first + 1 if stop is None else stop):
            yield from _first_rows(self.shards, self.nodes[node], int(self.node_rows[node]))

    @property
    def share(self) -> float:
        """Of the non-zeros of these nodes."""
        return float(self.node_nonzeros.sum() / self.shards.node_nonzeros[list(self.nodes)].sum())


def _some(shards: Shards, nodes: tuple[int, ...], sample: Blocks, entries: int | None) -> _Some:
    """So many rows of ``nodes`` as have about ``entries`` non-zeros each, but at least a sample; None: all."""
    rows, nonzeros = [], []
    for node in nodes:
        all_rows, all_entries = int(shards.node_rows[node]), int(shards.node_nonzeros[node])
        share = 1.0 if entries is None else min(1.0, entries / all_entries)
        rows.append(min(all_rows, max(sample.rows, math.ceil(share * all_rows))))
        nonzeros.append(sum(len(block.data) for block in _first_rows(shards, node, rows[-1])))
        if nonzeros[-1] == 0:
            rows[-1], nonzeros[-1] = all_rows, all_entries
    return _Some(shards, nodes, np.array(rows), np.array(nonzeros))


def _first_rows(shards: Shards, node: int, rows: int) -> Iterator[RowBlock]:
    for block in shards.blocks(node):
        yield cut(block, 0, min(rows, block.rows))
        rows -= block.rows
        if rows <= 0:
            return


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


def choose(experiment: Experiment, times: Times, workers: int) -> Choice:
    """Choose a p_comm by what was measured, for so many threads or workers."""
    tokens, jumps = len(experiment.start.positions), experiment.law.jumps
    samples = float(experiment.facts.samples.mean()) if experiment.method.draws_samples else 1.0
    value = choose_p_comm(experiment.constants.balanced, times, tokens, jumps, workers, samples)
    return Choice(value, times._asdict(), workers)


def measure_times(experiment: Experiment, threads: int, reads: bool, entries: int | None = None) -> Times:
    """Times of the steps of an experiment on two of its nodes; a hop is one from thread to thread.

    Parameters
    ----------
    experiment
        What is to be run.
    threads
        Threads of the run; with one, tokens are never away.
    reads
        Whether rows are read again and again.
    entries
        Non-zeros of each node that may be in memory; None: all.
    """
    method, problem = from_zero(experiment.method), experiment.problem  # where it starts does not matter
    nodes = tuple(np.flatnonzero(experiment.facts.samples)[:2].tolist())
    some = _some(problem.shards, nodes, method.blocks, entries)
    constants = subset(experiment.constants, np.array(nodes), experiment.n)

    def seconds(kind: int, count: int) -> float:
        with LocalEngine(method, constants, some, problem.loss, count) as engine:
            engine.run(no_events())  # compiles
            return _seconds_each(lambda steps: engine.run(_steps(kind, steps, some.n)))

    local, visit, hop = seconds(LOCAL, 1), seconds(VISIT, 1), 0.0
    if not method.draws_samples:
        local /= some.share
    if threads > 1 and some.n > 1:
        hop = max(0.0, seconds(VISIT, 2) - visit)
    return Times(local, visit, hop, _read_seconds(experiment, nodes[0]) if reads else 0.0)


def link_seconds(experiment: Experiment, host: NDArray[np.int64], sending: float) -> float:
    """Seconds of a visit, on average, in which its token keeps others from leaving the host that sends most."""
    events, _ = next(iter(experiment.schedule.segments(experiment.start)))
    visits = np.count_nonzero((events.kind != LOCAL) & (events.kind != MOVE))
    busiest = bounds(events, host, experiment.start.positions, Costs(0.0, 0.0, 0.0, sending)).link
    return busiest / max(1, int(visits))


def _read_seconds(experiment: Experiment, node: int) -> float:
    """Seconds of bringing in what a local step uses."""
    method, store = experiment.method, experiment.problem.shards
    if not isinstance(store, ShardStore):
        return 0.0
    rows, nonzeros = int(store.node_rows[node]), int(store.node_nonzeros[node])
    share = min(1.0, 2 * unit_rows(method) / rows)
    arguments = (method, readers(method))
    try:
        entries = 2 * max(math.ceil(share * nonzeros), ENTRIES)
        cache = RowCache(store, [node], experiment.problem.loss, entries, *arguments)
    except InputError:  # a block with more than twice the entries of the others
        cache = RowCache(store, [node], experiment.problem.loss, 2 * nonzeros, *arguments)
    try:
        units = np.arange(cache.first[-1])
        cache.commit(cache.load(units[:1]))  # compiles
        pieces = 2 * -(-nonzeros // cache.piece)
        whole = not method.draws_samples
        parts = np.array_split(units, pieces) if whole else [units[k::pieces] for k in range(pieces)]
        steps = 1 / len(units) if whole else cache.unit / cache.rows.block  # that a unit serves
        return min(_loading(cache, part) for part in parts[:REPEATS]) / steps
    finally:
        cache.close()


def _loading(cache: RowCache, units: Units) -> float:
    """Seconds of bringing in units that are not in memory, each."""
    units = units[: np.searchsorted(np.cumsum(cache.sizes(units)), cache.piece, "right")]
    began = time.perf_counter()
    cache.commit(cache.load(units))
    return (time.perf_counter() - began) / max(1, len(units))


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
