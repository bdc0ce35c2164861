"""Runs inside tasks of a cluster that host their nodes on the same cluster, as the jobs of a sweep do."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

import dtoken
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.loop.checkpoint import load_checkpoint
from tests.engine.dask.on_dask import KILL, local_cluster, send, without_wall
from tests.waiting import NEVER, until

ENGINE = {"kind": "dask", "silence": NEVER}  # a machine with other work must not look like a fault


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers that can do one task each."""
    with local_cluster(2) as cluster, Client(cluster) as found:
        yield found


def settings(root: Path, seed: int, **others: Any) -> dict[str, Any]:
    data = {"kind": "synthetic", "rows": 80, "store": str(root / "stores")}
    return {"nodes": 4, "stop": {"passes": 6}, "data": data, "seed": seed, **others}


def task(run: dict[str, Any]) -> tuple[list[Any], Any, dict[str, Any]]:
    """What a job does."""
    result = dtoken.run(**run, engine=ENGINE)
    return [without_wall(record) for record in result.records], result.theta, result.summary["engine"]


def held_task(run: dict[str, Any], go: Path) -> tuple[list[Any], Any, dict[str, Any]]:
    """The same, but it waits in the middle until a file is there."""
    measure, asked = DaskEngine.measure, 0

    def hold(engine: DaskEngine, *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 4:
            Path(run["directory"], "held").touch()
            until(go.exists)
        return measure(engine, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DaskEngine, "measure", hold)
        return task(run)


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

    addresses = {str(info["name"]): address for address, info in client.scheduler_info()["workers"].items()}
    futures = [
        client.submit(held_task, run, tmp_path / "go", pure=False, workers=[addresses[name]], allow_other_workers=True)
        for name, run in zip("01", runs, strict=True)
    ]
    pid = client.run(os.getpid, workers=[addresses["0"]])[addresses["0"]]
    until(lambda: all((folder / "held").exists() for folder in folders))
    assert all(load_checkpoint(folder) for folder in folders)
    send(KILL, pid)
    (tmp_path / "go").touch()
    killed, other = (future.result(timeout=NEVER) for future in futures)
    assert other[2]["faults"] >= 1
    assert_as_alone(other, runs[1])
    assert_as_alone(killed, runs[0])  # Dask ran its task again, and it went on from its checkpoint


def test_a_sweep_spreads_its_runs_over_the_cluster_that_runs_it(tmp_path: Path) -> None:
    words = ["nodes=4", "stop.passes=4", "data.rows=80", f"data.store={tmp_path}/stores", f"engine.silence={NEVER}"]
    words += ["hydra/launcher=dask", "hydra.launcher.workers=2", f"hydra.sweep.dir={tmp_path}/sweep", "seed=0,1,2"]
    command = [sys.executable, "-m", "dtoken.cli.run", "-m", "engine=dask", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER, check=False)
    assert done.returncode == 0, done.stderr
    folders = sorted(path.parent for path in (tmp_path / "sweep").glob("*/summary.json"))
    assert len(folders) == 3
    for folder in folders:
        summary = json.loads((folder / "summary.json").read_text())
        assert len(summary["engine"]["workers"]) == 2
        data = {"kind": "synthetic", "rows": 80, "store": str(tmp_path / "stores")}
        alone = dtoken.run(nodes=4, stop={"passes": 4}, data=data, seed=summary["config"]["seed"])
        np.testing.assert_array_equal(zarr.open_array(folder / "result.zarr/theta", mode="r")[...], alone.theta)
