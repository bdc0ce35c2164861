"""Submit and leave, on a real SLURM: the driver is requeued, cancelled, submitted again; no run is repeated."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dtoken.sweep.status import manifest_of, sweep_status
from tests.conftest import ROOT
from tests.slurm.site import Site

Until = Callable[[Callable[[], object]], None]
SEEDS, GATED = 4, 3


def dtoken_sweep(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dtoken.cli.sweep", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def submitted(done: subprocess.CompletedProcess[str]) -> str:
    """The job of the driver."""
    assert done.returncode == 0, done.stderr
    found = re.search(r"submitted  slurm job (\d+)", done.stdout)
    assert found is not None
    return found[1]


def test_submit_leave_and_go_on(site: Site, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    sweep = tmp_path / "sweep"

    def done() -> int:
        counts = sweep_status(sweep).as_dict()["counts"] if (sweep / "manifest.json").exists() else {"done": 0}
        return int(counts["done"])

    words = [
        *("cluster=slurm", "cluster.workers=2", "cluster.memory=1GB", f"cluster.shared={tmp_path / 'shared'}"),
        *("data.rows=60", "data.features=4", "nodes=4", "stop.passes=20", f"seed={','.join(map(str, range(SEEDS)))}"),
        "+hydra.callbacks.gate._target_=tests.slurm.gate.Gate",
        *(f"+hydra.callbacks.gate.file={tmp_path / 'open'}", f"+hydra.callbacks.gate.first={GATED}"),
    ]
    wrong = dtoken_sweep("submit", *words, "algorithm.tokens=-1", "hydra.sweep.dir=wrong")
    assert (wrong.returncode, site.jobs("PD,R"), Path("wrong").exists()) == (2, [], False), wrong.stdout

    driver = submitted(dtoken_sweep("submit", *words, "hydra.sweep.dir=sweep"))
    second = dtoken_sweep("submit", *words, "hydra.sweep.dir=sweep")
    assert second.returncode == 2
    assert f"has a driver already, slurm job {driver}" in second.stderr
    until(lambda: done() == GATED)
    attempts = [job.attempts for job in manifest_of(sweep).jobs][:GATED]

    site.call("scontrol", "requeue", driver)
    until(lambda: driver in site.jobs("PD"))
    until(lambda: not site.jobs("R,CG"))  # its workers are gone with it
    assert not sweep_status(sweep).alive
    site.call("scontrol", "update", f"JobId={driver}", "StartTime=now")
    until(lambda: len(site.jobs("R")) == 3)

    site.call("scancel", driver)
    until(lambda: not site.jobs("PD,R,CG"))
    assert done() == GATED
    (tmp_path / "open").touch()
    again = submitted(dtoken_sweep("submit", "sweep"))
    until(lambda: site.state(again) in ("COMPLETED", "FAILED"))
    assert site.state(again) == "COMPLETED", (sweep / "driver.log").read_text()
    assert done() == SEEDS
    assert [job.attempts for job in manifest_of(sweep).jobs][:GATED] == attempts
    assert (sweep / "report" / "index.html").is_file()
    assert (sweep / "driver.log").read_text().count("cluster    2 jobs on slurm") == 3
