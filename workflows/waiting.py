"""Draw what the workers of runs with engine=dask spent their time on: computing, sending tokens, waiting for tokens.

python workflows/waiting.py runs/one runs/two --output waiting.png
"""

import argparse
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dtoken.errors import InputError
from dtoken.session.result import Result

PARTS = {"busy": ("computing", "#4477aa"), "sending": ("sending", "#ccbb44"), "waiting": ("waiting", "#cccccc")}


def plot_waiting(summary: dict[str, Any], axes: Axes) -> Axes:
    """One bar per worker, as shares of the time of its run thread, with the seconds written inside."""
    workers = (summary["engine"] or {}).get("workers")
    if not workers:
        raise InputError("a run has no workers to draw; make it with engine=dask")
    names = [f"worker {name}" for name in workers]
    totals = [sum(tally[part] for part in PARTS) for tally in workers.values()]
    left = [0.0] * len(workers)
    for part, (label, colour) in PARTS.items():
        seconds = [tally[part] for tally in workers.values()]
        shares = [100 * value / total for value, total in zip(seconds, totals, strict=True)]
        bars = axes.barh(names, shares, left=left, color=colour, label=label)
        texts = [f"{value:.2g} s" if share > 12 else "" for value, share in zip(seconds, shares, strict=True)]
        axes.bar_label(bars, texts, label_type="center")
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="% of the time", title=_title(summary))
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _title(summary: dict[str, Any]) -> str:
    tokens = summary["config"]["algorithm"].get("tokens")
    method = summary["algorithm"] if tokens is None else f"{summary['algorithm']}, K = {tokens}"
    return f"{method}, {summary['config']['graph']['kind']}"


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--output", type=Path, default=Path("waiting.png"))
    options = parser.parse_args()
    summaries = [Result.load(run).summary for run in options.runs]
    most = max(len(summary["engine"].get("workers", ())) for summary in summaries)
    figure = Figure(figsize=(5 * len(summaries), 1.4 + 0.5 * most), layout="constrained")
    for place, summary in zip(figure.subplots(1, len(summaries), squeeze=False)[0], summaries, strict=True):
        plot_waiting(summary, place)
    figure.legend(*place.get_legend_handles_labels(), loc="outside lower center", ncols=len(PARTS), frameon=False)
    figure.savefig(options.output, dpi=150)
    print(options.output)


if __name__ == "__main__":
    main()
