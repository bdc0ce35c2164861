"""Runs inside tasks of a cluster that host their nodes on the same cluster, as the jobs of a sweep do."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import dtoken
from tests.engine.on_dask import KILL, send, without_wall

ENGINE = {"kind": "dask", "silence": 60.0}  # a machine with other work must not look like a fault
SECONDS = 240.0


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers that can do one task each."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as found,
    ):
        yield found


def settings(root: Path, seed: int, **others: Any) -> dict[str, Any]:
    data = {"kind": "synthetic", "rows": 80, "store": str(root / "stores")}
    return {"nodes": 4, "stop": {"passes": 6}, "data": data, "seed": seed, **others}


def task(run: dict[str, Any], meet: Callable[[], None] = lambda: None) -> tuple[list[Any], Any, dict[str, Any]]:
    """What a job does, after it has met the others."""
    meet()
    result = dtoken.run(**run, engine=ENGINE)
    return [without_wall(record) for record in result.records], result.theta, result.summary["engine"]


def assert_as_alone(found: tuple[list[Any], Any, dict[str, Any]], run: dict[str, Any]) -> None:
    alone = dtoken.run(**{key: value for key, value in run.items() if key != "directory"})
    assert found[0] == [without_wall(record) for record in alone.records]
    np.testing.assert_array_equal(found[1], alone.theta)


def test_more_runs_than_threads_end_with_the_same_bits(client: Client, tmp_path: Path) -> None:
    runs = [settings(tmp_path, seed, algorithm=name) for seed, name in enumerate(["tvr", "token", "gd", "tvr", "tvr"])]
    futures = [client.submit(task, run, pure=False) for run in runs]
    for run, found in zip(runs, client.gather(futures, errors="raise"), strict=True):
        assert_as_alone(found, run)
        assert len(found[2]["workers"]) == 2  # one of them busy with another run's task all the time
        assert found[2]["faults"] == 0


def test_the_worker_of_one_runs_task_dies_and_the_other_run_only_loses_nodes(client: Client, tmp_path: Path) -> None:
    folders = [tmp_path / "killed", tmp_path / "other"]
    often: dict[str, Any] = {"stop": {"passes": 100}, "checkpoint": {"every": 1}}
    runs = [settings(tmp_path, seed, **often, directory=str(folder)) for seed, folder in enumerate(folders)]

    def meet() -> None:
        """Wait until both tasks run."""
        from distributed import get_worker

        (tmp_path / str(get_worker().name)).touch()
        while not all((tmp_path / name).exists() for name in ("0", "1")):
            time.sleep(0.01)

    addresses = {str(info["name"]): address for address, info in client.scheduler_info()["workers"].items()}
    futures = [
        client.submit(task, run, meet, pure=False, workers=[addresses[name]], allow_other_workers=True)
        for name, run in zip("01", runs, strict=True)
    ]
    pid = client.run(os.getpid, workers=[addresses["0"]])[addresses["0"]]
    deadline = time.monotonic() + SECONDS
    while not all((folder / "checkpoint.zarr").exists() for folder in folders) and time.monotonic() < deadline:
        time.sleep(0.01)
    send(KILL, pid)
    killed, other = (future.result(timeout=SECONDS) for future in futures)
    assert other[2]["faults"] >= 1
    assert_as_alone(other, runs[1])
    assert_as_alone(killed, runs[0])  # Dask ran its task again, and it went on from its checkpoint


def test_a_sweep_spreads_its_runs_over_the_cluster_that_runs_it(tmp_path: Path) -> None:
    words = ["nodes=4", "stop.passes=4", "data.rows=80", f"data.store={tmp_path}/stores", "engine.silence=60"]
    words += ["hydra/launcher=dask", "hydra.launcher.workers=2", f"hydra.sweep.dir={tmp_path}/sweep", "seed=0,1,2"]
    command = [sys.executable, "-m", "dtoken.cli.run", "-m", "engine=dask", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    folders = sorted(path.parent for path in (tmp_path / "sweep").glob("*/summary.json"))
    assert len(folders) == 3
    for folder in folders:
        summary = json.loads((folder / "summary.json").read_text())
        assert len(summary["engine"]["workers"]) == 2
        data = {"kind": "synthetic", "rows": 80, "store": str(tmp_path / "stores")}
        alone = dtoken.run(nodes=4, stop={"passes": 4}, data=data, seed=summary["config"]["seed"])
        np.testing.assert_array_equal(zarr.open_array(folder / "result.zarr/theta", mode="r")[...], alone.theta)
