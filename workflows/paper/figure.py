"""The four panels of the paper's figure: python workflows/paper/figure.py SWEEP_DIR --output paper.png"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from curves import Curves, load_curves
from matplotlib.axes import Axes

from dtoken.engine.loop.accuracy import crossing

# Okabe and Ito's colours, one per method; dashes tell variants apart
STYLES = {
    "Token, K=1": ("#0072B2", "-"),
    "Token, K=4": ("#0072B2", "--"),
    "TVR, K=1": ("#D55E00", "-"),
    "TVR, K=4": ("#D55E00", "--"),
    "TVR, K=1, local start": ("#56B4E9", "-"),
    "TVR, K=4, local start": ("#56B4E9", "--"),
    "TAVR, K=1": ("#009E73", "-"),
    "TAVR, K=4": ("#009E73", "--"),
    "SDCA": ("#009E73", (0, (1, 1))),
    "Walkman": ("#CC79A7", "-"),
    "GD, all to all": ("#000000", "-"),
    "GD, ring": ("#000000", "--"),
    "EXTRA": ("#E69F00", (0, (2, 1.2))),  # on top of GD, whose curve it has
}
PANELS = (
    ("complete", "jumps", "jumps of tokens; messages of GD and EXTRA", "communication, complete graph"),
    ("complete", "gradients", "gradients of single rows", "computation, complete graph"),
    ("complete", "time", "ideal time", "time, complete graph"),
    ("ring", "time", "ideal time", "time, ring"),
)


def panel(axes: Axes, curves: Curves, graph: str, column: str) -> None:
    """One panel: the median over seeds, and all seeds behind it."""
    for name in curves.names(graph):
        colour, dashes = STYLES[name]
        runs = curves.of(graph, name)
        levels = np.logspace(1.3, np.log10(max(curves.accuracy, min(run["suboptimality"].min() for run in runs))), 120)
        crossings = [[_crossing(run[column], run["suboptimality"], level) for level in levels] for run in runs]
        axes.plot(np.median(crossings, axis=0), levels, linestyle=dashes, color=colour, label=name, linewidth=1.6)
        if len(runs) > 1:
            low, high = np.min(crossings, axis=0), np.max(crossings, axis=0)
            axes.fill_betweenx(levels, low, high, color=colour, alpha=0.15, linewidth=0)
    runs = [run[column] for name in curves.names(graph) for run in curves.of(graph, name)]
    second = [amounts[amounts > 0].iloc[0] for amounts in runs]  # the first may be at 0
    axes.set(xscale="log", yscale="log", xlim=(min(second) / 2, None), ylim=(curves.accuracy, 20))
    axes.grid(True, which="major", color="0.92")


def _crossing(amounts: pd.Series, suboptimality: pd.Series, level: float) -> float:
    """From where on a curve stays below a level, on the straight line between two record points (in logarithms)."""
    last = crossing(suboptimality, level).stays_below
    if last is None:
        return float("nan")
    if last == 0 or suboptimality[last] <= 0:
        return float(amounts[last])
    pair = [last, last - 1]
    return float(np.interp(np.log(level), np.log(suboptimality[pair]), amounts[pair]))


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description="The four panels of the paper's figure.")
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--output", type=Path, default=Path("paper.png"))
    options = parser.parse_args()
    curves = load_curves(options.sweep)
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), sharey=True, layout="constrained")
    for axis, (graph, column, label, title) in zip(axes.flat, PANELS, strict=True):
        panel(axis, curves, graph, column)
        axis.set_xlabel(label)
        axis.set_title(title, fontsize=10)
    for axis in axes[:, 0]:
        axis.set_ylabel("suboptimality")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    setting = f"{curves.data}, 20 nodes x {curves.rows:,} rows, tau_comp 1, tau_comm {curves.tau_comm:g}"
    figure.suptitle(f"{setting}; median and range of seeds", fontsize=10)
    for suffix in (".png", ".pdf"):
        figure.savefig(options.output.with_suffix(suffix), dpi=130)
    print(options.output)


if __name__ == "__main__":
    main()
