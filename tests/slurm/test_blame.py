"""Jobs of a sweep that die on a real SLURM: what the system does is not charged to them, what they do themselves is."""

import sys
from pathlib import Path

from tests.launcher.conftest import APP, Sweeps
from tests.slurm.site import Site
from tests.slurm.test_sweep import batch_job
from tests.waiting import until


def test_only_what_a_job_does_to_itself_counts(site: Site, tmp_path: Path, shared: Path) -> None:
    launcher = {"cluster": "slurm", "workers": 2, "memory_limit": "500MB", "attempts": 1, "+options.shared": shared}
    words = [f"{'+' * key.startswith('+')}hydra.launcher.{key.lstrip('+')}={value}" for key, value in launcher.items()]
    sweeps = Sweeps(tmp_path, [sys.executable, str(APP), "-m", "hydra/launcher=dask", f"+ran={tmp_path}/ran"])
    driver = sweeps.start("+what=slow1,kill1", *words)
    try:
        sweeps.wait(sweeps.started("slow1"))
        sweeps.wait(lambda: batch_job(tmp_path / "all", sweeps.jobs()["slow1"]) is not None)
        job = str(batch_job(tmp_path / "all", sweeps.jobs()["slow1"]))
        site.call("scancel", "--full", "--signal=KILL", job)  # all its processes, without a warning
        sweeps.wait(lambda: sweeps.ran()["slow1"] == 2)
        (tmp_path / "ran.go").touch()
        ended = sweeps.end(driver)
    finally:
        sweeps.close()
    jobs = sweeps.jobs()
    assert (jobs["slow1"]["status"], jobs["slow1"]["attempts"]) == ("done", 2), ended
    assert jobs["kill1"]["status"] == "failed"
    assert jobs["kill1"]["error"] == "its process was killed by signal 9 (SIGKILL)"
    assert ended.status == 1
    until(lambda: not site.jobs("PD,R,CG"))


def test_a_job_that_never_keeps_anything_is_told_at_the_second_loss_and_has_failed_at_the_third(
    site: Site, tmp_path: Path, shared: Path
) -> None:
    launcher = {"cluster": "slurm", "workers": 1, "memory_limit": "500MB", "+options.shared": shared}
    words = [f"{'+' * key.startswith('+')}hydra.launcher.{key.lstrip('+')}={value}" for key, value in launcher.items()]
    sweeps = Sweeps(tmp_path, [sys.executable, str(APP), "-m", "hydra/launcher=dask", f"+ran={tmp_path}/ran"])
    driver = sweeps.start("+what=slow1", *words)
    try:
        for time in (1, 2, 3):
            sweeps.wait(lambda time=time: sweeps.started("slow1")() and sweeps.ran()["slow1"] == time)
            sweeps.wait(lambda: batch_job(tmp_path / "all", sweeps.jobs()["slow1"]) in site.jobs())
            site.call("scancel", "--full", "--signal=KILL", *site.jobs())
        ended = sweeps.end(driver)
    finally:
        sweeps.close()
    assert "note       job 0 lost its worker two times and had kept nothing: it takes longer" in ended.out
    (job,) = sweeps.jobs().values()
    assert (job["status"], job["attempts"]) == ("failed", 3)
    assert job["error"].startswith("lost its worker 3 times and had kept nothing: it takes longer than workers last")
    assert ended.status == 1
    until(lambda: not site.jobs("PD,R,CG"))
