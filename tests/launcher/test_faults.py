"""Whatever a job, a worker or the driver does: the others finish, and each ran exactly as often as it should."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launcher.conftest import Sweeps

# what a job does -> how often it is started, and what is said about it; None: it is done in the end
FAULTS: dict[str, tuple[int, str | None]] = {
    "ok1": (1, None),
    "raise": (1, r"ValueError: no such thing"),
    "exit": (2, r"its process ended with status 7 \(attempt 2\)"),
    "quit": (1, r"RuntimeError: the job called sys.exit\(3\)"),
    "ok2": (1, None),
    "kill": (2, r"its process was killed by signal 9 \(SIGKILL\) \(attempt 2\)"),
    "crash": (2, r"its process was killed by signal 11 \(SIGSEGV\) \(attempt 2\)"),
    "memory": (2, r"needed more memory than its worker has \([\d,]+ MB\) \(attempt 2\)"),
    "once": (2, None),
    "ok3": (1, None),
}


def test_every_fault_costs_its_own_job_and_no_other(sweeps: Sweeps) -> None:
    ended = sweeps.run(f"+what={','.join(FAULTS)}", "hydra.launcher.memory_limit=600MB")
    jobs = sweeps.jobs()
    assert {what: job["status"] for what, job in jobs.items()} == {
        what: "done" if said is None else "failed" for what, (_, said) in FAULTS.items()
    }
    assert sweeps.ran() == {what: times for what, (times, _) in FAULTS.items()}
    assert {what: job["attempts"] for what, job in jobs.items()} == sweeps.ran()
    failed = {what: said for what, (_, said) in FAULTS.items() if said is not None}
    for what, said in failed.items():
        assert re.fullmatch(said, jobs[what]["error"]), jobs[what]
    assert ended.status == 1
    assert "Traceback" not in ended.err  # Hydra's last word is the sentence of the first job that failed
    assert "ValueError: no such thing" in ended.err
    table = ended.out.split("3 done", 1)[0] if "3 done" in ended.out else ended.out
    assert f"4 done, {len(failed)} failed" in ended.out, table
    for what in failed:  # the table: overrides, reason, log
        lines = ended.out.splitlines()
        at = next(number for number, line in enumerate(lines) if line.endswith(f" +what={what}"))
        assert lines[at + 1].strip() == jobs[what]["error"]
        assert lines[at + 2].strip() == f"all/{jobs[what]['log']}"
        assert f"a job prints {what}" in (sweeps.folder / "all" / jobs[what]["log"]).read_text()
    assert "no such thing" in (sweeps.folder / "all" / jobs["raise"]["log"]).read_text()
    assert sweeps.left_behind(sweeps.processes[-1].pid) == []


def test_a_job_that_hangs_is_stopped_and_costs_no_other(sweeps: Sweeps) -> None:
    ended = sweeps.run("+what=hang,ok1", "hydra.launcher.timeout=20", "hydra.launcher.workers=1")
    hung = sweeps.jobs()["hang"]
    assert hung["error"] == "ran longer than hydra.launcher.timeout=20 seconds and was stopped"
    assert sweeps.ran() == {"hang": 1, "ok1": 1}
    assert ended.status == 1
    assert "1 done, 1 failed" in ended.out
    assert "app.py" in (sweeps.folder / "all" / hung["log"]).read_text()  # where it hung
    assert sweeps.left_behind(sweeps.processes[-1].pid) == []


def test_stop_at_the_first_failure(sweeps: Sweeps) -> None:
    options = ["hydra.launcher.on_failure=stop", "hydra.launcher.workers=1", "hydra.launcher.resume=true"]
    ended = sweeps.run("+what=ok1,raise,ok2", *options)
    assert ended.status == 1
    assert sweeps.ran() == {"ok1": 1, "raise": 1}
    assert "1 done, 1 failed, 1 waiting" in ended.out
    assert sweeps.jobs()["ok2"]["status"] == "waiting"
    assert sweeps.run("+what=ok1,ok2", *options).status == 0  # without the wrong one
    assert sweeps.ran() == {"ok1": 1, "raise": 1, "ok2": 1}


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_ends_promptly_and_goes_on_where_it_was(sweeps: Sweeps, signal_number: int) -> None:
    driver = sweeps.start("+what=ok1,slow1,slow2,ok2", "hydra.launcher.resume=true")
    sweeps.wait(sweeps.started("slow2"))
    if signal_number == signal.SIGTERM:
        driver.send_signal(signal_number)
    else:
        os.killpg(driver.pid, signal_number)  # as the terminal does: to all
    if signal_number == signal.SIGHUP:
        os.killpg(driver.pid, signal_number)  # as the shell does, too
    ended = sweeps.end(driver)
    assert ended.status != 0
    assert "interrupted with 1 done, 3 waiting; to go on: the same command with hydra.sweep.dir=all" in ended.out
    assert sweeps.left_behind(driver.pid) == []
    Path(f"{sweeps.folder}/ran.go").touch()
    assert sweeps.run("+what=ok1,slow1,slow2,ok2", "hydra.launcher.resume=true").status == 0
    assert sweeps.ran() == {"ok1": 1, "slow1": 2, "slow2": 2, "ok2": 1}


def test_a_killed_driver_leaves_nobody_behind_and_loses_no_finished_job(sweeps: Sweeps) -> None:
    words = ("+what=ok1,slow1,ok2", "hydra.launcher.resume=true")
    driver = sweeps.start(*words)
    sweeps.wait(lambda: sweeps.started("slow1")() and _status(sweeps, 2) == "done")
    second = sweeps.run(*words)  # while the first one lives
    assert second.status == 1
    assert f"process {driver.pid} on " in second.err
    assert "is running the sweep in" in second.err
    driver.kill()
    driver.communicate()
    assert sweeps.left_behind(driver.pid) == []
    Path(f"{sweeps.folder}/ran.go").touch()
    ended = sweeps.run(*words)
    assert ended.status == 0
    assert "3 jobs; 2 already done in all, 1 to run" in ended.out
    assert sweeps.ran() == {"ok1": 1, "slow1": 2, "ok2": 1}


def test_a_worker_killed_from_outside_costs_a_healthy_job_nothing(sweeps: Sweeps) -> None:
    driver = sweeps.start("+what=slow1,ok1,ok2")
    sweeps.wait(sweeps.started("slow1"))
    psutil.Process(_record(sweeps, 0)["pid"]).kill()
    Path(f"{sweeps.folder}/ran.go").touch()
    assert sweeps.end(driver).status == 0
    assert sweeps.ran() == {"slow1": 2, "ok1": 1, "ok2": 1}


def test_a_worker_that_is_told_to_end_lets_its_job_keep_what_it_has(sweeps: Sweeps) -> None:
    """SIGTERM: the job is asked to stop, does, and is started again; that is nobody's fault, however often."""
    driver = sweeps.start("+what=keeps1,ok1", "hydra.launcher.attempts=1")
    sweeps.wait(sweeps.started("keeps1"))
    for times in (1, 2):
        sweeps.wait(lambda times=times: sweeps.ran().get("keeps1") == times and _status(sweeps, 0) == "running")
        psutil.Process(_record(sweeps, 0)["pid"]).terminate()
        sweeps.wait(lambda times=times: sweeps.ran().get("kept") == times)
    Path(f"{sweeps.folder}/ran.go").touch()
    assert sweeps.end(driver).status == 0
    assert sweeps.ran() == {"keeps1": 3, "kept": 2, "ok1": 1}
    log = (sweeps.folder / "all" / sweeps.jobs()["keeps1"]["log"]).read_text()
    assert log.count("stopped where it was, because its worker leaves") == 2
    assert "Traceback" not in log


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_lets_its_jobs_keep_what_they_have(sweeps: Sweeps, signal_number: int) -> None:
    driver = sweeps.start("+what=keeps1,keeps2")
    sweeps.wait(lambda: sweeps.started("keeps1")() and sweeps.started("keeps2")())
    if signal_number == signal.SIGINT:
        os.killpg(driver.pid, signal_number)
    else:
        driver.send_signal(signal_number)
    assert sweeps.end(driver).status != 0
    assert sweeps.ran()["kept"] == 2
    assert sweeps.left_behind(driver.pid) == []


def _record(sweeps: Sweeps, index: int) -> dict[str, Any]:
    import json

    try:
        found: dict[str, Any] = json.loads((sweeps.folder / f"all/.jobs/{index}.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def _status(sweeps: Sweeps, index: int) -> str | None:
    return _record(sweeps, index).get("status")


NO_SEMAPHORES = """
import errno, os, runpy, sys
from multiprocessing import synchronize
def refuse(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
synchronize.SemLock.__init__ = refuse
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_cluster_that_cannot_start_is_one_sentence(sweeps: Sweeps) -> None:
    """As in a container whose /dev/shm is full, or none at all."""
    sweeps.command[1:1] = ["-c", NO_SEMAPHORES]
    ended = sweeps.run("+what=ok1")
    assert ended.status == 1
    assert ended.err.startswith("worker processes need semaphores, but none can be made in /dev/shm (No space left")
    assert "Traceback" not in ended.err
    assert not (sweeps.folder / "ran").exists()
