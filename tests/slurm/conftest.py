"""One SLURM for all tests of this folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.site import Site, missing, slurm


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A SLURM that runs, and to which this process' commands talk."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with slurm() as found, pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith(("SLURM_", "SBATCH_"))]:
            patch.delenv(key)  # the tests may themselves run in a job
        for key, value in found.environment.items():
            patch.setenv(key, value)
        yield found


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that all nodes see."""
    return tmp_path / "shared"


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start Python in a process of its own; its output goes to a file."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        with (tmp_path / "printed.txt").open("w") as output:
            started.append(
                subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=subprocess.STDOUT, text=True)
            )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
