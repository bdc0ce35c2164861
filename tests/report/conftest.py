"""A sweep made by hand, its report, and a browser to open it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dtoken.report import make_report
from tests.sweep.made import config, trajectory, write_manifest, write_run
from tests.waiting import NEVER

MILLISECONDS = 1000 * NEVER  # as the browser counts
RATES = {"token": 0.8, "tvr": 0.6, "tavr": 0.35}
REASON = "diverged: <b>tavr</b> & a ring need algorithm.jumps=auto"


def small_sweep(folder: Path) -> Path:
    """Three methods, two graphs, three seeds; one run failed."""
    jobs = []
    for graph in ("complete", "ring"):
        for algorithm, rate in RATES.items():
            for seed in range(3):
                number = str(len(jobs))
                words = [f"algorithm={algorithm}", f"graph={graph}", f"seed={seed}"]
                failed = (algorithm, graph, seed) == ("tavr", "ring", 2)
                job = {"folder": number, "overrides": words, "status": "failed" if failed else "done"}
                jobs.append(job | {"error": REASON if failed else None})
                table = trajectory(1.5 if failed else rate + 0.02 * seed, 3 if failed else 30, jumps=5 + seed)
                settings = config(algorithm, graph=graph, seed=seed)
                state = {"status": "failed", "failure": REASON} if failed else {}
                measured = {"predicted_rate": 0.05 if algorithm == "token" else 0.01, "measured_rate": 0.02}
                write_run(folder / number, settings, table, overrides=words, **state, **measured)
    write_manifest(folder, jobs)
    return folder


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="session")
def report(sweep: Path) -> Path:
    return make_report(sweep, accuracies=[1e-1, 1e-2, 1e-4])


@pytest.fixture(scope="session")
def tables(sweep: Path) -> dict[str, pd.DataFrame]:
    """Trajectories by folder, read by pandas."""
    return {path.parent.name: pd.read_parquet(path) for path in sweep.glob("*/trajectory.parquet")}


@pytest.fixture(scope="module")  # while it is there, an event loop runs, and other tests want their own
def browser() -> Iterator[Any]:
    """Headless Chromium: that of the system, or DTOKEN_CHROMIUM."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = os.environ.get("DTOKEN_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium; install it (apt install chromium) or say where it is with DTOKEN_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # without a sandbox, because the tests may run as root; they open only files that they wrote
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=MILLISECONDS)
        yield chromium
        chromium.close()
