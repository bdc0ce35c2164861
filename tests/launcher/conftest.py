"""Sweeps of the small application in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.waiting import NEVER, until

APP = Path(__file__).with_name("app.py")
NOTICE_SECONDS = 120.0


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Sweeps:
    """Starts sweeps in an empty folder; ``ran`` counts how often each job was started."""

    def __init__(self, folder: Path, command: list[str], key: str = "what=") -> None:
        self.folder, self.command, self.key = folder, command, key
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str, sweep_dir: bool = True) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.command, *(["hydra.sweep.dir=all"] if sweep_dir else []), *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ended:
        out, err = process.communicate(timeout=NEVER)
        return Ended(process.returncode, out, err)

    def run(self, *words: str) -> Ended:
        return self.end(self.start(*words))

    def ran(self) -> Counter[str]:
        return Counter((self.folder / "ran").read_text().split())

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs of the manifest by what they do."""
        jobs = json.loads((self.folder / "all/manifest.json").read_text())["jobs"]
        return {
            word.partition("=")[2]: job for job in jobs for word in job["overrides"] if word.startswith(f"+{self.key}")
        }

    def wait(self, condition: Callable[[], bool]) -> None:
        driver = self.processes[-1]
        until(lambda: condition() or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()

    def started(self, what: str) -> Callable[[], bool]:
        return lambda: (self.folder / "ran").exists() and what in self.ran()

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def left_behind(self, session: int) -> list[str]:
        """Processes of a sweep that live on after its driver, and do not notice that it is gone."""
        began = time.monotonic()
        while found := [p for p in psutil.pids() if _session(p) == session]:
            if time.monotonic() - began > NOTICE_SECONDS:
                return [" ".join(psutil.Process(p).cmdline()) for p in found]
            time.sleep(0.1)
        return []


def _session(pid: int) -> int | None:
    try:
        dead = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return None if dead else os.getsid(pid)
    except (OSError, psutil.Error):
        return None


@pytest.fixture
def sweeps(tmp_path: Path) -> Iterator[Sweeps]:
    app = [sys.executable, str(APP), "-m", "hydra/launcher=dask", "hydra.launcher.workers=2", f"+ran={tmp_path}/ran"]
    found = Sweeps(tmp_path, app)
    yield found
    found.close()
