"""Where a result comes from: versions, the state of the code, the machine, the command."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "zarr", "networkx", "pyarrow", "hydra-core", "dask", "distributed")
BATCH_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "OAR_JOB_ID", "JOB_ID")  # the last is SGE's


def provenance() -> dict[str, Any]:
    """Versions, git state of the working directory, host, batch job and command line, as JSON values.

    Examples
    --------
    >>> provenance()["dtoken"] == version("dtoken")
    True
    """
    return _of_process(os.getcwd()) | {"batch_job": batch_job(), "command": sys.argv}


@cache
def _of_process(folder: str) -> dict[str, Any]:
    """What does not change while this process runs in ``folder``: it takes longer to find out than many a run."""
    return {
        "dtoken": version("dtoken"),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "git": git_state(),
        "host": platform.node(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
    }


def batch_job() -> str | None:
    """The number that a batch system gave to the job that this process is part of."""
    return next((os.environ[name] for name in BATCH_JOBS if os.environ.get(name)), None)


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state() -> dict[str, Any] | None:
    """Commit of the working directory and whether it has changes; None where there is no git repository."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes)}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
