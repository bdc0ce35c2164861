"""A sweep on a real SLURM while its jobs are cancelled, run out of time and are preempted: every run has equal bits."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

import dtoken
from tests.conftest import ROOT
from tests.slurm.site import Site
from tests.waiting import NEVER, until

SEEDS, WORKERS = range(1, 6), 3
PROBLEM = {"data.rows": 400, "data.features": 50, "nodes": 4, "problem.sigma": 1e-3, "algorithm.tokens": 2}
LENGTH = {"stop.passes": 2000, "record.every_passes": 200, "checkpoint.every": 1}
HELD = 600  # passes after which a run waits for the file "open"


def words(site: Site, folder: Path) -> list[str]:
    cluster = {
        "cluster.workers": WORKERS,
        "cluster.memory": "1GB",
        "cluster.queue": "spot",
        "cluster.shared": folder / "shared",
        "+cluster.options.job_extra_directives": "[--exclusive]",  # each on a node of its own, to be preempted alone
    }
    gate = {"_target_": "tests.slurm.gate.Gate", "file": folder / "open", "first": SEEDS[0], "passes": HELD}
    return [
        *("-m", "cluster=slurm", f"hydra.sweep.dir={folder / 'sweep'}", f"seed={','.join(map(str, SEEDS))}"),
        *(f"{key}={value}" for key, value in (PROBLEM | LENGTH | cluster).items()),
        *(f"+hydra.callbacks.gate.{key}={value}" for key, value in gate.items()),
    ]


def batch_job(sweep: Path, job: dict[str, Any]) -> str | None:
    """The job of SLURM in which a job of the sweep runs."""
    try:
        record = json.loads((sweep / ".jobs" / f"{job['index']}.json").read_text())
        variables = Path(f"/proc/{record['pid']}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [text for text in variables if text.startswith(b"SLURM_JOB_ID=")]
    return found[0].decode().partition("=")[2] if found else None


def in_the_middle(sweep: Path) -> list[str]:
    """The jobs of SLURM in which a run is that has left a checkpoint already."""
    if not (sweep / "manifest.json").exists():
        return []
    jobs = json.loads((sweep / "manifest.json").read_text())["jobs"]
    running = [
        job for job in jobs if job["status"] == "running" and (sweep / job["folder"] / "checkpoint.bin").exists()
    ]
    return [found for job in running if (found := batch_job(sweep, job)) is not None]


def test_a_sweep_survives_a_cancellation_a_time_limit_and_a_preemption(
    site: Site, tmp_path: Path, python: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers need the gate
    sweep = tmp_path / "sweep"
    driver = python("-m", "dtoken.cli.run", *words(site, tmp_path))
    until(lambda: len(in_the_middle(sweep)) == WORKERS or driver.poll() is not None)
    assert driver.poll() is None, (tmp_path / "printed.txt").read_text()
    cancelled = in_the_middle(sweep)[0]
    site.call("scancel", cancelled)
    until(lambda: len([job for job in site.jobs() if job != cancelled]) == WORKERS)
    late, preempted = [job for job in site.jobs() if job != cancelled][:2]
    site.call("scontrol", "update", f"JobId={late}", "EndTime=now+1")  # SLURM looks every 30 seconds
    node = site.call("squeue", "--noheader", "--format=%N", f"--jobs={preempted}")
    urgent = site.submit("--partition=urgent", f"--nodelist={node}", "--exclusive", "--wrap=true")
    until(lambda: site.state(urgent) == "COMPLETED")
    until(lambda: site.state(late) == "TIMEOUT")
    (tmp_path / "open").touch()
    assert driver.wait(NEVER) == 0, (tmp_path / "printed.txt").read_text()
    assert [site.state(job) for job in (cancelled, late, preempted)] == ["CANCELLED", "TIMEOUT", "PREEMPTED"]
    jobs = json.loads((sweep / "manifest.json").read_text())["jobs"]
    assert [job["status"] for job in jobs] == ["done"] * len(SEEDS)
    assert sum(job["attempts"] for job in jobs) > len(SEEDS)
    assert not list((tmp_path / "shared").glob("tls@*"))
    until(lambda: not site.jobs("PD,R,CG"))
    for seed, job in zip(SEEDS, jobs, strict=True):
        assert_equal(sweep / job["folder"], local_run(seed))


def local_run(seed: int) -> Any:
    return dtoken.run(
        {"kind": "synthetic", "rows": 400, "features": 50, "store": os.environ["DTOKEN_STORE"]},
        4,
        {"_target_": "tvr", "tokens": 2},
        sigma=1e-3,
        seed=seed,
        stop={"passes": LENGTH["stop.passes"]},
        record={"every_passes": LENGTH["record.every_passes"]},
    )


def assert_equal(folder: Path, expected: Any) -> None:
    found: Any = zarr.open_group(folder / "result.zarr", mode="r")
    np.testing.assert_array_equal(found["tokens"][:], expected.tokens)
    np.testing.assert_array_equal(found["theta"][:], expected.theta)
    trajectory = pd.read_parquet(folder / "trajectory.parquet")
    same = [name for name in trajectory.columns if name != "wall"]
    pd.testing.assert_frame_equal(trajectory[same], expected.trajectory[same], check_exact=True)
