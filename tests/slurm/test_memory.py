"""A real SLURM that limits the memory of jobs: what its word for the end of a job is worth."""

import os
import sys
from pathlib import Path

import pytest

from tests.launcher.conftest import APP, Sweeps
from tests.slurm.site import missing, no_limits, slurm
from tests.waiting import until


def test_a_run_that_fills_the_memory_of_its_job_is_told_so(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (reason := missing() or no_limits()) is not None:
        pytest.skip(reason)
    launcher = {"cluster": "slurm", "workers": 1, "memory_limit": "500MB", "attempts": 1, "+options.shared": shared}
    words = [f"{'+' * key.startswith('+')}hydra.launcher.{key.lstrip('+')}={value}" for key, value in launcher.items()]
    sweeps = Sweeps(tmp_path, [sys.executable, str(APP), "-m", "hydra/launcher=dask", f"+ran={tmp_path}/ran"])
    with slurm([f"m{os.getpid()}"], limited=True) as site:
        for key, value in site.environment.items():
            monkeypatch.setenv(key, value)
        try:
            ended = sweeps.run("+what=fill1,ok1", *words)
        finally:
            sweeps.close()
        jobs = sweeps.jobs()
        assert jobs["fill1"]["status"] == "failed", ended
        assert jobs["fill1"]["error"].startswith("needed more memory than its job has"), ended
        assert sweeps.ran() == {"fill1": 1, "ok1": 1}
        assert jobs["ok1"]["status"] == "done"
        until(lambda: not site.jobs("PD,R,CG"))
