"""How fast events happen: against a bare compiled loop, with two threads, with ten thousand nodes, and drawn only.

    python benchmarks/events.py [--size small|full] [--json FILE]

All figures are ratios within one run, or rates beside such a ratio: machines are noisy. "Bare" is a numba loop over the
same event arrays with the same steps and nothing else; its result is compared with the engine's, bit for bit.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Figures, arguments, best

from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.compiled import compiled
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.engine.experiment import gather_facts
from dtoken.engine.local import LocalEngine
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.events import LOCAL, Events, concatenate
from dtoken.schedule.samples import row_of
from dtoken.schedule.stream import Drawn, Start

SEGMENTS = 4  # of 65,536 steps each: what is timed


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
    nodes, tokens = method.start(c, rows)
    method.begin(c, rows, nodes)
    return nodes, tokens


class Bench:
    """A method on a store over the complete graph."""

    def __init__(self, store: ShardStore, sigma: float, method: Any) -> None:
        self.store, self.method = store, method
        problem = FiniteSum(store, get_loss("logistic"), sigma)
        facts = gather_facts(problem, walk(build("complete", store.n)))
        self.loss = problem.loss
        self.c = method.constants(facts)
        self.schedule = method.schedule(self.c, facts, 0)
        self.events = self._draw(facts.n)

    def _draw(self, n: int) -> Events:
        start, parts = Start(0, self.method.token_start(n), 0, 0.0), []
        for (events, _), _ in zip(self.schedule.segments(start), range(SEGMENTS), strict=False):
            parts.append(events)
        return concatenate(parts)

    def engine(self, threads: int) -> tuple[float, list[np.ndarray]]:
        """Events per second, and the state afterwards."""
        with LocalEngine(self.method, self.c, self.store, self.loss, threads) as engine:
            engine.run(self.events.between(0, 0))
            rates = []
            for _ in range(3):
                engine.nodes, engine.tokens = start(self.method, self.c, engine.rows)
                began = time.perf_counter()
                for part in range(SEGMENTS):  # as a run does it: segment by segment
                    size = self.events.size // SEGMENTS
                    engine.run(self.events.between(part * size, self.events.size if part == 3 else (part + 1) * size))
                rates.append(self.events.size / (time.perf_counter() - began))
            return max(rates), [*engine.nodes, *engine.tokens]

    def bare(self) -> tuple[float, list[np.ndarray]]:
        """The same for the bare loop."""
        with LocalEngine(self.method, self.c, self.store, self.loss) as engine:
            events, rows = self.events, engine.rows
            row = np.empty(events.size, np.int64)
            resolve(events, engine.samples, rows.first, row)
            run, rates = bare_loop(self.method), []
            for count in (10, *[events.size] * 3):  # the first compiles
                nodes, tokens = start(self.method, self.c, rows)
                arrays = [array[:count] for array in (events.kind, events.node, row, events.token, events.at)]
                began = time.perf_counter()
                run(*arrays, self.c, rows, nodes, tokens)
                rates.append(count / (time.perf_counter() - began))
            return max(rates[1:]), [*nodes, *tokens]


def compare(figures: Figures, name: str, bench: Bench) -> None:
    bare, expected = bench.bare()
    one, state = bench.engine(1)
    two, again = bench.engine(2)
    same = all(np.array_equal(x, y) and np.array_equal(x, z) for x, y, z in zip(expected, state, again, strict=True))
    if not same:
        raise SystemExit(f"{name}: the engine's result differs from the bare loop's")
    figures.add(f"{name}: bare loop", bare / 1e6, "million events/s")
    figures.add(f"{name}: one thread / bare loop", one / bare, "ratio", at_least=0.9)
    figures.add(f"{name}: two threads / one", two / one, "ratio", at_least=1.5)


def many_nodes(figures: Figures, root: Path, n: int) -> float:
    """Events per second with n nodes of 20 rows and 50 features."""
    store = ingest(Synthetic(rows=20 * n, features=50, density=0.999), Partition(n), root=root)
    bench = Bench(store, 1e-2, TVR(tokens=4, smoothness="theory"))
    rate, _ = bench.engine(2)
    return rate


def draws(bench: Bench) -> float:
    """Events drawn per second."""
    start = Start(0, bench.method.token_start(bench.store.n), 0, 0.0)
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
        paper = Bench(store, 1e-5, TVR(tokens=4, smoothness="factor", sampling="uniform"))
        compare(figures, "tvr on rcv1_like, K = 4", paper)
        compare(figures, "tavr on rcv1_like, K = 4", Bench(store, 1e-5, TAVR(tokens=4, smoothness="factor")))
        figures.add("events drawn", draws(paper) / 1e6, "million/s", at_least=20.0)
        few, many = many_nodes(figures, root, 1000), many_nodes(figures, root, 10_000)
        figures.add("10,000 nodes x 20 rows x 50 features", many / 1e6, "million events/s", at_least=2.0)
        figures.add("10,000 nodes / 1,000 nodes, cost per event", few / many, "ratio")
        commands(figures, root)
    figures.show()


if __name__ == "__main__":
    main()
