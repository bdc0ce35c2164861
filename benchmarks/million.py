"""A million nodes: files, ingest, opening, memory, events per second, record points, and two workers.

    python benchmarks/million.py [--size small|full] [--json FILE] [--folder DIR]

n = 10^6 nodes, K = 1,000 tokens, a random 10-regular graph, 10 sparse rows a node, d = 50 (small: n = 10^4, K = 100).
Every run is a process of its own, whose peak memory is what its system says of it. Events per second come from its
trajectory: seconds of running, measurements apart. Runs of different sizes, threads and engines take turns. Beside
the speed stands what the memory allows: how long as many cache lines take as an event needs, read at random places.
What takes very many events is in billion.py.
"""

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from common import Figures, arguments

import dtoken
from dtoken.compiled import compiled
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic

FEATURES, ROWS_A_NODE, DENSITY, DEGREE = 50, 10, 0.1, 10
SAMPLE = {"every_passes": None, "sample": 20_000, "tokens": 50, "exact_ends": False}
SIZES = {  # nodes, fewer nodes, tokens, events of a turn
    "small": (10**4, 10**3, 100, 10**6),
    "full": (10**6, 10**4, 1000, 10**7),
}
LINES = 14  # cache lines of an event that are not where the last one was: model (7), row (2), row's facts (4), tables
MB = 1e6


def settings(n: int, tokens: int, events: int, folder: Path, **more: Any) -> dict[str, Any]:
    """A run on the data of the benchmark."""
    data = {"kind": "synthetic", "rows": ROWS_A_NODE * n, "features": FEATURES, "density": DENSITY}
    return {
        "data": data | {"store": str(folder)},
        "nodes": n,
        "sigma": 1e-2,
        "graph": {"kind": "random_regular", "degree": DEGREE},
        "algorithm": {
            "_target_": "tvr",
            "tokens": tokens,
            "start": "zero",
            "smoothness": "theory",
            "sampling": "uniform",  # rows have nearly equal norms
        },
        "stop": {"passes": None, "events": events},
        "record": SAMPLE,
        "checkpoint": {"seconds": None},
        "engine": {"kind": "local", "threads": 1},
        **more,
    }


def child(
    folder: Path, given: Mapping[str, Any], directory: Path | None = None, kill_after: float | None = None
) -> Any:
    """Run in a process of its own; what it tells, or whether it was killed, once there was a checkpoint."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json") as file:
        json.dump({"run": given, "directory": str(directory) if directory else None}, file)
        file.flush()
        process = subprocess.Popen([sys.executable, __file__, "--child", file.name], stdout=subprocess.PIPE, text=True)
        if kill_after is not None and directory is not None:
            while process.poll() is None and not (directory / "checkpoint.bin").exists():
                time.sleep(0.2)
            time.sleep(kill_after)
            killed = process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return killed
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"a run of the benchmark failed with status {process.returncode}")
        return json.loads(out.splitlines()[-1])


def run_child(file: str) -> None:
    """The run of such a process, and what it tells."""
    given = json.loads(Path(file).read_text())
    began = time.perf_counter()
    result = dtoken.run(**given["run"], directory=given["directory"])
    total, table = time.perf_counter() - began, result.trajectory
    told = {
        "events": int(table.event.iloc[-1]),
        "wall": float(table.wall.iloc[-1] - table.wall.iloc[0]),
        "total": total,
        "records": len(table),
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,  # without workers
        "theta": float(np.abs(result.theta).sum()),
        "digest": [float(value) for value in result.trajectory.iloc[-1][["event", "time", "distance", "consensus"]]],
    }
    print(json.dumps(told))


def random_line_seconds(size: int = 1 << 26) -> float:
    """Seconds per cache line, at random places of half a gigabyte, as many at a time as the processor likes."""
    memory, places = np.zeros(size), np.random.default_rng(0).integers(0, size, 1 << 21)
    _touch(memory, places[:8])
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        _touch(memory, places)
        taken.append(time.perf_counter() - began)
    return min(taken) / len(places)


@compiled
def _touch(memory: Any, places: Any) -> float:
    total = 0.0
    for place in places:
        total += memory[place]
    return total


def speed(told: Mapping[str, Any]) -> float:
    """Millions of events per second."""
    return float(told["events"] / told["wall"] / 1e6)


def fastest(tolds: Sequence[Mapping[str, Any]]) -> float:
    """The best of several turns."""
    return max(map(speed, tolds))


def main() -> None:
    options = arguments(__doc__, folder=True)
    n, few, tokens, events = SIZES[options.size]
    figures = Figures(options)
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory())
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        store_figures(figures, folder, n)
        speed_figures(figures, folder, n, few, tokens, events)
    figures.show()


def store_figures(figures: Figures, folder: Path, n: int) -> None:
    """Ingest and opening."""
    source = Synthetic(rows=ROWS_A_NODE * n, features=FEATURES, density=DENSITY)
    began = time.perf_counter()
    path = ingest(source, Partition(n), root=folder).path
    figures.add("ingest", time.perf_counter() - began, "s", at_most=90)
    figures.add("files of the store", sum(file.is_file() for file in path.rglob("*")), "files", at_most=100)
    began = time.perf_counter()
    ShardStore.open(path)
    figures.add("opening the store", time.perf_counter() - began, "s")


def speed_figures(figures: Figures, folder: Path, n: int, few: int, tokens: int, events: int) -> None:
    """One thread, two, two workers, a hundredth of the nodes, a budget: in turns."""
    short = child(folder, settings(n, tokens, 1000, folder))  # compiles, and finds the optimum
    again = child(folder, settings(n, tokens, 1000, folder))
    figures.add("preparing a run and one record, all cached", again["total"], "s", at_most=20)
    del short
    child(folder, settings(few, tokens, 1000, folder))
    dask = {"engine": "dask", "cluster": {"kind": "local", "workers": 2}}
    turns: dict[str, list[Any]] = {"one": [], "two": [], "few": [], "dask": []}
    for _ in range(2):
        turns["one"].append(child(folder, settings(n, tokens, events, folder)))
        turns["few"].append(child(folder, settings(few, tokens, events, folder)))
        turns["two"].append(child(folder, settings(n, tokens, events, folder, engine={"kind": "local", "threads": 2})))
        turns["dask"].append(child(folder, settings(n, tokens, events, folder, **dask)))
    one, two, small, workers = (fastest(turns[name]) for name in ("one", "two", "few", "dask"))
    figures.add(f"n = {n:,}: one thread", one, "million events/s", at_least=2)
    figures.add(f"n = {n:,}: two threads", two, "million events/s", at_least=3)
    figures.add(f"n = {few:,}: one thread", small, "million events/s")
    figures.add(f"cost of an event, n = {n:,} / {few:,}", small / one, "ratio", at_most=2.5)
    rings = {"graph": {"kind": "small_world", "degree": DEGREE}}
    world = child(folder, settings(n, tokens, events, folder, **rings))
    figures.add(f"n = {n:,}, a ring of small worlds: one thread", speed(world), "million events/s", at_least=2)
    line = random_line_seconds()
    figures.add("a cache line at a random place", 1e9 * line, "ns")
    figures.add(f"an event / {LINES} such lines", 1 / (1e6 * one * LINES * line), "ratio")
    figures.add("two workers of Dask / two threads", workers / two, "ratio", at_least=0.7)
    bits = {json.dumps(told["digest"]) for name in ("one", "two", "dask") for told in turns[name]}
    figures.add("different results of one thread, two, two workers", len(bits), "", at_most=1)
    figures.add("peak memory", max(told["peak"] for told in turns["one"]) / MB, "MB", at_most=8000)
    dense = child(folder, settings(n, tokens, events, folder) | {"record": SAMPLE | {"every_jumps": events // 40}})
    apart = (dense["total"] - dense["wall"]) - min(told["total"] - told["wall"] for told in turns["one"])
    figures.add("a record point on a sample", max(0.0, apart) / max(1, dense["records"] - 2), "s", at_most=2)
    budget = {"engine": {"kind": "local", "threads": 1, "memory": "2GB"}}
    held = child(folder, settings(n, tokens, events // 10, folder, **budget))
    figures.add("engine.memory=2GB: peak beyond it", max(0.0, held["peak"] / MB - 2000), "MB", at_most=250)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2])
    else:
        main()
