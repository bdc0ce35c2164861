"""How fast events happen: against a bare compiled loop, with two threads, with ten thousand nodes, and drawn only.

    python benchmarks/events.py [--size small|full] [--json FILE]

All figures are ratios within one run, or rates beside such a ratio: machines are noisy. What a ratio compares takes
turns, and the fastest turn of each counts. "Bare" is a numba loop over the same event arrays with the same steps and
nothing else; its result is compared with the engine's, bit for bit.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import Figures, arguments, best, in_turns
from scipy.special import expit

from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.compiled import compiled
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import Experiment, gather_facts
from dtoken.engine.loop.run import run
from dtoken.engine.loop.settings import Recording, Stop
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import Optimum
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.events import LOCAL, Events, concatenate
from dtoken.schedule.samples import row_of
from dtoken.schedule.stream import SEGMENT_STEPS, Drawn, start_at

SEGMENTS = 4  # of 65,536 steps each: what is timed
TURNS = 5


def bare_loop(method: Any) -> Callable[..., None]:
    """The same steps without any framework."""
    local, visit = method.local, method.visit

    @compiled
    def run(kind, node, row, token, at, c, rows, nodes, tokens):  # type: ignore[no-untyped-def]
        for event in range(len(kind)):
            if kind[event] == LOCAL:
                local(c, rows, nodes, node[event], row[event], at[event])
            else:
                visit(c, rows, nodes, tokens, node[event], token[event], -1, at[event])

    return run


@compiled
def resolve(events, samples, first, row):  # type: ignore[no-untyped-def]
    for event in range(len(events.kind)):
        row[event] = row_of(samples, first, events.node[event], events.draw[event])


def start(method: Any, c: Any, rows: Any) -> tuple[Any, Any]:
    """The initial states."""
    nodes, tokens = method.states(c, rows)
    method.begin(c, rows, nodes)
    return nodes, tokens


class Bench:
    """A method on a store over the complete graph."""

    def __init__(self, store: ShardStore, sigma: float, method: Any) -> None:
        self.store, self.method = store, method
        self.problem = FiniteSum(store, get_loss("logistic"), sigma, threads=2)
        self.facts = gather_facts(self.problem, walk(build("complete", store.n)))
        self.loss = self.problem.loss
        self.c = method.constants(self.facts)
        self.schedule = method.schedule(self.c, self.facts, 0)
        self.events = self._draw(self.facts.n)

    def _draw(self, n: int) -> Events:
        start, parts = start_at(self.method.token_start(n)), []
        for (events, _), _ in zip(self.schedule.segments(start), range(SEGMENTS), strict=False):
            parts.append(events)
        return concatenate(parts)

    def local_steps(self, events: Events) -> None:
        """Keep the local steps of ``events`` only, the same as another method's."""
        chosen = events.kind == LOCAL
        self.events = Events(*(column[chosen] for column in events))

    def engine(self, threads: int) -> LocalEngine:
        """The engine, with compiled kernels."""
        engine = LocalEngine(self.method, self.c, self.store, self.loss, threads)
        engine.run(self.events.between(0, 0))
        return engine

    def seconds(self, engine: LocalEngine) -> float:
        """From the start through all events, segment by segment, as a run does it."""
        engine.begin(self.c)
        began = time.perf_counter()
        for first in range(0, self.events.size, SEGMENT_STEPS):
            engine.run(self.events.between(first, min(first + SEGMENT_STEPS, self.events.size)))
        engine.settle()
        return time.perf_counter() - began

    def bare(self, engine: LocalEngine) -> tuple[Callable[[], float], list[np.ndarray]]:
        """The same by the bare loop, and the state that it leaves."""
        events, rows, run = self.events, engine.rows, bare_loop(self.method)
        row = np.empty(events.size, np.int64)
        resolve(events, engine.samples(), rows.first, row)
        arrays = (events.kind, events.node, row, events.token, events.at)
        state: list[np.ndarray] = []

        def seconds() -> float:
            nodes, tokens = start(self.method, self.c, rows)
            state[:] = [*nodes, *tokens]
            began = time.perf_counter()
            run(*arrays, self.c, rows, nodes, tokens)
            return time.perf_counter() - began

        seconds()  # compiles
        return seconds, state


def compare(figures: Figures, name: str, bench: Bench) -> None:
    """The bare loop, one thread and two, in turns; the same bits from all."""
    with bench.engine(1) as one, bench.engine(2) as two:
        bare, expected = bench.bare(one)
        best = in_turns(TURNS, bare=bare, one=lambda: bench.seconds(one), two=lambda: bench.seconds(two))
        for engine in (one, two):
            if not all(map(np.array_equal, expected, [*engine.nodes, *engine.tokens])):
                raise SystemExit(f"{name}: the engine's result differs from the bare loop's")
    figures.add(f"{name}: bare loop", bench.events.size / best["bare"] / 1e6, "million events/s")
    figures.add(f"{name}: one thread / bare loop", best["bare"] / best["one"], "ratio", at_least=0.9)
    figures.add(f"{name}: two threads / one", best["one"] / best["two"], "ratio", at_least=1.5)


def compare_local_steps(figures: Figures, tvr: Bench, tavr: Bench) -> None:
    """The local steps of tavr's events, by both methods in the same order."""
    kept = tvr.events, tavr.events
    tvr.local_steps(tavr.events)
    tavr.local_steps(tavr.events)
    with tvr.engine(1) as one, tavr.engine(1) as other:
        best = in_turns(TURNS, tvr=lambda: tvr.seconds(one), tavr=lambda: tavr.seconds(other))
    figures.add("a local step of tvr", best["tvr"] / tvr.events.size * 1e9, "ns")
    figures.add("local steps/s, tavr / tvr", best["tvr"] / best["tavr"], "ratio", at_least=0.5)
    tvr.events, tavr.events = kept


def compare_gradients(figures: Figures, store: ShardStore) -> None:
    """A full gradient, against the two CSR products of scipy with the same derivatives between them."""
    shards = [store.shard(node) for node in range(store.n)]
    X = sp.vstack([sp.csr_matrix((s.data, s.indices, s.indptr), shape=(s.rows, store.d)) for s in shards]).tocsr()
    y, theta = np.concatenate([shard.y for shard in shards]), np.random.default_rng(0).standard_normal(store.d)
    problems = [FiniteSum(store, get_loss("logistic"), 1e-5, threads=threads) for threads in (1, 2)]

    def scipy_gradient() -> np.ndarray:
        return np.asarray((-y * expit(-y * (X @ theta))) @ X)

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        work()  # compiles, reads
        return lambda: best(work, 1)

    gradients = {f"threads{p.threads}": timed(lambda p=p: p.gradient(theta)) for p in problems}  # type: ignore[misc]
    least = in_turns(TURNS, scipy=timed(scipy_gradient), **gradients)
    figures.add(
        "full gradient / scipy's products, one thread", least["threads1"] / least["scipy"], "ratio", at_most=1.3
    )
    figures.add("full gradient, one thread / two", least["threads1"] / least["threads2"], "ratio")


def many_nodes(figures: Figures, root: Path, n: int) -> float:
    """Events per second with n nodes of 20 rows and 50 features, as the command runs them: drawing, clock and all."""
    began = time.perf_counter()
    store = ingest(Synthetic(rows=20 * n, features=50, density=0.999), Partition(n), root=root)
    figures.add(f"{n:,} nodes: ingesting", time.perf_counter() - began, "s")
    bench = Bench(store, 1e-2, TVR(start="zero", tokens=4, smoothness="theory"))
    nothing = Optimum(np.zeros(store.d), 0.0, 0.0, 0.0, 0.0, 0)  # only needed to measure accuracy
    law, costs = bench.method.law(bench.c, bench.facts), bench.method.costs(bench.facts)
    experiment = Experiment(
        bench.problem, bench.method, bench.facts.walk, bench.facts, bench.c, law, costs, TimeModel(), 0, nothing
    )
    with bench.engine(1) as engine:  # the number of threads that the command takes for short steps

        def seconds() -> float:
            engine.begin(bench.c)
            last = run(experiment, engine, Stop(passes=None, events=bench.events.size), Recording(None)).records[-1]
            return last.wall

        return bench.events.size / in_turns(TURNS, all=seconds)["all"]


def draws(bench: Bench) -> float:
    """Events drawn per second."""
    start = start_at(bench.method.token_start(bench.store.n))
    schedule = bench.schedule
    assert isinstance(schedule, Drawn)
    return schedule.segment(start)[0].size / best(lambda: schedule.segment(start), 20)


def commands(figures: Figures, root: Path) -> None:
    """How long a user waits for small things, with kernels cached on disk."""
    environment = ["env", f"DTOKEN_STORE={root}"]
    dtoken = str(Path(sys.executable).parent / "dtoken")
    tiny = [*environment, dtoken, f"hydra.run.dir={root}/run", "nodes=4", "stop.passes=3"]

    def run(command: list[str]) -> None:
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["rm", "-rf", f"{root}/run"], check=True)

    run(tiny)
    figures.add("dtoken --help", best(lambda: run([*environment, dtoken, "--help"]), 3), "s", at_most=1.5)
    figures.add("a tiny run, kernels cached", best(lambda: run(tiny), 3), "s", at_most=4.0)
    cold = [*environment, f"NUMBA_CACHE_DIR={root}/kernels", *tiny[2:]]
    figures.add("the same, nothing cached", best(lambda: run(cold), 1), "s", at_most=40.0)


def main() -> None:
    options = arguments(__doc__)
    rows = 196_820 if options.size == "full" else 20_000
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = ingest(Rcv1Like(rows=rows), Partition(20), root=root)
        tvr = Bench(store, 1e-5, TVR(start="zero", tokens=4, smoothness="factor", sampling="uniform"))
        tavr = Bench(store, 1e-5, TAVR(start="zero", tokens=4, smoothness="factor"))
        compare(figures, "tvr on rcv1_like, K = 4", tvr)
        compare(figures, "tavr on rcv1_like, K = 4", tavr)
        compare_local_steps(figures, tvr, tavr)
        compare_gradients(figures, store)
        figures.add("events drawn", draws(tvr) / 1e6, "million/s", at_least=20.0)
        few, many = many_nodes(figures, root, 1000), many_nodes(figures, root, 10_000)
        figures.add("10,000 nodes x 20 rows x 50 features", many / 1e6, "million events/s", at_least=2.0)
        figures.add("10,000 nodes / 1,000 nodes, cost per event", few / many, "ratio")
        commands(figures, root)
    figures.show()


if __name__ == "__main__":
    main()
