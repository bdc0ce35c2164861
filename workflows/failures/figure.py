"""Draw what a burst of failures does: the number of tokens, and suboptimality, with and without control.

dtoken -m +experiment=failures
python workflows/failures/figure.py multirun/failures --output failures.png
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

COLOURS = {"none": "#888888", "decafork": "#1f77b4", "decafork_plus": "#d95f02"}


def main() -> None:
    """Read all runs, print a table, draw the figure."""
    parser = argparse.ArgumentParser(description="Tokens after a burst of failures, from +experiment=failures.")
    parser.add_argument("sweep", type=Path, help="sweep directory")
    parser.add_argument("--output", type=Path, default=Path("failures.png"))
    options = parser.parse_args()
    figure, (above, below) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for control, runs in read(options.sweep).items():
        colour = COLOURS.get(control)
        for place, run in enumerate(runs):
            label = f"failures.control={control}" if place == 0 else None
            above.step(run.time, run.tokens, where="post", color=colour, alpha=0.7, linewidth=1, label=label)
            below.plot(run.time, run.suboptimality, color=colour, alpha=0.7, linewidth=1)
        ends = [(int(run.tokens.iloc[-1]), run.suboptimality.iloc[-1], run.time.iloc[-1]) for run in runs]
        tokens, gaps, times = zip(*ends, strict=True)
        print(f"{control:14} tokens at the end {tokens}   F - F* {np.median(gaps):.1e}   time {np.median(times):,.0f}")
    above.set(xlabel="ideal time", ylabel="tokens", ylim=(0, None))
    below.set(xlabel="ideal time", ylabel="F - F*, mean over tokens", yscale="log")
    above.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(options.output, dpi=110)
    print(options.output)


def read(sweep: Path) -> dict[str, list[pd.DataFrame]]:
    """The trajectories of all runs by the control that they had."""
    found: dict[str, list[pd.DataFrame]] = defaultdict(list)
    for path in sorted(sweep.glob("*/summary.json"), key=lambda path: int(path.parent.name)):
        control = json.loads(path.read_text())["config"]["failures"]["control"]
        found[control].append(pd.read_parquet(path.parent / "trajectory.parquet"))
    return found


if __name__ == "__main__":
    main()
