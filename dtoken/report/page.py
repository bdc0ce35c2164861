"""The page: one HTML file that holds its data, style, script and plotly.js, so that it opens without a network."""

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from dtoken.engine.loop.recorder import TEST
from dtoken.report import facts, sentences
from dtoken.report.bands import AXES, LINEAR, PANELS, Curves
from dtoken.report.cells import describe, short, show_value
from dtoken.report.costs import COSTS, Reached, Series, Slope, Spread, fitted_accuracy
from dtoken.report.memory import MemoryUse
from dtoken.report.study import Rate, Study
from dtoken.report.words import CONSTANTS, GENERAL, WORDS
from dtoken.session import labels
from dtoken.session.colours import DASHES, ORDERED, PALETTE
from dtoken.session.provenance import now
from dtoken.version import __version__

DIGITS = 4  # of a number that is drawn; more cannot be seen
COMPRESSION = 6
SCRIPTS = (
    "elements", "numbers", "colours", "plots", "filters", "panels", "legend", "tables", "cost", "rates", "scaling",
    "memory", "choices", "page",
)  # one script in the page; only the last one runs anything  # fmt: skip


def page(
    study: Study, title: str, baseline: str | None, pictures: Sequence[str], claims: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    study
        What to show.
    title
        Name of the sweep.
    baseline
        Name of the method with which costs are compared at first; None: the first one.
    pictures
        Paths of the static figures, relative to the page.
    claims
        Sentences that were checked on the results, as ``facts.claims`` reads them.
    """
    from jinja2 import Environment, PackageLoader

    sweep = study.sweep
    templates = Environment(loader=PackageLoader("dtoken.report", "template"), autoescape=True)
    names, constants = facts.constants(sweep)
    return templates.get_template("page.html").render(
        title=title,
        version=__version__,
        made=now(),
        lead=sentences.lead(sweep),
        outcome=sentences.outcome(sweep) if sweep.runs else "",
        findings=sentences.findings(sweep, study.reached),
        unfinished=facts.unfinished(sweep),
        failures=facts.failures(sweep),
        repeated=any(len(cell.runs) > 1 for cell in sweep.cells),
        intervals=sentences.intervals(sweep),
        conditions=sentences.conditions(sweep),
        has_curves=any(study.curves),
        has_rates=any(rate.measured is not None for rate in study.rates),
        violations=[rate.cell.label for rate in study.rates if rate.violated],
        proved=sum(rate.proved and rate.measured is not None for rate in study.rates),
        has_scaling=bool(study.series),
        has_memory=bool(study.memory),
        graphs=facts.graphs(sweep),
        partitions=facts.partitions(sweep),
        constant_names=names,
        words=GENERAL | {name: text for name, text in CONSTANTS.items() if name in names},
        meaning=CONSTANTS,
        constants=constants,
        settings=facts.common_settings(sweep),
        provenance=facts.provenance(sweep),
        pictures=pictures,
        claims=claims,
        runs=len(sweep.runs),
        style=_text("page.css"),
        theme=_text("theme.js"),
        script="\n".join(_text(f"script/{name}.js") for name in SCRIPTS),
        data=_packed(json.dumps(payload(study, baseline), separators=(",", ":"), allow_nan=False)),
        plotly=_plotly(),
    )


def _text(name: str) -> str:
    return (files("dtoken.report") / "template" / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Text compressed, in letters; the browser unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), COMPRESSION, mtime=0)).decode()


@cache
def _plotly() -> str:
    """plotly.js, packed: a third of its size."""
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())


def payload(study: Study, baseline: str | None = None) -> dict[str, Any]:
    """What the script of the page draws, as JSON values."""
    sweep = study.sweep
    names = [method.name for method in sweep.methods]
    return {
        "axes": {name: labels.AXES[name] for name in AXES},
        "panels": PANELS,
        "measures": {name: labels.MEASURES[name] for name in _measures(study)},
        "linear": LINEAR,
        "costs": COSTS,
        "palette": PALETTE,
        "ordered": ORDERED,
        "dashes": DASHES,
        "words": WORDS,
        "baseline": baseline or _baseline(study),
        "accuracies": study.accuracies,
        "shown": study.shown,
        "fitted": fitted_accuracy(study.series, study.shown) or study.shown,
        "logarithmic": study.logarithmic,
        "facet": sweep.facet.name if sweep.facet else None,
        "focus": {name: None if value is None else show_value(value) for name, value in sweep.focus.items()},
        "methods": [{"name": each.name, "colour": each.colour, "dash": each.dash} for each in sweep.methods],
        "parameters": [
            {
                "name": each.name,
                "short": short(each.name),
                "values": [None if value is None else show_value(value) for value in each.values],
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
                "curves": {axis: _curves(curve, len(cell.runs) > 1) for axis, curve in curves.items()},
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
    """What there are curves of: those of held-out rows only where a run has some."""
    drawn = {
        name
        for curves in study.curves
        for curve in curves.values()
        for name, median in curve.median.items()
        if name not in TEST or np.isfinite(median).any()
    }
    return [name for name in labels.MEASURES if name in drawn or name not in TEST]


def _baseline(study: Study) -> str | None:
    """The first method that got as far as any."""
    for accuracy in reversed(study.accuracies):
        for entry in study.reached:
            if entry.accuracy == accuracy and entry.reached:
                return entry.cell.method.name
    return next((method.name for method in study.sweep.methods), None)


def _curves(curves: Curves, band: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"x": _numbers(curves.x, DIGITS + 2)}
    for measure, median in curves.median.items():
        digits = 2 * DIGITS if measure in LINEAR else DIGITS
        parts = (median, curves.low[measure], curves.high[measure]) if band else (median,)
        found[measure] = [_numbers(part, digits) for part in parts]
    return found


def _numbers(values: Sequence[float] | np.ndarray[Any, Any], digits: int = DIGITS) -> list[float | None]:
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]


def _reached(entry: Reached, cell: int) -> dict[str, Any]:
    costs = {name: _spread(spread) for name, spread in entry.costs.items()}
    first = {name: _spread(spread)[0] for name, spread in entry.first.items()}
    found = {"cell": cell, "accuracy": entry.accuracy, "runs": entry.runs, "reached": entry.reached}
    return found | {"costs": costs, "first": first}


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
