"""Curves of suboptimality, one per run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dtoken.errors import InputError
from dtoken.session.colours import colours
from dtoken.session.labels import AXES, MEASURES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_curves(runs: Mapping[str, "pd.DataFrame"], x: str = "passes", ax: "Axes | None" = None) -> "Axes":
    """Draw the suboptimality of runs, on a logarithmic scale.

    Parameters
    ----------
    runs
        Trajectories by the name to show.
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
    for name, trajectory in runs.items():
        positive = trajectory[trajectory["suboptimality"] > 0]  # rounding may put the end below the optimum
        ax.plot(positive[x], positive["suboptimality"], color=palette[name][0], label=name, linewidth=1.8)
    ax.set_yscale("log")
    ax.set_xlabel(AXES[x])
    ax.set_ylabel(MEASURES["suboptimality"])
    ax.grid(True, which="major", color="0.9")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if len(runs) > 1:
        ax.legend(frameon=False)
    return ax
