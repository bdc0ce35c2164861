"""Workers in jobs of a real SLURM: what happens when jobs are cancelled, killed, refused, and when the driver is."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import KilledWorker, get_worker
from distributed.core import Status

from hydra_dask.cluster import CLUSTERS, keeper
from tests.slurm.site import Site
from tests.waiting import NEVER, until

LATER = {"job_extra_directives": ["--begin=now+1hour"]}


def jobs(shared: Path, **keys: Any) -> Any:
    return CLUSTERS["slurm"](**{"workers": 1, "memory": "500MB", "shared": shared} | keys)


def own_job() -> str:
    return os.environ["SLURM_JOB_ID"]


def last_task(started: Path) -> str:
    """A task that is over when its worker has been told to leave."""
    with started.open("a") as file:
        file.write(f"{own_job()}\n")
    worker = get_worker()
    while worker.status == Status.running:
        time.sleep(0.02)
    return own_job()


def pauses(dask_worker: Any) -> Any:
    return dask_worker.memory_manager.memory_pause_fraction


def poison() -> None:
    os._exit(1)


def test_a_cancelled_job_finishes_its_task_hands_over_its_results_and_is_replaced(site: Site, shared: Path) -> None:
    with jobs(shared, workers=2).open() as connection:
        client = connection.client
        client.wait_for_workers(2, timeout=NEVER)
        first, second = site.jobs()
        (folder,) = (path for path in shared.glob("tls@*") if path.is_dir())
        assert folder.stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
        address = next(key for key, job in client.run(own_job).items() if job == first)
        held = client.submit(own_job, workers=[address], allow_other_workers=True, pure=False)
        assert held.result() == first
        started = shared / "started"
        running = client.submit(last_task, started, workers=[address], allow_other_workers=True, pure=False)
        until(started.exists)
        site.call("scancel", first)
        until(lambda: first not in site.jobs("R,CG"))
        assert (held.result(), running.result()) == (first, first)  # moved to the other worker, not run again
        until(lambda: len(site.jobs()) == 2)
        assert set(site.jobs()) > {second}
        client.wait_for_workers(2, timeout=NEVER)
        assert len(set(client.run(own_job).values())) == 2
    assert not list(shared.glob("tls@*"))
    until(lambda: not site.jobs("PD,R,CG"))


def test_a_worker_that_dies_is_started_again_in_its_job(site: Site, shared: Path) -> None:
    with jobs(shared, workers=2, jobs=1, cores=1).open() as connection:
        client = connection.client
        client.wait_for_workers(2, timeout=NEVER)
        (job,) = site.jobs()
        assert set(client.run(pauses).values()) == {False}
        assert "CPUs/Task=2" in site.call("scontrol", "show", "job", job)
        with pytest.raises(KilledWorker):
            client.submit(poison, pure=False).result(timeout=NEVER)
        client.wait_for_workers(2, timeout=NEVER)
        assert client.submit(own_job, pure=False).result(timeout=NEVER) == job


def test_a_job_that_ends_before_it_starts_is_replaced(site: Site, shared: Path) -> None:
    with jobs(shared, options=LATER).open() as connection:
        (first,) = site.jobs("PD")
        site.call("scancel", first)
        until(lambda: site.jobs("PD") not in ([], [first]))
        assert len(site.jobs("PD")) == 1
        assert connection.trouble() is None
    until(lambda: not site.jobs("PD"))


def test_jobs_that_cannot_start_their_worker_are_given_up(
    site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "GIVE_UP", 2)
    with jobs(shared, options={"job_script_prologue": ["exit 3"]}).open() as connection:
        until(connection.trouble)
        assert "ended before a worker had reported" in str(connection.trouble())
        assert str(shared / "logs") in str(connection.trouble())


def test_a_job_that_does_not_start_is_told_with_the_reason_and_given_up_in_the_end(
    site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "NOTE_SECONDS", 0.0)
    with jobs(shared, options=LATER, start_timeout=6.0).open() as connection:
        (job,) = site.jobs("PD")
        news: list[str | None] = []
        until(lambda: news.append(connection.news()) or news[-1])
        assert re.fullmatch(f"slurm job {job} has no worker yet, after [0-9]+ s: PD .BeginTime.", str(news[-1]))
        assert connection.news() is None  # once is enough
        (entry,) = connection.jobs()
        assert entry.pop("since")
        assert entry == {"kind": "slurm", "job": job, "works": False, "state": "PD", "reason": "BeginTime"}
        until(connection.trouble)
        assert "no job of slurm has started within cluster.start_timeout=6 seconds" in str(connection.trouble())
        assert "PD (BeginTime)" in str(connection.trouble())


def test_jobs_grow_as_they_start_and_those_without_work_are_released(site: Site, shared: Path) -> None:
    with jobs(shared, workers="1..3").open() as connection:
        connection.demand(1, ())  # or jobs would grow before the next line but one
        client, first = connection.client, site.jobs("PD,R")
        assert len(first) == 1
        client.wait_for_workers(1, timeout=NEVER)
        connection.demand(2, ())
        client.wait_for_workers(2, timeout=NEVER)
        assert len(site.jobs("PD,R")) == 2  # not three
        busy = next(address for address, job in client.run(own_job).items() if [job] == first)
        (idle,) = set(client.run(own_job)) - {busy}
        connection.demand(1, [idle])
        until(lambda: site.jobs("PD,R") == first)
        until(lambda: list(client.run(own_job, on_error="ignore")) == [busy])  # the other one may just be leaving
        connection.demand(0, [])
        assert client.submit(own_job, pure=False).result(timeout=NEVER) == first[0]  # it was not released


def test_slurm_is_asked_whether_such_a_job_could_ever_run(site: Site, shared: Path) -> None:
    possible, said = jobs(shared).verdict()
    assert possible
    assert "to start at" in said
    possible, said = jobs(shared, queue="short").verdict()  # an hour, but the partition has ten minutes
    assert not possible
    assert said == "partition short has a time limit of 10:00, but cluster.walltime=01:00:00"
    assert jobs(shared, queue="short,main").verdict()[0]
    possible, said = jobs(shared, cores=64).verdict()
    assert not possible
    assert "node configuration is not available" in said
    site.call("scontrol", "update", "PartitionName=short", "State=DOWN")
    assert jobs(shared, queue="short", walltime="00:10:00").verdict() == (False, "partition short is down")
    site.call("scontrol", "update", "PartitionName=short", "State=UP")


def test_a_refused_job_is_told_at_once(site: Site, shared: Path) -> None:
    with pytest.raises(ValueError, match="slurm refuses the job: sbatch: error: invalid partition specified: nowhere"):
        jobs(shared, queue="nowhere").open().__enter__()
    assert not list(shared.glob("tls@*"))


def test_a_worker_ends_before_its_time_limit_without_losing_its_task(site: Site, shared: Path) -> None:
    with jobs(shared, walltime="00:00:20").open() as connection:  # SLURM itself counts in minutes
        job = connection.client.submit(last_task, shared / "started", pure=False).result(timeout=NEVER)
        assert (shared / "started").read_text().split() == [job]
        until(lambda: job not in site.jobs("R,CG"))
        assert site.state(job) == "COMPLETED"


def test_jobs_end_by_themselves_when_the_driver_is_killed(site: Site, shared: Path, python: Callable[..., Any]) -> None:
    driver = python(
        "-c",
        f"""
import time
from pathlib import Path
from hydra_dask.cluster import CLUSTERS
with CLUSTERS["slurm"](workers=1, memory="500MB", shared=Path({str(shared)!r})).open() as connection:
    connection.client.wait_for_workers(1)
    Path({str(shared)!r}, "ready").touch()
    time.sleep(600)
""",
    )
    until((shared / "ready").exists)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    until(lambda: not site.jobs("R"))
    (left,) = (path for path in shared.glob("tls@*") if path.is_dir())
    with jobs(shared, options=LATER).open():
        assert not left.exists()  # the next run tidies up
