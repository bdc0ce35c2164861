"""All benchmarks: run them, write the tables of docs/performance.md, and say what got slower.

    python benchmarks/suite.py [--size small|full] [--only NAME ...] [--no-write] [--accept]

Each benchmark is a process of its own. Its figures of full size replace the table of its name in docs/performance.md.
Ratios are compared with those of the same size that benchmarks/figures.json keeps, because ratios within one run travel
between machines and seconds do not. Exit status 1: a benchmark failed, or a ratio got worse by a third; otherwise, or
with --accept, the new figures are kept.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import environment

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
KEPT = HERE / "figures.json"
NAMES = ("ingest", "events", "accuracy", "hops", "scaling", "network", "sweep", "small_runs", "workers")
NAMES += ("out_of_core", "report", "million", "billion")
WORSE = 4 / 3  # machines are noisy: less than this says nothing
Run = Mapping[str, Any]  # what a benchmark writes: size, machine, date, figures


def measure(name: str, size: str) -> Run | None:
    """Run one benchmark; None: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        began = time.perf_counter()
        command = [sys.executable, str(HERE / f"{name}.py"), "--size", size, "--json", str(file)]
        print(f"\n== {name}", flush=True)
        status = subprocess.run(command, check=False, env=environment()).returncode
        if status or not file.is_file():
            print(f"{name} failed with status {status}", file=sys.stderr)
            return None
        found: dict[str, Any] = json.loads(file.read_text())
        return found | {"seconds": round(time.perf_counter() - began)}


def table(name: str, run: Run) -> str:
    """The figures of a benchmark as a table of Markdown."""
    lines = ["| figure | measured | asked for | |", "| --- | --- | --- | --- |"]
    for row in run["figures"]:
        verdict = "" if not row["target"] else "met" if row["met"] else "**missed**"
        lines.append(f"| {row['figure']} | {row['value']:.3g} {row['unit']} | {row['target']} | {verdict} |")
    where = f"`python benchmarks/{name}.py --size {run['size']}`, {run['seconds']} s; {run['machine']}; {run['date']}"
    return f"{where}\n\n" + "\n".join(lines)


def write(page: str, name: str, run: Run) -> str:
    """The page with the table of one benchmark replaced."""
    marks = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"{PAGE.name} has no place for {name}: add <!-- figures: {name} --> and <!-- end -->")
    return marks.sub(lambda found: f"{found[1]}{table(name, run)}\n{found[2]}", page)


def slower(before: Run, now: Run) -> list[str]:
    """A sentence for each ratio that got worse."""
    kept = {row["figure"]: row for row in before["figures"]}
    found = []
    for row in now["figures"]:
        old = kept.get(row["figure"])
        if old is None or row["unit"] != "ratio" or not row["target"]:
            continue
        larger_is_better = row["target"].startswith(">")
        change = old["value"] / row["value"] if larger_is_better else row["value"] / old["value"]
        if change > WORSE:
            found.append(f"{row['figure']}: {row['value']:.3g}, was {old['value']:.3g}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="All benchmarks.")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md and figures.json alone")
    parser.add_argument("--accept", action="store_true", help="from now on compare with these figures, also worse ones")
    options = parser.parse_args(words)
    kept: dict[str, dict[str, Run]] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    of_size = kept.setdefault(options.size, {})
    worse, failed, began = [], [], time.perf_counter()
    for name in options.only:
        run = measure(name, options.size)
        if run is None:
            failed.append(name)
            continue
        if "skipped" in run:
            continue  # it has said why; earlier figures stay
        found = slower(of_size.get(name, run), run)
        worse += found
        if options.no_write:
            continue
        if options.accept or not found:
            of_size[name] = run
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        if options.size == "full":
            PAGE.write_text(write(PAGE.read_text(), name, run))
    print(f"\nin all {(time.perf_counter() - began) / 60:.1f} minutes")
    print("\n".join(f"slower: {sentence}" for sentence in worse) or "nothing got slower")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if worse or failed else 0


if __name__ == "__main__":
    sys.exit(main())
