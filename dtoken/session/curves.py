"""Curves of suboptimality, one per run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dtoken.errors import InputError
from dtoken.session.colours import colours
from dtoken.session.labels import AXES, MEASURES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_curves(runs: Mapping[str, Sequence["pd.DataFrame"]], x: str = "passes", ax: "Axes | None" = None) -> "Axes":
    """Draw the suboptimality of runs, on a logarithmic scale.

    Parameters
    ----------
    runs
        Trajectories by the name to show; those of one name have one colour.
    x
        Column of the trajectories for the horizontal axis.
    ax
        Where to draw; None makes a new figure.
    """
    if x not in AXES:
        raise InputError(f"x={x} is not a column to plot against; use one of {', '.join(AXES)}")
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    palette = colours(list(runs))
    for name, trajectories in runs.items():
        for place, trajectory in enumerate(trajectories):
            positive = trajectory[trajectory["suboptimality"] > 0]  # rounding may put the end below the optimum
            label = name if place == 0 else None
            ax.plot(positive[x], positive["suboptimality"], color=palette[name][0], label=label, linewidth=1.8)
    ax.set_yscale("log")
    ax.set_xlabel(AXES[x])
    ax.set_ylabel(MEASURES["suboptimality"])
    ax.grid(True, which="major", color="0.9")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if len(runs) > 1:
        ax.legend(frameon=False)
    return ax
