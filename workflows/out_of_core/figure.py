"""Memory of a run over time, beside its budget: python workflows/out_of_core/figure.py RUN_DIR --output memory.png"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd


def draw(directory: Path, output: Path) -> None:
    """Draw ``memory.parquet`` of a run that had a budget (``engine.memory``)."""
    samples = pd.read_parquet(directory / "memory.parquet")
    budget = samples.budget.iloc[0] / 1e6
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.plot(samples.wall, samples.resident / 1e6, color="#0072B2", label="resident memory of the process")
    axes.axhline(budget, color="#D55E00", linestyle="--", label=f"budget, {budget:,.0f} MB")
    axes.axhline(budget + 250, color="#000000", linestyle=":", label="budget and 250 MB for Python and libraries")
    axes.set(xlabel="seconds", ylabel="MB", ylim=(0, None))
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(output, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--output", type=Path, default=Path("memory.png"))
    options = parser.parse_args()
    draw(options.directory, options.output)
