"""Events per second of the local engine, of one Dask worker and of two, and what the schedule allows.

    python benchmarks/scaling.py [--size small|full] [--json FILE]

The local engine with one thread and with two, one worker with one thread and with two, and two workers with one thread
each take turns on the same events, and the best turn of each counts. What the schedule allows: with the measured
times of a local step and of a visit, two workers cannot be faster than the longest chain of events that depend on each
other (events of one node, visits of one token), nor than the work of the busier one. What the machine allows: two
single workers, each with a run of its own and nothing to tell each other, at the same time against one alone; where
processors share caches and memory that is less than two. Processor time, of the busier worker with all that it spends
on messages, says what a machine with processors to spare could show. Where a target is missed, a profile of one
and of two follows.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Figures, arguments
from distributed import Client, LocalCluster

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import Experiment, gather_facts
from dtoken.engine.placement import place
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import Optimum
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.events import LOCAL, MOVE, Events
from dtoken.schedule.stream import Start
from hydra_dask.cluster.connection import quiet

NODES, SIGMA, TURNS = 20, 1e-5, 4
CASES = [("tvr", 4, "complete"), ("token", 20, "complete")] + [
    ("tvr", k, graph) for k in (1, 4, 20) for graph in ("complete", "ring") if (k, graph) != (4, "complete")
]
TARGETS = {  # two workers / one
    "token, K = 20, complete": 1.5,
    "tvr, K = 1, complete": 1.3,
    "tvr, K = 1, ring": 1.3,
    **{f"tvr, K = {k}, complete": 1.6 for k in (4, 20)},
    **{f"tvr, K = {k}, ring": 1.7 for k in (4, 20)},
}


class Stretch(NamedTuple):
    """Events of one segment, and where they stand in the schedule."""

    events: Events
    start: Start
    offset: int


def make_experiment(store: ShardStore, name: str, tokens: int, graph: str) -> Experiment:
    """A method on the data; nothing is measured here, so the optimum does not have to be known."""
    method: Any = {"token": Token, "tvr": TVR}[name](tokens=tokens, smoothness="factor")
    problem = FiniteSum(store, get_loss("logistic"), SIGMA)
    steps = walk(build(graph, store.n), "simple" if graph == "complete" else "lazy")
    facts = gather_facts(problem, steps)
    constants = method.constants(facts)
    law, costs = method.law(constants, facts), method.costs(facts)
    unknown = Optimum(np.zeros(store.d), 0.0, 0.0, 0.0, 0.0, 0)
    return Experiment(problem, method, steps, facts, constants, law, costs, TimeModel(), 0, unknown)


def turns(experiment: Experiment, count: int) -> Iterator[list[Stretch]]:
    """The schedule in pieces of ``count`` events."""
    turn, start = [], experiment.start
    for events, following in experiment.schedule.segments(start):
        offset = 0
        while offset < events.size:
            end = min(events.size, offset + count - sum(stretch.events.size for stretch in turn))
            turn.append(Stretch(events.between(offset, end), start, offset))
            offset = end
            if sum(stretch.events.size for stretch in turn) == count:
                yield turn
                turn = []
        start = following


class Spent(NamedTuple):
    """What turns took, in seconds: the last three by the engine's own account, of all its threads."""

    own: float = 0.0  # processor time of the threads that carry out events
    others: float = 0.0  # of all other threads: they draw events, send and receive, and keep up Dask
    busy: float = 0.0
    waiting: float = 0.0
    sending: float = 0.0


def processor_times() -> tuple[float, float]:
    """Of the threads of this process that carry out events, and of all others."""
    own = sum(
        time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.ident is not None and thread.name.startswith(("dtoken-host", "dtoken-run"))
    )
    return own, time.process_time() - own


class Timed:
    """An engine, the best time that a turn took, the least processor time of its busiest process, and what all took."""

    def __init__(self, engine: Any, cpu: Callable[[], list[tuple[float, float]]]) -> None:
        self.engine, self._cpu = engine, cpu
        self.seconds, self.cpu, self.waiting = np.inf, np.inf, 0.0
        self.spent, self.events = Spent(), 0

    def _account(self) -> Spent:
        tallies = getattr(self.engine, "tallies", {}).values()
        return Spent(0.0, 0.0, *(sum(getattr(each, name) for each in tallies) for name in Spent._fields[2:]))

    def take(self, turn: Sequence[Stretch]) -> None:
        """Let the engine run the events of a turn."""
        before, account, began = self._cpu(), self._account(), time.perf_counter()
        for stretch in turn:
            self.engine.run(*stretch)
        self.engine.settle()
        seconds = time.perf_counter() - began
        changes = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, self._cpu(), strict=True)]
        account = Spent(*(b - a for a, b in zip(account, self._account(), strict=True)))
        account = account._replace(own=sum(own for own, _ in changes), others=sum(others for _, others in changes))
        if seconds < self.seconds:
            self.seconds, self.waiting = seconds, account.waiting / len(before) / seconds
        self.cpu = min(self.cpu, max(map(sum, changes)))
        self.spent = Spent(*(a + b for a, b in zip(self.spent, account, strict=True)))
        self.events += sum(stretch.events.size for stretch in turn)


def profile(figures: Figures, case: str, one: Timed, two: Timed) -> None:
    """Where the processors of one worker and of two spend their time: nanoseconds of each event."""
    words = (
        "threads of events, processor time",
        "other threads, processor time",
        "in steps",
        "waiting",
        "handing over",
    )
    for who, engine in (("one worker", one), ("two workers together", two)):
        for what, seconds in zip(words, engine.spent, strict=True):
            figures.add(f"{case}: {who}: {what}", 1e9 * seconds / engine.events, "ns an event")


def together(engines: Sequence[Timed], turn: Sequence[Stretch]) -> float:
    """Seconds until all engines, each in workers of its own, have run the events of a turn."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(engines)) as pool:
        list(pool.map(lambda engine: engine.take(turn), engines))
    return time.perf_counter() - began


def local_timed(stack: ExitStack, experiment: Experiment, store: ShardStore, threads: int) -> Timed:
    return Timed(stack.enter_context(local_engine(experiment, store, threads)), lambda: [(time.process_time(), 0.0)])


def dask_timed(stack: ExitStack, experiment: Experiment, store: ShardStore, client: Client) -> Timed:
    engine = stack.enter_context(DaskEngine(client, experiment, store))
    return Timed(engine, lambda: list(client.run(processor_times).values()))


def local_engine(experiment: Experiment, store: ShardStore, threads: int = 1) -> LocalEngine:
    return LocalEngine(experiment.method, experiment.constants, store, experiment.problem.loss, threads)


def step_and_visit(experiment: Experiment, store: ShardStore, turn: Sequence[Stretch]) -> tuple[float, float]:
    """Seconds of a local step and of a visit, by running all steps alone."""
    totals, counts = np.zeros(2), np.zeros(2)
    with local_engine(experiment, store) as engine:
        for events, _, _ in turn:
            for kind, which in enumerate((events.kind == LOCAL, (events.kind != LOCAL) & (events.kind != MOVE))):
                began = time.perf_counter()
                engine.run(Events(*(column[which] for column in events)))
                totals[kind] += time.perf_counter() - began
                counts[kind] += which.sum()
    step, visit = totals / np.maximum(1, counts)
    return float(step), float(visit)


def bound(turn: Sequence[Stretch], placement: Any, step: float, visit: float, tokens: int) -> float:
    """Total work divided by the longest chain, or by the work of the busier worker."""
    node_clock, token_clock = np.zeros(len(placement)), np.zeros(tokens)
    load = np.zeros(placement.max() + 1)
    for events, _, _ in turn:
        for kind, node, token in zip(events.kind.tolist(), events.node.tolist(), events.token.tolist(), strict=True):
            if kind == LOCAL:
                node_clock[node] += step
                load[placement[node]] += step
            elif kind != MOVE:
                node_clock[node] = token_clock[token] = max(node_clock[node], token_clock[token]) + visit
                load[placement[node]] += visit
    return float(load.sum() / max(load.max(), node_clock.max()))


def compare(figures: Figures, store: ShardStore, clients: Sequence[Client], name: str, tokens: int, graph: str) -> None:
    experiment = make_experiment(store, name, tokens, graph)
    rows = max(store.node_rows)
    pieces = turns(experiment, 8_000_000 // rows if name == "token" else 400_000)
    pair = np.inf
    with ExitStack() as stack:
        local, local_two, one, two, threads, twin = timed = [
            *(local_timed(stack, experiment, store, threads) for threads in (1, 2)),
            *(dask_timed(stack, experiment, store, client) for client in clients),
        ]
        for _, turn in zip(range(TURNS), pieces, strict=False):
            for engine in timed:
                engine.take(turn)
            pair = min(pair, together([one, twin], turn))
    step, visit = step_and_visit(experiment, store, turn)
    most = bound(turn, place(experiment.walk.topology, store.node_nonzeros, [1, 1]).hosts, step, visit, tokens)
    events = sum(stretch.events.size for stretch in turn)
    case = f"{name}, K = {tokens}, {graph}"
    figures.add(f"{case}: local, one thread", events / local.seconds / 1e6, "million events/s")
    wanted = 0.9 if case == "tvr, K = 4, complete" else None
    figures.add(f"{case}: one worker / local", local.seconds / one.seconds, "ratio", at_least=wanted)
    figures.add(f"{case}: the same in processor time", local.cpu / one.cpu, "ratio")
    figures.add(f"{case}: two workers / one", one.seconds / two.seconds, "ratio", at_least=TARGETS.get(case))
    figures.add(f"{case}: the same in processor time", one.cpu / two.cpu, "ratio")
    figures.add(f"{case}: what the schedule allows", most, "ratio")
    figures.add(f"{case}: what the machine allows", 2 * min(one.seconds, twin.seconds) / pair, "ratio")
    figures.add(f"{case}: two workers wait", two.waiting, "of the time")
    if one.seconds / two.seconds < TARGETS.get(case, 0.0):
        profile(figures, case, one, two)
    figures.add(f"{case}: two threads / one", local.seconds / local_two.seconds, "ratio")
    wanted = 0.95 if name == "tvr" and tokens > 1 else None
    figures.add(
        f"{case}: worker with two threads / two threads", local_two.seconds / threads.seconds, "ratio", at_least=wanted
    )


def main() -> None:
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as root, quiet(), ExitStack() as stack:
        store = ingest(Rcv1Like(rows=196_820 if options.size == "full" else 20_000), Partition(NODES), root=Path(root))
        clients = []
        for workers, threads in ((1, 1), (2, 1), (1, 2), (1, 1)):
            cluster = LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address="127.0.0.1:0")
            clients.append(stack.enter_context(Client(stack.enter_context(cluster))))
        for case in CASES:
            compare(figures, store, clients, *case)
    figures.show()


if __name__ == "__main__":
    main()
