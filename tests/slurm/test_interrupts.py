"""A driver on a real SLURM whose terminal is closed, or who gets Ctrl-C, while its jobs wait in the queue."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtoken.sweep.status import sweep_status
from tests.slurm.site import Site
from tests.waiting import NEVER, until

PROBLEM = ["data.rows=60", "data.features=4", "nodes=4", "stop.passes=20"]
GOES_ON = {
    "sweep": "interrupted with 2 waiting; to go on: dtoken-sweep resume {}",
    "run": "interrupted before the run began.",
}


def queue_of(sweep: Path) -> list[str]:
    """What the status of a sweep says of its jobs."""
    if not (sweep / "manifest.json").exists():
        return []
    status = sweep_status(sweep)
    found = [f"{job['state']} ({job['reason']})" for job in status.as_dict()["queue"]]
    assert not found or "queue      2 slurm jobs, 0 at work" in status.lines()
    return found


@pytest.mark.parametrize(("what", "number"), [("sweep", signal.SIGHUP), ("run", signal.SIGINT)])
def test_pending_jobs_and_keys_are_gone_and_it_is_told_how_to_go_on(
    what: str, number: int, site: Site, tmp_path: Path, python: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    shared, folder = tmp_path / "shared", tmp_path / "out"
    words = {
        "sweep": ["-m", "seed=1,2", f"hydra.sweep.dir={folder}"],
        "run": ["engine=dask", f"hydra.run.dir={folder}"],
    }
    driver = python(
        *("-m", "dtoken.cli.run", *words[what], *PROBLEM, "cluster=slurm", f"cluster.shared={shared}"),
        "+cluster.options.job_extra_directives=['--begin=now+1hour']",
    )
    until(lambda: len(site.jobs("PD")) == 2 or driver.poll() is not None)
    assert list(shared.glob("tls@*"))
    if what == "sweep":
        until(lambda: queue_of(folder) == ["PD (BeginTime)"] * 2)
    os.kill(driver.pid, number)
    if number == signal.SIGHUP:
        os.kill(driver.pid, number)  # the shell and the system both send it
    printed = tmp_path / "printed.txt"
    assert driver.wait(NEVER) == 130, printed.read_text()
    assert printed.read_text().splitlines()[-1] == GOES_ON[what].format(folder)
    assert not site.jobs("PD,R")
    assert not list(shared.glob("tls@*"))
