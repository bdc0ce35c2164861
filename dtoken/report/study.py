"""Everything that a report shows, computed cell by cell, so that no more than one cell's trajectories are in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoken.report.bands import AXES, Curves, aggregate
from dtoken.report.cells import Cell, Sweep, cells_of
from dtoken.report.costs import Reached, Series, accuracies_of, reached, scaling, shown_accuracy
from dtoken.report.memory import MemoryUse, memory_use
from dtoken.session.files import DONE
from dtoken.sweep.collect import read_trajectory, trajectory_columns
from dtoken.sweep.runs import Run

FAR_APART = 25  # times: from here on an axis is logarithmic


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
    shown: float  # the accuracy to look at first

    @property
    def panels(self) -> dict[Any, list[tuple[Cell, dict[str, Curves]]]]:
        """The curves that are shown first, by the value of the parameter that tells panels apart."""
        facet, focus = self.sweep.facet, self.sweep.focus
        found: dict[Any, list[tuple[Cell, dict[str, Curves]]]] = {}
        for value in facet.values if facet else (None,):
            chosen = focus | ({facet.name: value} if facet else {})
            pairs = zip(self.sweep.cells, self.curves, strict=True)
            found[value] = [(cell, curves) for cell, curves in pairs if curves and cell.matches(chosen)]
        return {value: pairs for value, pairs in found.items() if pairs}

    @property
    def logarithmic(self) -> list[str]:
        """Axes on which curves of one panel end so far apart that, drawn linearly, some would stick to the edge."""
        return [axis for axis in AXES if any(_apart(pairs, axis) for pairs in self.panels.values())]


def _apart(pairs: Sequence[tuple[Cell, dict[str, Curves]]], axis: str) -> bool:
    ends = [float(curves[axis].x[-1]) for _, curves in pairs if axis in curves]
    positive = [end for end in ends if end > 0]
    return bool(positive) and max(positive) > FAR_APART * min(positive)


def study(runs: Sequence[Run], accuracies: Sequence[float] | None = None) -> Study:
    """Read all trajectories once and compute everything."""
    sweep = cells_of(runs)
    wanted = accuracies_of(sweep, accuracies)
    curves, table = [], []
    columns = trajectory_columns(runs)
    for cell in sweep.cells:
        tables = [read_trajectory(run, columns) for run in cell.runs]
        done = [run.status == DONE for run in cell.runs]
        found = {axis: aggregate(tables, axis, done=done) for axis in AXES}
        curves.append({axis: curve for axis, curve in found.items() if curve is not None})
        table += [reached(cell, tables, accuracy) for accuracy in wanted]
    if accuracies is None:  # nobody asked for one that no run reached
        wanted = [each for each in wanted if any(e.reached for e in table if e.accuracy == each)] or wanted
        table = [entry for entry in table if entry.accuracy in wanted]
    rates = [_rate(cell) for cell in sweep.cells]
    shown = shown_accuracy(table) or wanted[0]
    return Study(sweep, wanted, curves, table, scaling(sweep, table), rates, memory_use(sweep.cells), shown)


def _rate(cell: Cell) -> Rate:
    summaries = [run.summary for run in cell.runs if run.summary]

    def median(name: str) -> float | None:
        values = [summary[name] for summary in summaries if summary.get(name) is not None]
        return float(np.median(values)) if values else None

    proved = bool(summaries) and all(summary.get("rate_is_proved") for summary in summaries)
    return Rate(cell, median("predicted_rate"), median("measured_rate"), proved)
