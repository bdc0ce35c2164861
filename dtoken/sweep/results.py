"""Several runs as Python has them: tables, curves, and what a notebook shows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtoken.config.values import show
from dtoken.session.curves import plot_curves

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Results:
    """The runs of one or several sweeps, or those that ``dtoken.collect`` was given.

    Parameters
    ----------
    trajectories
        One row per record point: ``run``, ``sweep``, ``status``, the parameters, and the columns of
        ``trajectory.parquet``.
    runs
        One row per run, whatever its status: ``run``, ``sweep``, ``directory``, ``status``, ``error``, the parameters,
        rates, times, and the last record point (columns that begin with ``end.``).
    summaries
        ``summary.json`` of each run that has one, by the name of the run.
    parameters
        Names of the columns that are parameters.
    named
        Whether the names of the runs are a user's own, to be shown in figures.
    """

    trajectories: "pd.DataFrame"
    runs: "pd.DataFrame"
    summaries: Mapping[str, Mapping[str, Any]]
    parameters: tuple[str, ...]
    named: bool = False

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        count = f"{len(self)} run" if len(self) == 1 else f"{len(self)} runs"
        how = ", ".join(f"{number} {status}" for status, number in Counter(self.runs.status).items())
        return f"Results({count}: {how}; parameters {', '.join(self.parameters)})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        columns = ["run", "status", *self.parameters, "end.passes", "end.jumps", "end.suboptimality"]
        return str(self.runs[columns].to_html(index=False, border=0, na_rep="", float_format="{:.4g}".format))

    def to_frame(self) -> "pd.DataFrame":
        """All record points of all runs, one below the other, with the parameters as columns."""
        return self.trajectories

    def labels(self) -> dict[str, str]:
        """What each run is called in figures: by what it differs in from others, the seed aside."""
        import pandas as pd

        if self.named:
            return {name: name for name in self.runs.run}
        told = [name for name in self.parameters if name not in ("algorithm", "seed") and self._varies(name)]
        found = {}
        for _, row in self.runs.iterrows():
            parts = [f"{name.removeprefix('algorithm.')}={show(row[name])}" for name in told if not pd.isna(row[name])]
            found[row["run"]] = " ".join([str(row["algorithm"]), *parts])
        return found

    def _varies(self, parameter: str) -> bool:
        return len(set(map(str, self.runs[parameter]))) > 1

    def plot(self, x: str = "passes", ax: "Axes | None" = None) -> "Axes":
        """Draw the suboptimality of all runs against ``passes``, ``jumps``, ``messages``, ``time`` or another column.

        Runs that differ in nothing but the seed have one colour and one name.
        """
        curves: dict[str, list[pd.DataFrame]] = {}
        labels = self.labels()
        for name, rows in self.trajectories.groupby("run", sort=False):
            curves.setdefault(labels[str(name)], []).append(rows)
        return plot_curves(curves, x=x, ax=ax)
