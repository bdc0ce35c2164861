"""Runs in workers find the same C library as runs alone: it maps no memory anew for every step."""

import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, LocalCluster

import dtoken
from hydra_dask.allocator import LARGE, give_back, keep_memory
from hydra_dask.cluster import LocalWorkers
from tests.waiting import NEVER

ROWS, NODES, PASSES = 600, 4, 60  # of 47,236 features: a step makes vectors of 378 kB
RATIO = 3.0  # with Dask's own settings there were 100 times as many page faults, and 5 times the processor time


def faults(store: str, engine: Any = "local") -> int:
    """Page faults of this process in a run, after one that compiles and computes constants."""

    def run(passes: float) -> None:
        data = {"kind": "rcv1_like", "rows": ROWS, "store": store}
        stop, record = {"passes": passes}, {"every_passes": None}
        dtoken.run(data, NODES, "gd", sigma=0.1, stop=stop, record=record, engine=engine)

    run(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run(PASSES)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    store = str(tmp_path_factory.mktemp("stores"))
    code = f"from tests.launcher.test_allocator import faults; print(faults({store!r}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return store, int(done.stdout)


@contextmanager
def ours() -> Iterator[Client]:
    with LocalWorkers(workers=1).open() as connection:
        yield connection.client


@contextmanager
def dasks() -> Iterator[Client]:
    """As someone's own cluster (``cluster=address``): with the environment that Dask sets."""
    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        assert client.submit(os.environ.get, "MALLOC_TRIM_THRESHOLD_").result() == "65536"
        yield client


@pytest.mark.skipif(sys.platform != "linux", reason="only GNU's C library has these settings")
@pytest.mark.parametrize(("cluster", "engine"), [(ours, "local"), (dasks, "local"), (dasks, "dask")])
def test_a_run_in_a_worker_costs_what_it_costs_alone(cluster: Any, engine: str, alone: tuple[str, int]) -> None:
    store, expected = alone
    with cluster() as client:
        keys = engine if engine == "local" else {"kind": "dask", "silence": NEVER}
        found = client.submit(faults, store, keys).result()
    assert found < RATIO * max(expected, 10_000)  # a single megabyte is 250


def test_what_was_freed_is_returned_between_runs(tmp_path: Path) -> None:
    """A run may keep freed memory; asked for it, the library returns it."""
    code = "from tests.launcher.test_allocator import kept_and_returned as f; print(*f())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    kept, returned = map(int, done.stdout.split())
    assert kept > LARGE
    assert returned < LARGE // 4


def kept_and_returned() -> tuple[int, int]:
    """Bytes of freed blocks that this process still has, before and after they are given back."""
    keep_memory()
    process = psutil.Process()
    before = process.memory_info().rss
    blocks = [bytearray(b"x" * (LARGE // 32)) for _ in range(48)]
    pin = bytearray(b"x" * (LARGE // 32))  # at the end of the heap
    del blocks
    kept = process.memory_info().rss - before
    give_back()
    assert pin
    return kept, process.memory_info().rss - before - len(pin)
