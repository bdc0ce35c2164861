"""The process that workers are forks of has what a run needs, and only one thread."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import sys
from hydra_dask.cluster.fork_server import PRELOAD
for name in (*PRELOAD, "dtoken.sweep.preload"):
    __import__(name)
before = set(sys.modules)
threads = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:"))
from dtoken.sweep.job import run_of_sweep
import dtoken.algorithms.tavr, dtoken.engine.local, dtoken.session.execute
later = {name for name in set(sys.modules) - before if name.startswith("dtoken.")}
print(threads, *later)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the proc file system")
def test_what_is_loaded_starts_no_thread() -> None:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=os.environ | one, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]
