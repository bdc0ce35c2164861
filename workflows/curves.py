"""Draw the runs in the given directories side by side: suboptimality against passes, jumps and ideal time.

python workflows/curves.py outputs/one outputs/two --output curves.png
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from dtoken.report.curves import plot_curves
from dtoken.result import Result


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--output", type=Path, default=Path("curves.png"))
    options = parser.parse_args()
    trajectories = {run.name: Result.load(run).trajectory for run in options.runs}
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, x in zip(figure.subplots(1, 3, sharey=True), ("passes", "jumps", "time"), strict=True):
        plot_curves(trajectories, x, axes).ticklabel_format(axis="x", scilimits=(0, 5))
        axes.label_outer()
    figure.savefig(options.output, dpi=150)
    print(options.output)


if __name__ == "__main__":
    main()
