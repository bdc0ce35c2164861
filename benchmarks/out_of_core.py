"""What a memory budget costs: speed with and without it, resident memory, read-ahead, many nodes, long runs.

    python benchmarks/out_of_core.py [--size small|full] [--json FILE] [--folder DIR]

Every configuration runs in a process of its own, whose resident memory is sampled from its start to its end. Speeds are
gradients of single rows per second of running; "warm" means that the files are in the
system's page cache, "cold" that they were dropped from it before. The data take 3.2 GB of disk space at full size.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import Figures, arguments

from dtoken.algorithms import method_class
from dtoken.config.settings import make_settings
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import gather_facts
from dtoken.engine.loop.recorder import Record
from dtoken.engine.rows.memory import memory_need
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.events import LOCAL
from dtoken.schedule.stream import start_at
from dtoken.session.execute import execute
from dtoken.session.prepare import prepare_run
from dtoken.session.viewer import Viewer

SIZES = {  # rows, budget in MB, seconds of each turn, events of the long run
    "small": (300_000, 80, 3.0, 10**7),
    "full": (3_500_000, 300, 4.0, 10**8),
}
TURNS = 2  # of what is compared; the fastest of each counts
LONG_BUCKET = 512  # rows: what a cold disk reads as fast as in order
BLOCK_ROWS = 64
SHARE = 0.005  # of visits among the events, about what theory asks for
OVERHEAD = 250  # MB beyond the budget: Python, numpy, numba and the compiled code


def child(task: dict[str, Any]) -> None:
    """One configuration, in this process."""
    store = ShardStore.open(task["store"])
    name = task.get("name", "tvr")
    method = method_class(name)(tokens=4, smoothness="factor", start="zero", **task.get("method", {}))
    need = memory_need(method, store.n, store.d, store.node_rows, store.node_nonzeros)
    room = need.room(task["memory"], task.get("read_ahead", True))
    problem = FiniteSum(store, get_loss("logistic"), 1e-5, memory=0)
    facts = gather_facts(problem, walk(build("complete", store.n)))
    c = method.constants(facts)
    segments = method.schedule(c, facts, 0).segments(start_at(method.token_start(store.n)))
    rows = task.get("method", {}).get("block_rows", 1)
    with LocalEngine(method, c, store, problem.loss, task["threads"], room) as engine:
        events, _ = next(segments)
        engine.run(events)
        engine.settle()  # compiled, and the arena is full
        if task.get("cold"):
            drop_from_page_cache(Path(task["store"]))
        gradients, spent = 0, 0.0
        while spent < task["seconds"]:
            parts = [next(segments)[0] for _ in range(4)]  # drawing is not what is measured
            gradients += rows * sum(int(np.count_nonzero(part.kind == LOCAL)) for part in parts)
            began = time.perf_counter()
            for part in parts:
                engine.run(part)
            engine.settle()
            spent += time.perf_counter() - began
        read = 0 if engine._node_rows.pieces is None else engine._node_rows.pieces.cache.entries_read
        measured = engine.measure(0.0, np.zeros(store.d))
    state = [float(np.sum(engine.nodes[0])), float(measured.values.sum())]
    print(json.dumps({"speed": gradients / spent, "gradients": gradients, "entries_read": read, "state": state}))


def long_run(task: dict[str, Any]) -> None:
    """Very many events on a tiny problem; the resident memory at each record point."""
    settings = make_settings(
        data={"kind": "synthetic", "rows": 2000, "features": 20, "store": task["root"]},
        nodes=10,
        stop={"events": task["events"], "passes": None, "suboptimality": None},
        record={"every_passes": task["events"] / 2000 / 50},
        engine={"kind": "local", "threads": 1},
    )
    process, resident = psutil.Process(), []

    class Noting(Viewer):
        def record(self, record: Record) -> None:
            resident.append((record.event, process.memory_info().rss))

    execute(prepare_run(settings), viewer=Noting())
    print(json.dumps({"resident": resident}))


def drop_from_page_cache(folder: Path) -> None:
    os.sync()
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(task: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[float, int]]]:
    """Run a child; return what it says, and (seconds, resident bytes) samples of it."""
    command = [sys.executable, __file__, "--child", json.dumps(task)]
    began, samples = time.perf_counter(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                samples.append((time.perf_counter() - began, watched.memory_info().rss))
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{task} failed")
    return json.loads(output.splitlines()[-1]), samples


def peak(samples: list[tuple[float, int]]) -> float:
    return max(size for _, size in samples) / 1e6


def read_in_order(store: ShardStore) -> float:
    """Rows a second that the disk gives when their entries are read file by file, none of it in the page cache."""
    drop_from_page_cache(store.path)
    arrays = [store.array(pack, name) for name in ("X/data", "X/indices") for pack in range(store.meta.packs)]
    buffer, began = bytearray(1 << 23), time.perf_counter()
    for file in [array.chunk_path(chunk) for array in arrays for chunk in range(array.chunks)]:
        with open(file, "rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass
    return sum(store.node_rows) / (time.perf_counter() - began)


def compare(
    figures: Figures, name: str, task: dict[str, Any], budget: int, at_least: float | None, of_disk: bool = False
) -> None:
    """The budget against unlimited memory, read-ahead against none, and a cold disk against one that reads in order."""
    variants = ({"memory": None}, {"memory": budget})
    measured(task | {"memory": budget, "seconds": 1e-3})  # compiles, which takes memory of its own
    turns = [[measured(task | variant) for variant in variants] for _ in range(TURNS)]
    unlimited, ahead = (max(found["speed"] for found, _ in turn) for turn in zip(*turns, strict=True))
    alone = measured(task | {"memory": budget, "read_ahead": False})[0]["speed"]
    figures.add(f"{name}: all rows in memory", unlimited / 1e6, "million gradients/s")
    figures.add(f"{name}: budget / unlimited, warm", ahead / unlimited, "ratio", at_least=at_least)
    cost = [1 / speed - 1 / unlimited for speed in (alone, ahead)]
    figures.add(f"{name}: cost of reading, nothing ahead", 1e6 * cost[0], "us a gradient")
    figures.add(f"{name}: share that read-ahead hides", 1 - cost[1] / cost[0], "ratio", at_least=0.5)
    largest = max(peak(samples) for _, (_, samples) in turns)
    figures.add(f"{name}: peak memory beyond the budget", largest - budget / 1e6, "MB", at_most=OVERHEAD)
    cold, _ = measured(task | {"memory": budget, "cold": True})
    figures.add(f"{name}: budget / unlimited, cold", cold["speed"] / unlimited, "ratio")
    if of_disk:
        in_order = read_in_order(ShardStore.open(task["store"]))
        figures.add(f"{name}: cold disk / the same rows in order", cold["speed"] / in_order, "ratio")
        method = task["method"] | {"bucket_rows": LONG_BUCKET}
        cold, _ = measured(task | {"memory": budget, "cold": True, "method": method})
        long_name = f"{name}, buckets of {LONG_BUCKET}"
        figures.add(f"{long_name}: budget / unlimited, cold", cold["speed"] / unlimited, "ratio", at_least=0.3)
        figures.add(f"{long_name}: cold / in order", cold["speed"] / in_order, "ratio", at_least=0.8)


def many_nodes(figures: Figures, root: Path, rows: int, budget: int, seconds: float) -> None:
    """The same data on ten times as many nodes, none of which fits into memory as a whole."""
    stores = [ingest(Rcv1Like(rows=rows), Partition(nodes), root=root) for nodes in (20, 200)]

    def growth(method: dict[str, Any]) -> float:
        task = {"threads": 1, "seconds": seconds, "memory": budget, "method": method}
        few, many = (max(measured(task | {"store": str(s.path)})[0]["speed"] for _ in range(2)) for s in stores)
        return float(few / many)

    figures.add(
        "200 nodes / 20, block tvr, time per gradient", growth({"block_rows": BLOCK_ROWS}), "ratio", at_most=1.2
    )
    name = f"200 nodes / 20, row-wise tvr, p_comm={SHARE:g} for both"
    figures.add(name, growth({"p_comm": SHARE}), "ratio", at_most=1.2)
    figures.add("200 nodes / 20, row-wise tvr, the theory's p_comm", growth({}), "ratio")


def length(figures: Figures, root: Path, events: int) -> None:
    found, _ = measured({"root": str(root), "events": events})
    half = [(event, size) for event, size in found["resident"] if event > 0.2 * events]
    growth = (half[-1][1] - half[0][1]) / 1e6
    figures.add(f"{events:,} events: growth of memory after a fifth", growth, "MB", at_most=5.0)


@contextmanager
def working_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        task = json.loads(sys.argv[2])
        (long_run if "events" in task else child)(task)
        return
    options = arguments(__doc__, folder=True)
    rows, budget_mb, seconds, events = SIZES[options.size]
    budget, figures = int(budget_mb * 1e6), Figures(options)
    with working_folder(options.folder) as root:
        store = ingest(Rcv1Like(rows=rows), Partition(20), root=root)
        disk = sum(file.stat().st_size for file in store.path.rglob("*") if file.is_file())
        figures.add("data on disk / budget", disk / budget, "ratio")
        task = {"store": str(store.path), "threads": 1, "seconds": seconds}
        compare(figures, "row-wise tvr", task, budget, at_least=None)
        permuted = task | {"method": {"sampling": "permuted"}}
        compare(figures, "permuted tvr", permuted, budget, at_least=0.8, of_disk=True)
        compare(figures, "permuted tavr", permuted | {"name": "tavr"}, budget, at_least=0.8, of_disk=True)
        compare(figures, "permuted tvr, two threads", permuted | {"threads": 2}, budget, at_least=0.8)
        compare(figures, "block tvr", task | {"method": {"block_rows": BLOCK_ROWS}}, budget, at_least=0.7)
        many_nodes(
            figures, root, rows // 4 if options.size == "full" else rows, max(3 * budget // 2, 240_000_000), seconds
        )
        length(figures, root, events)
    figures.show()


if __name__ == "__main__":
    main()
