"""The status of a sweep from what is on disk: pace, what is stuck, and runs whose workers have left."""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dtoken.cli.sweep import main
from dtoken.sweep.status import sweep_status
from hydra_dask.manifest import (
    DONE,
    FAILED,
    LEFT,
    RUNNING,
    WAITING,
    Job,
    Manifest,
    believe_records,
    only_driver,
    write_json,
    write_record,
)
from hydra_dask.queue_file import QueueFile


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A sweep of five runs whose driver is at work: one done, one at work, one silent, one left, one that waits."""
    jobs = [
        Job(str(index), index, str(index), [f"seed={index}"], log=f"{index}/dtoken.log", attempts=1)
        for index in range(5)
    ]
    for job in jobs:
        (tmp_path / job.folder).mkdir()
        (tmp_path / job.log).write_text("\n".join(f"line {number}" for number in range(6)) + "\n\n")
    with only_driver(tmp_path):
        write_json(tmp_path / ".jobs/driver.json", {"pid": os.getpid(), "host": "here", "since": ago(7200)})
        ended = {"status": DONE, "started": ago(700), "ended": ago(100), "error": None}
        write_record(tmp_path, 0, {"id": "0", "attempt": 1, **ended})
        for index in (1, 2):
            write_record(tmp_path, index, {"id": str(index), "attempt": 1, "status": RUNNING, "started": ago(3600)})
        write_record(tmp_path, 3, {"id": "3", "attempt": 1, "status": LEFT, "started": ago(3600)})
        for job in jobs[:4]:
            job.status = RUNNING  # as the driver last knew it
        Manifest(tmp_path, ["dtoken"], "/", ago(7200), jobs).save()
        write_json(tmp_path / "1/progress.json", {"text": "subopt 1e-3", "fraction": 0.5})
        os.utime(tmp_path / jobs[2].log, (time.time() - 1200, time.time() - 1200))
        yield tmp_path


def test_a_run_that_left_waits_and_one_that_was_begun_again_runs(tmp_path: Path) -> None:
    (tmp_path / ".jobs").mkdir()
    write_record(tmp_path, 0, {"id": "0", "attempt": 2, "status": LEFT, "started": ago(9)})
    for attempts, known, expected in ((2, RUNNING, WAITING), (3, RUNNING, RUNNING), (2, WAITING, WAITING)):
        job = Job("0", 0, "0", [], known, attempts)
        believe_records(Manifest(tmp_path, jobs=[job]))
        assert (job.status, job.attempts) == (expected, attempts)


def test_what_the_driver_said_of_an_attempt_that_died_stands(tmp_path: Path) -> None:
    """The worker's own record still says that it runs."""
    (tmp_path / ".jobs").mkdir()
    for status in (RUNNING, LEFT):
        write_record(tmp_path, 0, {"id": "0", "attempt": 2, "status": status, "started": ago(9)})
        (tmp_path / "0").mkdir(exist_ok=True)
        job, earlier = Job("0", 0, "0", [], FAILED, 2, error="died"), Job("0", 0, "0", [], FAILED, 1, error="died")
        believe_records(Manifest(tmp_path, jobs=[job, earlier]))
        assert (job.status, job.error, job.attempts) == (FAILED, "died", 2)
        assert (earlier.status, earlier.attempts) == (RUNNING if status == RUNNING else WAITING, 2)


def test_pace_and_what_is_left_of_running_runs_give_the_time_of_the_end(directory: Path) -> None:
    status = sweep_status(directory)
    assert [job.status for job in status.jobs] == [DONE, RUNNING, RUNNING, WAITING, WAITING]
    assert status.speed == pytest.approx(0.5, rel=0.01)  # one in two hours
    assert status.eta == pytest.approx(
        600 * 3.5 / 2, rel=0.01
    )  # four are left, half of one of them is done; two at once
    assert "speed      0.5 runs an hour" in status.lines()


def test_the_last_lines_of_a_silent_run_are_shown(directory: Path) -> None:
    status = sweep_status(directory)
    assert list(status.stuck) == [2]
    lines = status.lines()
    at = lines.index("  #2    seed=2")
    assert lines[at + 1] == f"        nothing is heard of it for 20 min 0 s; {directory}/2/dtoken.log ends with"
    assert lines[at + 2 : at + 5] == ["        | line 3", "        | line 4", "        | line 5"]


def test_a_job_of_the_queue_without_a_worker_is_shown_with_what_it_printed(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "workers").mkdir()
    (directory / "workers/dask-worker-17.err").write_text("ModuleNotFoundError: No module named 'hydra_dask'\n")
    (directory / "workers/dask-worker-18.err").write_text("")
    one = {"kind": "slurm", "works": False, "state": "R", "reason": "", "since": ago(900)}
    with QueueFile(directory) as queue:
        queue.update([one | {"job": "17"}, one | {"job": "18", "state": "PD"}, one | {"job": "19", "works": True}])
        lines = sweep_status(directory).lines()
        at = lines.index("queue      3 slurm jobs, 1 at work")
        assert lines[at + 1 : at + 6] == [
            "  17     R",
            f"        nothing is heard of it for 15 min 0 s; {directory}/workers/dask-worker-17.err ends with",
            "        | ModuleNotFoundError: No module named 'hydra_dask'",
            "  18     PD",
            "        nothing is heard of it for 15 min 0 s",
        ]
        assert main(["status", "--json", str(directory)]) == 0
        told = json.loads(capsys.readouterr().out)
    assert told["queue"][0]["stuck"]["lines"] == ["ModuleNotFoundError: No module named 'hydra_dask'"]
    assert told["queue"][2]["stuck"] is None
    assert told["jobs"][2]["stuck"]["seconds"] == pytest.approx(1200, abs=60)
    assert told["jobs"][1]["stuck"] is None
    assert told["speed"] == pytest.approx(0.5, rel=0.01)
