"""What the script of the page draws, as JSON values."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dtoken.engine.loop.recorder import LIVING, TEST
from dtoken.report.bands import AXES, LINEAR, PANELS, Curves
from dtoken.report.cells import describe, short, show_value, value_title
from dtoken.report.costs import COSTS, Reached, Series, Slope, Spread, fitted_accuracy
from dtoken.report.looks import value_looks
from dtoken.report.memory import MemoryUse
from dtoken.report.study import FAR_APART, Rate, Study
from dtoken.report.words import WORDS
from dtoken.session import labels
from dtoken.session.colours import DASHES

DIGITS = 4  # of a number that is drawn; more cannot be seen


def payload(study: Study, baseline: str | None = None) -> dict[str, Any]:
    """What the script of the page draws, as JSON values."""
    sweep = study.sweep
    names = [method.name for method in sweep.methods]
    return {
        "axes": {name: labels.AXES[name] for name in AXES},
        "panels": PANELS,
        "measures": {name: labels.MEASURES[name] for name in _measures(study)},
        "linear": LINEAR,
        "estimated": any(curve.estimated for curves in study.curves for curve in curves.values()),
        "costs": COSTS,
        "dashes": DASHES,
        "words": WORDS,
        "baseline": baseline or _baseline(study),
        "accuracies": study.accuracies,
        "shown": study.shown,
        "fitted": fitted_accuracy(study.series, study.shown) or study.shown,
        "logarithmic": study.logarithmic,
        "farApart": FAR_APART,
        "facet": sweep.facet.name if sweep.facet else None,
        "focus": {name: None if value is None else show_value(value) for name, value in sweep.focus.items()},
        "group": sweep.group.name if sweep.group else "method",
        "methods": [{"name": each.name, "algorithm": each.algorithm, **asdict(each.look)} for each in sweep.methods],
        "parameters": [
            {
                "name": each.name,
                "short": short(each.name),
                "values": [None if value is None else show_value(value) for value in each.values],
                "titles": [value_title(each.name, value) for value in each.values],
                "looks": [asdict(look) for look in value_looks(each.values)],
                "numeric": each.numeric,
            }
            for each in sweep.parameters
        ],
        "cells": [
            {
                "method": names.index(cell.method.name),
                "label": cell.label,
                "context": ", ".join(describe(cell.context)),
                "values": [None if value is None else show_value(value) for value in cell.values.values()],
                "runs": len(cell.runs),
                "curves": {
                    axis: _curves(curve, len(cell.runs) > 1 or curve.estimated) for axis, curve in curves.items()
                },
            }
            for cell, curves in zip(sweep.cells, study.curves, strict=True)
        ],
        "reached": [_reached(entry, sweep.cells.index(entry.cell)) for entry in study.reached if entry.runs],
        "rates": sorted(
            (_rate(rate, at) for at, rate in enumerate(study.rates) if rate.measured is not None),
            key=lambda rate: not rate["violated"],  # what needs a look comes first
        ),
        "scaling": [_series(series, names) for series in study.series],
        "memory": [_memory(use, names) for use in study.memory],
    }


def _measures(study: Study) -> list[str]:
    """What there are curves of: of held-out rows, and of tokens that are lost, only where a run has some."""
    optional = (*TEST, LIVING)
    drawn = {
        name
        for curves in study.curves
        for curve in curves.values()
        for name, median in curve.median.items()
        if name not in optional or np.isfinite(median).any()
    }
    return [name for name in labels.MEASURES if name in drawn or name not in optional]


def _baseline(study: Study) -> str | None:
    """The first method that got as far as any."""
    for accuracy in reversed(study.accuracies):
        for entry in study.reached:
            if entry.accuracy == accuracy and entry.reached:
                return entry.cell.method.name
    return next((method.name for method in study.sweep.methods), None)


def _curves(curves: Curves, repeated: bool) -> dict[str, Any]:
    """With a band over seeds, or of estimates."""
    found: dict[str, Any] = {"x": _numbers(curves.x, DIGITS + 2)}
    for measure, median in curves.median.items():
        digits = 2 * DIGITS if measure in LINEAR else DIGITS
        parts = (median, curves.low[measure], curves.high[measure]) if repeated or curves.estimated else (median,)
        found[measure] = [_numbers(part, digits) for part in parts]
    return found


def _numbers(values: Sequence[float] | np.ndarray[Any, Any], digits: int = DIGITS) -> list[float | None]:
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]


def _reached(entry: Reached, cell: int) -> dict[str, Any]:
    costs = {name: _spread(spread) for name, spread in entry.costs.items()}
    first = {name: _spread(spread)[0] for name, spread in entry.first.items()}
    found = {"cell": cell, "accuracy": entry.accuracy, "runs": entry.runs, "reached": entry.reached}
    single = {name: _numbers([run[name] for run in entry.single], 6) for name in COSTS} if entry.runs > 1 else {}
    known = [end for end in entry.short if math.isfinite(end)]
    (short,) = _numbers([float(np.median(known)) if known else math.nan])
    return found | {"costs": costs, "first": first, "single": single, "short": short}


def _spread(spread: Spread) -> list[float | None]:
    return _numbers([spread.median, spread.low, spread.high], 6)


def _rate(rate: Rate, cell: int) -> dict[str, Any]:
    predicted, measured = _numbers([rate.predicted or math.nan, math.nan if rate.measured is None else rate.measured])
    return {
        "cell": cell,
        "predicted": predicted,
        "measured": measured,
        "proved": rate.proved,
        "violated": rate.violated,
    }


def _series(series: Series, names: Sequence[str]) -> dict[str, Any]:
    return {
        "parameter": series.parameter.name,
        "short": short(series.parameter.name),
        "accuracy": series.accuracy,
        "label": series.label,
        "method": names.index(series.first.method.name),
        "x": [x for x, _ in series.points],
        "costs": {name: [_spread(entry.costs[name]) for _, entry in series.points] for name in COSTS},
        "slopes": {name: _slope(found) for name, found in series.slopes.items()},
    }


def _memory(use: MemoryUse, names: Sequence[str]) -> dict[str, Any]:
    return {
        "method": names.index(use.cell.method.name),
        "label": f"{use.cell.label}, run {use.run}",
        "budget": use.budget,
        "x": _numbers(use.wall),
        "y": _numbers(use.resident),
    }


def _slope(slope: Slope | None) -> list[float | None] | None:
    return None if slope is None else _numbers([slope.value, slope.low, slope.high])
