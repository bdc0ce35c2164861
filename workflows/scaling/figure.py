"""Draw how many steps and jumps the runs of a sweep needed against kappa, with the slopes.

dtoken -m +experiment=scaling hydra.sweep.dir=scaling
dtoken -m +experiment=scaling algorithm=tavr algorithm.continuized=true hydra.sweep.dir=scaling-continuized
python workflows/scaling/figure.py scaling scaling-continuized --output scaling.png
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

SMALL_SIGMA = 3e-3  # slopes are of the runs up to here: for larger ones the number of rows decides
LABELS = {"events": "steps", "jumps": "jumps"}


def main() -> None:
    """Read all runs, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description="Steps and jumps against kappa, from sweeps of +experiment=scaling.")
    parser.add_argument("sweeps", nargs="+", type=Path, help="sweep directories")
    parser.add_argument("--accuracy", default="1e-08", help="which of record.accuracies")
    parser.add_argument("--output", type=Path, default=Path("scaling.png"))
    options = parser.parse_args()
    curves = read([path for sweep in options.sweeps for path in sorted(sweep.glob("*/summary.json"))], options.accuracy)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, layout="constrained")
    for name, points in curves.items():
        table = np.array(sorted(points))
        small = table[:, 0] <= SMALL_SIGMA
        for axis, column, what in zip(axes, (2, 3), LABELS.values(), strict=True):
            slope = np.polyfit(np.log(table[small, 1]), np.log(table[small, column]), 1)[0]
            axis.loglog(table[:, 1], table[:, column], "o-", markersize=3, label=f"{name}, slope {slope:.2f}")
            axis.set(xlabel="kappa", title=f"{what} to {options.accuracy}")
        for sigma, kappa, steps, jumps in table[::-1]:
            print(f"{name:18} sigma {sigma:7.0e}  kappa {kappa:9,.0f}  steps {steps:11,.0f}  jumps {jumps:11,.0f}")
    for axis in axes:
        axis.legend(frameon=False)
    figure.savefig(options.output, dpi=150)
    print(options.output)


def read(summaries: list[Path], accuracy: str) -> dict[str, list[tuple[float, float, float, float]]]:
    """(sigma, kappa, steps, jumps) of all runs that came to stay below the accuracy, by method."""
    curves = defaultdict(list)
    for path in summaries:
        summary: dict[str, Any] = json.loads(path.read_text())
        config, taken = summary["config"], summary["to_accuracy"].get(accuracy, {}).get("stays_below")
        if taken is None:
            print(f"{path.parent} did not reach {accuracy}")
            continue
        name = config["algorithm"]["_target_"].rpartition(".")[2].lower()
        name += " continuized" if config["algorithm"].get("continuized") else ""
        kappa = summary["constants"]["kappa"]
        if math.isfinite(kappa):
            curves[name].append((config["problem"]["sigma"], kappa, taken["events"], taken["jumps"]))
    return curves


if __name__ == "__main__":
    main()
