"""Submit and leave, on a real SLURM: the driver is requeued in the middle and goes on; no finished run is repeated."""

import re
from pathlib import Path

import pytest

from dtoken.cli.sweep import main
from dtoken.sweep.status import manifest_of, sweep_status
from tests.conftest import ROOT
from tests.slurm.site import Site
from tests.waiting import until

SEEDS, GATED = 3, 2


def test_submit_leave_and_go_on(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers need the gate
    monkeypatch.setattr("sys.argv", ["dtoken-sweep"])
    monkeypatch.chdir(tmp_path)
    sweep = tmp_path / "sweep"

    def submit(*words: str) -> str:
        """The job of the driver."""
        assert main(["submit", *words]) == 0
        found = re.search(r"submitted  slurm job (\d+)", capsys.readouterr().out)
        assert found is not None
        return found[1]

    def done() -> int:
        counts = sweep_status(sweep).as_dict()["counts"] if (sweep / "manifest.json").exists() else {"done": 0}
        return int(counts["done"])

    driver = submit(
        *("cluster=slurm", "cluster.workers=2", "cluster.memory=1GB", f"cluster.shared={tmp_path / 'shared'}"),
        *("data.rows=60", "data.features=4", "nodes=4", "stop.passes=20", f"seed={','.join(map(str, range(SEEDS)))}"),
        "+hydra.callbacks.gate._target_=tests.slurm.gate.Gate",
        *(f"+hydra.callbacks.gate.file={tmp_path / 'open'}", f"+hydra.callbacks.gate.first={GATED}"),
        "hydra.sweep.dir=sweep",
    )
    until(lambda: done() == GATED)
    attempts = [job.attempts for job in sweep_status(sweep).jobs][:GATED]  # a record is there before its driver knows

    site.call("scontrol", "requeue", driver)
    until(lambda: driver in site.jobs("PD"))
    until(lambda: not site.jobs("R,CG"))  # its workers are gone with it
    assert not sweep_status(sweep).alive
    (tmp_path / "open").touch()
    site.call("scontrol", "update", f"JobId={driver}", "StartTime=now")  # or SLURM waits for two minutes
    until(lambda: site.state(driver) in ("COMPLETED", "FAILED"))
    log = (sweep / "driver.log").read_text()
    assert site.state(driver) == "COMPLETED", log
    assert done() == SEEDS
    assert [job.attempts for job in manifest_of(sweep).jobs][:GATED] == attempts
    assert (sweep / "report" / "index.html").is_file()
    assert log.count("cluster    2 jobs on slurm") == 1
    assert log.count("cluster    1 job on slurm") == 1  # one run was left

    total = sum(job.attempts for job in manifest_of(sweep).jobs)
    again = submit("sweep")  # nothing is missing
    until(lambda: site.state(again) == "COMPLETED")
    assert "3 already done" in (sweep / "driver.log").read_text()
    assert sum(job.attempts for job in manifest_of(sweep).jobs) == total
