"""Overhead of sweeps: trivial jobs on the Dask launcher beside Hydra's basic launcher and joblib; memory of the driver.

python benchmarks/sweep.py [--size full] [--json FILE]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Figures, arguments

APP = """
import resource, sys, time
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name=None)
def main(cfg):
    if cfg.a == 0:
        print("first", time.time())
    return cfg.a

if __name__ == "__main__":
    main()
    print("driver_kb", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def sweep(folder: Path, jobs: int, *options: str) -> tuple[float, float]:
    """Seconds of a sweep, and the driver's memory in MB."""
    (folder / "app.py").write_text(APP)
    words = [f"+a=range({jobs})", f"hydra.sweep.dir=out-{time.monotonic_ns()}", *options]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "app.py", "-m", *words], cwd=folder, check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    found = re.search(r"driver_kb (\d+)", done.stdout)
    assert found is not None
    return seconds, int(found[1]) / 1024


def first_job(folder: Path) -> float:
    """Seconds from the command to the first job."""
    began = time.time()
    directory = f"first-{time.monotonic_ns()}"
    sweep(folder, 1, "hydra/launcher=dask", "hydra.launcher.workers=2", f"hydra.sweep.dir={directory}")
    found = re.search(r"first ([\d.]+)", (folder / directory / "0/app.log").read_text())
    assert found is not None
    return float(found[1]) - began


def main() -> None:
    options = arguments(__doc__)
    full = options.size == "full"
    jobs = 200 if full else 20
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures.add("start of a cluster and first job", first_job(folder), "s", at_most=5)
        basic, _ = sweep(folder, jobs, "hydra/launcher=basic")
        figures.add(f"{jobs} jobs, basic launcher", basic, "s")
        for workers, share in ((1, 1.0), (2, 0.6)):
            taken, _ = sweep(folder, jobs, "hydra/launcher=dask", f"hydra.launcher.workers={workers}")
            figures.add(
                f"{jobs} jobs, {workers} workers, against basic",
                taken / basic,
                "ratio",
                at_most=share if full else None,
            )
        taken, _ = sweep(folder, jobs, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
        figures.add(f"{jobs} jobs, joblib with 2 processes, against basic", taken / basic, "ratio")
        few, many = (50, 1000) if full else (10, 60)
        used = [sweep(folder, count, "hydra/launcher=dask", "hydra.launcher.workers=2")[1] for count in (few, many)]
        figures.add(f"driver, {few} jobs", used[0], "MB")
        figures.add(f"driver, each job more up to {many}", (used[1] - used[0]) * 1024 / (many - few), "kB", at_most=20)
    figures.show()


if __name__ == "__main__":
    main()
