"""Everything that a report shows, computed cell by cell, so that no more than one cell's trajectories are in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtoken.report.bands import AXES, Curves, aggregate
from dtoken.report.cells import Cell, Sweep, cells_of
from dtoken.report.costs import Reached, Series, accuracies_of, reached, scaling
from dtoken.report.memory import MemoryUse, memory_use
from dtoken.sweep.collect import read_trajectory
from dtoken.sweep.runs import Run


@dataclass(frozen=True)
class Rate:
    """Predicted and measured rate of a cell, median over its runs."""

    cell: Cell
    predicted: float | None
    measured: float | None
    proved: bool

    @property
    def violated(self) -> bool:
        """Whether a proved bound does not hold: the error fell more slowly than it says."""
        return bool(self.proved and self.predicted and self.measured is not None and self.measured < self.predicted)


@dataclass(frozen=True)
class Study:
    """What there is to show of a sweep."""

    sweep: Sweep
    accuracies: list[float]
    curves: list[dict[str, Curves]]  # of each cell, by axis
    reached: list[Reached]
    series: list[Series]
    rates: list[Rate]
    memory: list[MemoryUse]


def study(runs: Sequence[Run], accuracies: Sequence[float] | None = None) -> Study:
    """Read all trajectories once and compute everything."""
    sweep = cells_of(runs)
    wanted = accuracies_of(sweep, accuracies)
    curves, table = [], []
    for cell in sweep.cells:
        tables = [read_trajectory(run) for run in cell.runs]
        found = {axis: aggregate(tables, axis) for axis in AXES}
        curves.append({axis: curve for axis, curve in found.items() if curve is not None})
        table += [reached(cell, tables, accuracy) for accuracy in wanted]
    rates = [_rate(cell) for cell in sweep.cells]
    return Study(sweep, wanted, curves, table, scaling(sweep, table), rates, memory_use(sweep.cells))


def _rate(cell: Cell) -> Rate:
    summaries = [run.summary for run in cell.runs if run.summary]

    def median(name: str) -> float | None:
        values = [summary[name] for summary in summaries if summary.get(name) is not None]
        return float(np.median(values)) if values else None

    proved = bool(summaries) and all(summary.get("rate_is_proved") for summary in summaries)
    return Rate(cell, median("predicted_rate"), median("measured_rate"), proved)
