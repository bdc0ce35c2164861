"""Curves over seeds: median and quantiles at common points, and only as many points as the eye can see."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dtoken.engine.loop.recorder import ERROR, LIVING, TEST
from dtoken.session.labels import MEASURES

if TYPE_CHECKING:
    import pandas as pd

Vector = NDArray[np.float64]

AXES = ("messages", "jumps", "gradients", "time", "wall")  # columns that curves are drawn against
PANELS = ("messages", "gradients", "time", "wall")  # those of the paper's figure, and wall time
LINEAR = ("objective", *TEST, LIVING)  # averaged and drawn as they are, not by their logarithm
LOW, HIGH = 0.1, 0.9  # quantiles of the band
POINTS = 80  # per curve
ERRORS = 2  # standard errors of estimates on either side
LEAST = 0.01  # share of an estimate to which its band goes down where the error is as large as it is


@dataclass(frozen=True)
class Curves:
    """What the runs of a cell have in common, against one axis."""

    x: Vector
    median: dict[str, Vector]  # by measure; NaN where there is nothing to say
    low: dict[str, Vector]
    high: dict[str, Vector]
    estimated: bool = False  # records are estimates: bands contain their standard errors


def aggregate(
    tables: Sequence["pd.DataFrame"], axis: str, points: int = POINTS, done: Sequence[bool] = ()
) -> Curves | None:
    """Median and quantiles of all measures over runs, against ``axis``, as far as half of the runs got.

    Between record points, measures are interpolated (their logarithms, but for some: ``LINEAR``). At each point the
    runs count that got so far, and those that were done before: they stay at their last value, else only slow runs
    would be left. Where records are estimates, bands contain two standard errors on either side.

    Parameters
    ----------
    tables
        Trajectories of runs that differ only in seeds.
    axis
        A column that never falls.
    points
        At how many points at most.
    done
        Which runs came to their end; none, if it is empty.
    """
    held = [stays for table, stays in zip(tables, done or [False] * len(tables), strict=True) if len(table) > 1]
    tables = [table for table in tables if len(table) > 1]
    if not tables:
        return None
    ends = [float(table[axis].iloc[-1]) for table in tables]
    guide = int(np.argsort(ends)[::-1][math.ceil(len(ends) / 2) - 1])  # the last run of the longer half
    x = thin(tables[guide], axis, points)
    median, low, high = {}, {}, {}
    for measure in (name for name in MEASURES if all(name in table for table in tables)):
        pairs = zip(tables, held, strict=True)
        values = np.array([at_points(table, axis, measure, x, stays) for table, stays in pairs])
        quantiles = _quantiles(values)
        low[measure], median[measure], high[measure] = quantiles if measure in LINEAR else 10**quantiles
    estimated = all(ERROR in table for table in tables) and any(table[ERROR].gt(0).any() for table in tables)
    for measure in ("suboptimality", "objective") if estimated else ():
        for bound, side, which in ((low, -ERRORS, 0), (high, ERRORS, 2)):
            moved = [table.assign(**{measure: _moved(table, measure, side)}) for table in tables]
            values = np.array(
                [at_points(each, axis, measure, x, stays) for each, stays in zip(moved, held, strict=True)]
            )
            quantile = _quantiles(values)[which]
            bound[measure] = quantile if measure in LINEAR else 10**quantile
    return Curves(x, median, low, high, estimated)


def _moved(table: "pd.DataFrame", measure: str, side: int) -> "pd.Series[float]":
    """A measure so many standard errors off; what is drawn by its logarithm stays above a small share of itself."""
    found = table[measure] + side * table[ERROR]
    return found if measure in LINEAR else found.clip(lower=LEAST * table[measure])


def _quantiles(values: Vector) -> Vector:
    """(3, points) low quantile, median and high quantile of (runs, points), over the runs that are there."""
    there = np.isfinite(values)
    complete, some = there.all(axis=0), there.any(axis=0)
    found = np.full((3, values.shape[1]), np.nan)
    found[:, complete] = np.quantile(values[:, complete], (LOW, 0.5, HIGH), axis=0)
    partial = some & ~complete  # few; ten times slower
    if partial.any():
        found[:, partial] = np.nanquantile(values[:, partial], (LOW, 0.5, HIGH), axis=0)
    return found


def at_points(table: "pd.DataFrame", axis: str, measure: str, x: Vector, stays: bool = False) -> Vector:
    """A measure of one run (its decimal logarithm, unless it is ``LINEAR``) at the points ``x``.

    Outside it is NaN, or if it ``stays``, beyond its end its last value.
    """
    at, values = table[axis].to_numpy(np.float64), table[measure].to_numpy(np.float64)
    end, last = at[-1], np.append(at[1:] != at[:-1], True)  # of several records at one place, the latest
    at, values = at[last], values[last]
    if measure not in LINEAR:
        positive = values > 0  # rounding may put the end below the optimum
        at, values = at[positive], np.log10(values[positive])
    if not len(at):
        return np.full(len(x), np.nan)
    found = np.asarray(np.interp(x, at, values, left=np.nan, right=np.nan))
    return np.where(x > end, values[-1], found) if stays else found


def thin(table: "pd.DataFrame", axis: str, points: int) -> Vector:
    """Those values of ``axis`` at which a drawn curve needs a point, on linear and on logarithmic scales."""
    x = np.unique(table[axis].to_numpy(np.float64))
    if len(x) <= points:
        return x
    y = at_points(table, axis, "suboptimality", x)
    y = np.interp(x, x[np.isfinite(y)], y[np.isfinite(y)]) if np.isfinite(y).any() else np.zeros(len(x))
    lengths = sum(_shares(values) for values in (x, np.log(np.maximum(x, x[1])), y))
    reached = np.concatenate([[0.0], np.cumsum(lengths)])
    wanted = np.linspace(0.0, reached[-1], points)
    chosen: Vector = x[np.unique(np.searchsorted(reached, wanted).clip(0, len(x) - 1))]
    return chosen


def _shares(values: Vector) -> Vector:
    """The way from each value to the next, as a share of the whole way."""
    way = np.abs(np.diff(values))
    return way / max(float(way.sum()), np.finfo(np.float64).tiny)
