"""``dtoken -m`` and ``dtoken-sweep``: what is run, how often, and what is said about it."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from dtoken.engine.loop.checkpoint import load_checkpoint
from dtoken.sweep.collect import load
from tests.launcher.conftest import Ended, Sweeps

TINY = ("data.rows=60", "data.features=4", "nodes=4", "problem.sigma=0.1", "stop.passes=20", "cluster.workers=2")
FAULTY = ("algorithm._target_=faulty.Faulty",)


@pytest.fixture
def sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeps]:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.setenv("DTOKEN_TEST_RAN", str(tmp_path / "ran"))
    shutil.copy(Path(__file__).with_name("faulty.py"), tmp_path)
    found = Sweeps(tmp_path, [sys.executable, "-m", "dtoken.cli.run", "-m", *TINY], "algorithm.what=")
    yield found
    found.close()


def dtoken_sweep(sweeps: Sweeps, *words: str) -> Ended:
    process = Sweeps(sweeps.folder, [sys.executable, "-m", "dtoken.cli.sweep", *words])
    return process.end(process.start(sweep_dir=False))


# what a run does -> how often it is started, and what is said about it; None: it is done in the end
FAULTS: dict[str, tuple[int, str | None]] = {
    "ok1": (1, None),
    "raise": (1, r"KeyError: 'nothing there'"),
    "exit": (2, r"its process ended with status 7 \(attempt 2\)"),
    "diverge": (1, r"The run diverged: .*"),
    "kill": (2, r"its process was killed by signal 9 \(SIGKILL\) \(attempt 2\)"),
    "memory": (2, r"needed more memory than its worker has \([\d,]+ MB\) \(attempt 2\)"),
    "ok2": (1, None),
}


def test_every_fault_costs_its_own_run_and_no_other(sweeps: Sweeps) -> None:
    options = ["stop.passes=200", "hydra.launcher.memory_limit=1GB"]
    ended = sweeps.run(*FAULTY, f"+algorithm.what={','.join(FAULTS)}", *options)
    jobs = sweeps.jobs()
    assert {what: job["status"] for what, job in jobs.items()} == {
        what: "done" if said is None else "diverged" if what == "diverge" else "failed"
        for what, (_, said) in FAULTS.items()
    }, ended
    assert sweeps.ran() == {what: times for what, (times, _) in FAULTS.items()}
    for what, (_, said) in FAULTS.items():
        assert said is None or re.fullmatch(said, jobs[what]["error"]), jobs[what]
    assert ended.status == 1
    assert "7 jobs, all configurations valid\n" in ended.out
    assert "2 done, 4 failed, 1 diverged" in ended.out
    assert "resume     dtoken-sweep resume all" in ended.out
    assert ended.out.strip().splitlines()[-1] == "report     all/report/index.html"
    assert "Traceback" not in ended.err
    status = json.loads(dtoken_sweep(sweeps, "status", "all", "--json").out)
    assert status["counts"] == {"done": 2, "running": 0, "failed": 4, "diverged": 1, "waiting": 0}
    assert status["driver"] is False


def test_a_run_that_diverged_is_a_result_and_does_not_run_again(sweeps: Sweeps) -> None:
    ended = sweeps.run(*FAULTY, "+algorithm.what=ok1,diverge", "stop.passes=200")
    assert (ended.status, sweeps.ran()) == (1, {"ok1": 1, "diverge": 1})
    assert "1 done, 1 diverged" in ended.out
    assert "dtoken-sweep resume" not in ended.out
    again = dtoken_sweep(sweeps, "resume", "all")
    assert (again.status, sweeps.ran()) == (1, {"ok1": 1, "diverge": 1})
    status = dtoken_sweep(sweeps, "status", "all").out.splitlines()
    assert status[0] == "1/2 done   0 running   0 failed   1 diverged   0 waiting"
    assert status[1].endswith("algorithm.what=diverge")
    assert status[2].strip().startswith("The run diverged: ")
    assert "resume" not in status[-1]
    page = (sweeps.folder / "all/report/index.html").read_text()
    assert "1 of 2 runs diverged" in page
    assert load(sweeps.folder / "all").runs.status.to_list() == ["done", "diverged"]


def test_a_run_that_hangs_is_stopped(sweeps: Sweeps) -> None:
    ended = sweeps.run(*FAULTY, "+algorithm.what=hang1,hang2", "hydra.launcher.timeout=20")
    assert ended.status == 1
    for job in sweeps.jobs().values():
        assert job["error"] == "ran longer than hydra.launcher.timeout=20 seconds and was stopped"
        assert job["attempts"] == 1


def test_one_wrong_value_refuses_the_sweep_before_anything_starts(sweeps: Sweeps) -> None:
    ended = sweeps.run("algorithm.tokens=1,9", "seed=0,1")
    assert ended.status == 2
    assert ended.err == (
        "2 of 4 jobs cannot run, so nothing was started: algorithm.tokens=9 seed=0: algorithm.tokens=9 but there are "
        "only 4 nodes; use tokens<=4; algorithm.tokens=9 seed=1: algorithm.tokens=9 but there are only 4 nodes; use "
        "tokens<=4.\n"
    )
    assert not (sweeps.folder / "all/0").exists()
    assert not (sweeps.folder / "stores").exists()
    dry = dtoken_sweep(sweeps, "dry-run", *TINY, "algorithm.tokens=1,9", "hydra.sweep.dir=other")
    assert dry.status == 2
    assert "1 of 2 jobs cannot run" in dry.err
    assert not (sweeps.folder / "other").exists()


def test_only_what_is_new_runs_in_whatever_order(sweeps: Sweeps) -> None:
    assert sweeps.run("seed=0,1").status == 0
    before = _state(sweeps.folder / "all/0") | _state(sweeps.folder / "all/1")
    again = sweeps.run("seed=2,1,0", "algorithm.tokens=1,2", "cluster.workers=1", "checkpoint.every=5")
    assert again.status == 0
    assert "6 jobs, all configurations valid; 2 already done in all, 4 to run" in again.out
    assert _state(sweeps.folder / "all/0") | _state(sweeps.folder / "all/1") == before
    found = {
        folder.name: (config["seed"], config["algorithm"]["tokens"])
        for folder in (sweeps.folder / "all").iterdir()
        if (folder / "summary.json").exists()
        for config in [json.loads((folder / "summary.json").read_text())["config"]]
    }
    assert (found["0"], found["1"]) == ((0, 1), (1, 1))
    assert sorted(found.values()) == [(seed, tokens) for seed in (0, 1, 2) for tokens in (1, 2)]
    status = dtoken_sweep(sweeps, "status", "all")
    assert status.out == "6/6 done   0 running   0 failed   0 waiting\n"


def test_a_killed_driver_loses_no_run_and_runs_continue_from_their_checkpoints(sweeps: Sweeps) -> None:
    whole = sweeps.run(*FAULTY, "hydra.sweep.dir=whole", "+algorithm.what=ok1,ok2")
    assert whole.status == 0
    (sweeps.folder / "ran").unlink()
    driver = sweeps.start(*FAULTY, "+algorithm.what=ok1,gated", "checkpoint.every=10")
    progress = sweeps.folder / "all/1/progress.json"
    sweeps.wait(lambda: progress.exists() and json.loads(progress.read_text())["passes"] >= 0)
    sweeps.wait(lambda: load_checkpoint(progress.parent) is not None)
    sweeps.wait(lambda: '"kept":true' in (sweeps.folder / "all/.jobs/1.json").read_text())
    sweeps.wait(lambda: '"status":"done"' in (sweeps.folder / "all/.jobs/0.json").read_text())
    status = json.loads(dtoken_sweep(sweeps, "status", "all", "--json").out)
    assert status["driver"] is True
    assert status["jobs"][1]["progress"]["suboptimality"] > 0
    driver.kill()
    driver.communicate()
    assert sweeps.left_behind(driver.pid) == []
    found = load_checkpoint(progress.parent)
    assert found is not None
    told = dtoken_sweep(sweeps, "status", "all").out
    assert told.splitlines()[-1] == "no driver is at work; dtoken-sweep resume all"
    (sweeps.folder / "ran.go").touch()
    resumed = dtoken_sweep(sweeps, "resume", "all")
    assert resumed.status == 0
    assert "2 jobs, all configurations valid; 1 already done in all, 1 to run" in resumed.out
    assert sweeps.ran() == {"ok1": 1, "gated": 2}
    table = pd.read_parquet(progress.parent / "trajectory.parquet")
    kept = pd.DataFrame(found[0].records)
    assert len(kept) >= 10
    pd.testing.assert_frame_equal(table[: len(kept)], kept[list(table.columns)], check_dtype=False)  # wall times, too
    other = pd.read_parquet(sweeps.folder / "whole/0/trajectory.parquet")
    pd.testing.assert_frame_equal(table.drop(columns="wall"), other.drop(columns="wall"), check_exact=True)


def test_ctrl_c_stops_promptly_and_says_how_to_go_on(sweeps: Sweeps) -> None:
    driver = sweeps.start(*FAULTY, "+algorithm.what=hang1,hang2,hang3")
    sweeps.wait(sweeps.started("hang2"))
    os.killpg(driver.pid, signal.SIGINT)
    ended = sweeps.end(driver)
    assert ended.status == 130
    assert ended.out.splitlines()[-1] == "interrupted with 3 waiting; to go on: dtoken-sweep resume all"
    assert ended.err == ""
    assert sweeps.left_behind(driver.pid) == []


def test_jobs_on_the_dask_engine_share_the_cluster_of_the_sweep(sweeps: Sweeps) -> None:
    assert sweeps.run("engine=local,dask", "seed=0,1,2").status == 0
    ends = {}
    for index in range(6):
        summary = json.loads((sweeps.folder / f"all/{index}/summary.json").read_text())
        ends[summary["config"]["engine"]["kind"], summary["config"]["seed"]] = summary["end"]["objective"]
    assert len(ends) == 6
    assert all(ends["local", seed] == ends["dask", seed] for seed in range(3))


def _state(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
