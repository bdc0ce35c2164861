"""Sweeps of real runs: small ones by the hundred, and the demo; the launcher beside Hydra's own.

    python benchmarks/sweep.py [--size full] [--json FILE]

Runs are `dtoken -m` on the embedded dataset, on two workers. Kernels are compiled before, except where the figure says
so; small_runs.py tells where the time of one goes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Figures, arguments, environment
from small_runs import COMMON, MANY, ROOT

DTOKEN = [sys.executable, "-m", "dtoken.cli.run", "-m"]
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
CHECKED = """
import os, resource
def show(jobs, todo, cluster):
    print("driver_kb", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
    os._exit(0)  # no report
"""


def run(command: list[str], folder: Path, **more: str) -> tuple[float, str]:
    """Seconds of a command, and what it printed."""
    began = time.perf_counter()
    paths = os.pathsep.join([str(folder), str(ROOT)])
    env = environment(PYTHONPATH=paths, DTOKEN_STORE=str(folder / "stores"), **more)
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout


def megabytes(printed: str) -> float:
    found = re.search(r"driver_kb (\d+)", printed)
    assert found is not None
    return int(found[1]) / 1024


def sweep(folder: Path, *words: str, **more: str) -> tuple[float, Path]:
    """Seconds of a sweep of dtoken from the command to the report, and its directory."""
    directory = folder / f"sweep-{time.monotonic_ns()}"
    taken, _ = run([*DTOKEN, *COMMON, *words, f"hydra.sweep.dir={directory}"], folder, **more)
    return taken, directory


def iterations(directory: Path) -> list[float]:
    """Seconds that each run iterated."""
    return [json.loads(path.read_text())["end"]["wall"] for path in directory.glob("*/summary.json")]


def real_runs(figures: Figures, folder: Path, runs: int, times: int) -> None:
    cold, _ = sweep(folder, NUMBA_CACHE_DIR=str(folder / "kernels"))
    figures.add("the sweep of make demo, nothing compiled", cold, "s", at_most=20)
    sweep(folder)  # compiles for the next ones
    figures.add("the sweep of make demo", min(sweep(folder)[0] for _ in range(times)), "s", at_most=6)
    taken, directory = min(sweep(folder, *MANY, f"seed=range({runs // 2})") for _ in range(times))
    spent = iterations(directory)
    figures.add(f"{runs} small runs, from the command to the report", taken, "s", at_most=0.15 * runs / 2)
    figures.add("of it, iterations of each", sum(spent) / len(spent), "s")
    figures.add("of it, each run on its worker", taken * 2 / runs, "s", at_most=0.15)


def checked(figures: Figures, folder: Path, few: int, many: int) -> None:
    """Composing and checking configurations, up to where the first run would start."""
    (folder / "checked.py").write_text(CHECKED)
    options = ["hydra.launcher.dry_run=checked.show", f"hydra.sweep.dir={folder}/checked", *MANY]
    found = [run([*DTOKEN, *COMMON, *options, f"seed=range({count // 2})"], folder) for count in (few, many)]
    (little, before), (much, after) = found
    figures.add(f"{many:,} jobs composed and checked, whole command", much, "s", at_most=10)
    figures.add("each job", (much - little) / (many - few) * 1e3, "ms", at_most=5)
    figures.add("memory of the driver, each job", (megabytes(after) - megabytes(before)) * 1024 / (many - few), "kB")


def trivial(folder: Path, jobs: int, *options: str) -> tuple[float, str]:
    """A sweep of jobs that do nothing."""
    (folder / "app.py").write_text(APP)
    words = [f"+a=range({jobs})", f"hydra.sweep.dir=out-{time.monotonic_ns()}", *options]
    return run([sys.executable, "app.py", "-m", *words], folder)


def first_job(folder: Path) -> float:
    """Seconds from the command to the first job."""
    began, directory = time.time(), f"first-{time.monotonic_ns()}"
    trivial(folder, 1, "hydra/launcher=dask", "hydra.launcher.workers=2", f"hydra.sweep.dir={directory}")
    found = re.search(r"first ([\d.]+)", (folder / directory / "0/app.log").read_text())
    assert found is not None
    return float(found[1]) - began


def launchers(figures: Figures, folder: Path, full: bool) -> None:
    """Jobs that do nothing, beside Hydra's own launchers."""
    jobs = 200 if full else 20
    figures.add("start of a cluster and first job", first_job(folder), "s", at_most=5)
    basic, _ = trivial(folder, jobs, "hydra/launcher=basic")
    figures.add(f"{jobs} jobs that do nothing, basic launcher", basic, "s")
    for workers, share in ((1, 1.0), (2, 0.6)):
        taken, _ = trivial(folder, jobs, "hydra/launcher=dask", f"hydra.launcher.workers={workers}")
        figures.add(
            f"{jobs} jobs, {workers} workers, against basic", taken / basic, "ratio", at_most=share if full else None
        )
    taken, _ = trivial(folder, jobs, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    figures.add(f"{jobs} jobs, joblib with 2 processes, against basic", taken / basic, "ratio")
    few, many = (50, 2000) if full else (10, 60)
    found = [trivial(folder, count, "hydra/launcher=dask", "hydra.launcher.workers=2")[1] for count in (few, many)]
    used = [megabytes(printed) for printed in found]
    figures.add(f"driver, {few} jobs", used[0], "MB")
    figures.add(f"driver, each job more up to {many:,}", (used[1] - used[0]) * 1024 / (many - few), "kB", at_most=20)


def main() -> None:
    options = arguments(__doc__)
    full = options.size == "full"
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real_runs(figures, folder, 200 if full else 20, 3 if full else 1)
        checked(figures, folder, 200 if full else 20, 2000 if full else 60)
        launchers(figures, folder, full)
    figures.show()


if __name__ == "__main__":
    main()
