"""What it took to reach an accuracy, over seeds, and how that grows with a parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dtoken.config.sections import asked_accuracies
from dtoken.engine.loop.accuracy import crossing
from dtoken.engine.loop.settings import Recording
from dtoken.errors import InputError
from dtoken.report.bands import HIGH, LOW
from dtoken.report.cells import Cell, Parameter, Sweep, describe
from dtoken.session.files import DIVERGED, DONE, FAILED, INTERRUPTED
from dtoken.session.labels import HEADINGS

if TYPE_CHECKING:
    import pandas as pd

COSTS = {name: HEADINGS[name] for name in ("jumps", "messages", "gradients", "time")} | {"wall": "wall (s)"}
ENDED = (DONE, DIVERGED, FAILED, INTERRUPTED)
SCALING_VALUES = 3  # values of a parameter from which a slope says something
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """A cost over seeds; infinite where that many runs did not get there."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Reached:
    """What the runs of a cell needed for one accuracy."""

    cell: Cell
    accuracy: float
    runs: int  # that ended, or got there
    reached: int  # that stay below it
    single: tuple[Mapping[str, float], ...]  # costs of each run that stays below it
    short: tuple[float, ...]  # where the runs ended that did not get there: suboptimality, NaN if nothing was measured
    costs: Mapping[str, Spread]
    first: Mapping[str, Spread]  # costs of the first record at or below it


@dataclass(frozen=True)
class Slope:
    """Exponent of a power law, with the interval that holds it with a confidence of 95 %."""

    value: float
    low: float
    high: float


def costs_to(table: "pd.DataFrame", accuracy: float) -> dict[str, dict[str, float] | None]:
    """Costs until ``accuracy`` was ``reached``, and until the run ``stays_below`` it; None: never."""
    gaps = table["suboptimality"].to_numpy()
    best = float(table["objective"].iloc[0] - gaps[0]) if len(gaps) else 0.0
    where = crossing(gaps, accuracy, best)._asdict()
    return {
        name: None if at is None else {cost: float(table[cost].iloc[at]) for cost in COSTS}
        for name, at in where.items()
    }


def reached(cell: Cell, tables: Sequence["pd.DataFrame"], accuracy: float) -> Reached:
    """Costs of a cell; a run that ended without getting there counts as infinitely expensive."""
    found = [costs_to(table, accuracy) for table in tables]
    single, costs, runs = _spreads(cell, [each["stays_below"] for each in found])
    _, first, _ = _spreads(cell, [each["reached"] for each in found])
    short = tuple(
        float(table["suboptimality"].iloc[-1]) if len(table) else np.nan
        for run, table, each in zip(cell.runs, tables, found, strict=True)
        if each["stays_below"] is None and run.status in ENDED
    )
    return Reached(cell, accuracy, runs, len(single), single, short, costs, first)


def _spreads(
    cell: Cell, found: Sequence[Mapping[str, float] | None]
) -> tuple[tuple[Mapping[str, float], ...], dict[str, Spread], int]:
    """Costs of the runs that got there, their spreads, and how many runs these are of."""
    single = tuple(costs for costs in found if costs is not None)
    missing = sum(
        costs is None and run.status in ENDED for run, costs in zip(cell.runs, found, strict=True)
    )  # a run under way may still get there
    spreads = {name: spread([costs[name] for costs in single] + [np.inf] * missing) for name in COSTS}
    return single, spreads, len(single) + missing


def spread(values: Sequence[float]) -> Spread:
    """Median and quantiles; all are values that occurred (of two in the middle the larger one is the median).

    So infinite values do no harm.

    Examples
    --------
    >>> spread([3.0, 1.0, np.inf])
    Spread(median=3.0, low=1.0, high=inf)
    >>> spread([228.0, 229.0]).median
    229.0
    """
    if not values:
        return Spread(np.inf, np.inf, np.inf)
    low, high = np.quantile(values, (LOW, HIGH), method="inverted_cdf")
    return Spread(float(np.quantile(values, 0.5, method="higher")), float(low), float(high))


def accuracies_of(sweep: Sweep, asked: Sequence[float] | None) -> list[float]:
    """The accuracies asked for, or those that the runs recorded and were to stop at, coarse ones first.

    Where all runs were to stop at one, none that is finer: that some dipped below it by chance says nothing of others.
    """
    for accuracy in asked or ():
        if not 0 < accuracy < np.inf:
            raise InputError(f"accuracy {accuracy:g} is not a positive number; give for instance 1e-4")
    own = [
        asked_accuracies(run.config.get("record.accuracies") or (), run.config.get("stop.suboptimality"))
        for run in sweep.runs
    ]
    finest = min((float(run.config.get("stop.suboptimality") or 0.0) for run in sweep.runs), default=0.0)
    recorded = [each for accuracies in own for each in accuracies if each >= finest]
    return sorted({float(each) for each in asked or recorded or Recording().accuracies}, reverse=True)


def shown_accuracy(table: Sequence[Reached]) -> float | None:
    """Which accuracy to look at first: the finest that half of the cells reached, else that any run reached.

    Where no run reached any, the coarsest; None: there is none. A cell reached what most of its runs did.
    """
    known = [entry for entry in table if entry.runs]
    accuracies = sorted({entry.accuracy for entry in known or table})
    for accuracy in accuracies:
        mine = [entry for entry in known if entry.accuracy == accuracy]
        if 2 * sum(np.isfinite(entry.costs["jumps"].median) for entry in mine) >= len(mine) > 0:
            return accuracy
    some = [accuracy for accuracy in accuracies if any(e.reached for e in known if e.accuracy == accuracy)]
    return min(some) if some else max(accuracies, default=None)


def slope(x: Sequence[float], y: Sequence[float]) -> Slope | None:
    """Slope of log y over log x by least squares, with its interval; None: too few points.

    Examples
    --------
    >>> round(slope([1, 10, 100], [2, 200, 20000]).value, 6)
    2.0
    """
    from scipy.stats import linregress, t

    if len(set(x)) < SCALING_VALUES:
        return None
    fit = linregress(np.log(x), np.log(y))
    half = float(t.ppf(0.5 + CONFIDENCE / 2, len(x) - 2)) * float(fit.stderr)
    return Slope(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


@dataclass(frozen=True)
class Series:
    """How the costs of a method grow with one parameter, all others fixed."""

    parameter: Parameter
    accuracy: float
    label: str
    first: Cell  # for colour and line
    points: tuple[tuple[float, Reached], ...]
    slopes: Mapping[str, Slope | None]


def scaling_parameters(sweep: Sweep) -> list[Parameter]:
    """Parameters with enough positive numbers for a slope."""
    return [
        each
        for each in sweep.parameters
        if each.numeric and len(each.given) >= SCALING_VALUES and all(value > 0 for value in each.given)
    ]


def scaling(sweep: Sweep, table: Sequence[Reached]) -> list[Series]:
    """All series of the sweep: for each numeric parameter, accuracy and combination of the others."""
    found = []
    for parameter in scaling_parameters(sweep):
        groups: dict[tuple[Any, ...], list[Reached]] = {}
        for entry in table:
            values = entry.cell.values
            if values[parameter.name] is not None:
                others = tuple(value for name, value in values.items() if name != parameter.name)
                groups.setdefault((entry.accuracy, *others), []).append(entry)
        found += [_series(parameter, entries) for entries in groups.values() if len(entries) >= SCALING_VALUES]
    return found


def fitted_accuracy(series: Sequence[Series], shown: float) -> float | None:
    """At which accuracy to look at slopes first: the one that is shown, or the next coarser (finer) that has some."""
    fitted = sorted({each.accuracy for each in series if each.slopes["messages"]})
    return next((each for each in fitted if each >= shown), max(fitted, default=None))


def _series(parameter: Parameter, entries: Sequence[Reached]) -> Series:
    ordered = sorted(entries, key=lambda entry: float(entry.cell.values[parameter.name]))
    first = ordered[0].cell
    points = tuple((float(entry.cell.values[parameter.name]), entry) for entry in ordered)
    slopes: dict[str, Slope | None] = {}
    for name in COSTS:
        # where more than half of the runs did not get there, those that did are no fair sample
        fair = [(x, entry) for x, entry in points if np.isfinite(entry.costs[name].median)]
        pairs = [(x, costs[name]) for x, entry in fair for costs in entry.single if costs[name] > 0]
        slopes[name] = slope(*zip(*pairs, strict=True)) if pairs else None
    return Series(parameter, ordered[0].accuracy, _label(first, parameter), first, points, slopes)


def _label(cell: Cell, parameter: Parameter) -> str:
    """The cell without the parameter that is drawn."""
    rest = {name: value for name, value in cell.values.items() if name not in ("algorithm", parameter.name)}
    return ", ".join([cell.method.algorithm, *describe(rest)])
