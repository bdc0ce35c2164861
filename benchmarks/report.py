"""What the report of a sweep costs: the time to make it, its size, and the time until a browser has drawn it.

    python benchmarks/report.py [--size small|full] [--json FILE]

The runs (200 and 2,000 at full size, of up to 500 record points) are made up, so that nothing but the report is
measured. Targets are for the time on the wall of an idle machine; processor time is what a busy one can be judged by.
"""

import shutil
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from common import Figures, arguments

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from dtoken.report import make_report
from tests.sweep.made import config, trajectory, write_run

SPEEDS = {"token": 0.6, "tvr": 1.0, "tavr": 2.2, "gd": 0.4}


def make_up(folder: Path, points: int, seeds: int) -> int:
    cases = list(product(SPEEDS, ("complete", "ring"), (1e-1, 3e-2, 1e-2, 3e-3, 1e-3), range(seeds)))
    for number, (algorithm, graph, sigma, seed) in enumerate(cases):
        rng = np.random.default_rng(number)
        table = trajectory(1 - 0.08 * SPEEDS[algorithm] * (sigma / 0.1) ** 0.5, points, 7 + int(rng.integers(3)))
        for measure in ("suboptimality", "distance", "consensus"):
            table[measure] *= np.exp(np.cumsum(rng.normal(0, 0.05, points)))
        kept = max(5, int((table.suboptimality > 1e-9).sum()))
        settings = config(algorithm, graph=graph, seed=seed, problem={"loss": "logistic", "sigma": sigma})
        write_run(folder / str(number), settings, table[:kept])
    return len(cases)


def seconds_to_draw(page: Path) -> tuple[float, float] | None:
    """Time on the wall, and processor time of the page's main thread, until all is drawn; None: no Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        tab = context.new_page()
        session = context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        begun = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        wall = time.perf_counter() - begun
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        browser.close()
    return wall, float(metrics["TaskDuration"])


def main() -> None:
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as name:
        runs = make_up(Path(name), 100 if options.size == "small" else 500, 1 if options.size == "small" else 5)
        begun, spent = time.perf_counter(), time.process_time()
        page = make_report(name)
        wall, spent = time.perf_counter() - begun, time.process_time() - spent
        figures.add(f"report over {runs} runs", wall, "s", at_most=30)
        figures.add("of it, this process", spent, "s of processor")
        figures.add("its page", page.stat().st_size / 1e6, "MB", at_most=6)
        if drawn := seconds_to_draw(page):
            figures.add("the page in Chromium, until all is drawn", drawn[0], "s", at_most=3)
            figures.add("of it, the page's main thread", drawn[1], "s of processor")
    if options.size == "full":
        with tempfile.TemporaryDirectory() as name:
            runs = make_up(Path(name), 500, 50)
            begun = time.perf_counter()
            make_report(name)
            figures.add(f"report over {runs:,} runs", time.perf_counter() - begun, "s", at_most=60)
    figures.show()


if __name__ == "__main__":
    main()
