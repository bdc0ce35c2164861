"""Static figures of publication quality: as wide as a column of a paper, in the colours of the page."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dtoken.report.bands import PANELS, Curves
from dtoken.report.cells import Cell, describe, show_value
from dtoken.report.costs import COSTS, Series, fitted_accuracy
from dtoken.report.memory import MemoryUse
from dtoken.report.study import Rate, Study
from dtoken.session.colours import DASHES, LINES
from dtoken.session.labels import AXES, MEASURES
from dtoken.text import figure as count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMN = 3.4  # inches
SCALING_COSTS = ("messages", "time")
MOST_LABELS = 12  # of a legend
LINE_LETTERS, LINE_HEIGHT = 56, 0.13  # of a legend: what fits into the width, and inches
MOST_TICKS = 5  # with labels, of a logarithmic axis
STYLE: Any = {
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 6.5,
    "pdf.fonttype": 42,  # text stays text
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": True,
}


def makers(study: Study) -> dict[str, Callable[[], "Figure"]]:
    """What makes each figure, by its name, in the order of the page."""
    return {**_convergence(study), **_rates(study), **_scaling(study), **_memory(study)}


def _figure(height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(COLUMN, height), layout="constrained")


def _convergence(study: Study) -> dict[str, Callable[[], "Figure"]]:
    """One for each value of the parameter by which panels are told apart."""
    facet = study.sweep.facet

    def name(value: Any) -> str:
        return f"convergence{f'-{facet.name}-{show_value(value)}' if facet else ''}".replace("/", "-")

    return {name(value): partial(_panels, study, value) for value in study.panels}


def _panels(study: Study, value: Any) -> "Figure":
    """The four panels of the paper's figure."""
    facet, focus = study.sweep.facet, study.sweep.focus
    figure = _figure(3.0)
    panels = figure.subplots(2, 2, sharey=True)
    for axes, axis in zip(panels.flat, PANELS, strict=True):
        log = axis in study.logarithmic
        for cell, curves in study.panels[value]:
            _curve(axes, cell, curves[axis], log)
        axes.set(yscale="log", xlabel=AXES[axis])
        _horizontal(axes, axis, log)
    for axes in panels[:, 0]:
        axes.set_ylabel(MEASURES["suboptimality"])
    title = ", ".join(describe(({facet.name: value} if facet else {}) | focus))
    _legend(figure, *_unique(panels[0, 0]), title)
    return figure


def _curve(axes: "Axes", cell: Cell, curves: Curves, log: bool) -> None:
    method, measure = cell.method, "suboptimality"
    there = curves.x > 0 if log else curves.x >= 0
    x, colour = curves.x[there], method.colour[0]
    axes.plot(x, curves.median[measure][there], ls=LINES[method.dash], color=colour, label=method.name)
    if len(cell.runs) > 1:
        low, high = curves.low[measure][there], curves.high[measure][there]
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def _horizontal(axes: "Axes", axis: str, log: bool) -> None:
    """The scale and the labels of an axis of costs."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if log:
        axes.set_xscale("log")
        _label_powers(axes.xaxis, axes.get_xlim())
        return
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    if axis != "wall":  # matplotlib would put a power of ten where the label is
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))


def _label_powers(side: "Axis", ends: tuple[float, float]) -> None:
    """Label a logarithmic axis in words: powers of ten, or what lies between where there would be less than two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    powers = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10), (each / 10 for each in range(10, 100))):
        places = [digit * 10.0**power for digit in digits for power in powers]
        inside = [place for place in sorted(places) if ends[0] <= place <= ends[1]]
        if len(inside) >= 2:
            break
    side.set_major_locator(FixedLocator(inside[:: math.ceil(len(inside) / MOST_TICKS)]))
    side.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
    side.set_minor_formatter(NullFormatter())


def _unique(axes: "Axes") -> tuple[list[Any], list[str]]:
    """Handles and labels of what was drawn, each label once."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    return list(unique.values()), list(unique)


def _legend(figure: "Figure", handles: Sequence[Any], labels: Sequence[str], title: str = "", most: int = 4) -> None:
    """A legend above the panels, in as many columns as fit; the figure grows by what it takes."""
    if not title and not 1 < len(labels) <= MOST_LABELS:
        return
    wrapped = [fill(label, LINE_LETTERS) for label in labels]
    columns = min(most, len(labels), _fitting(wrapped))
    rows = [max(label.count("\n") + 1 for label in wrapped[at::columns]) for at in range(columns)]
    lines = max(rows) * math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * lines)
    found = figure.legend(
        handles, wrapped, loc="outside upper center", ncols=columns, title=fill(title, LINE_LETTERS) or None
    )
    found.get_title().set_fontsize(7)
    found.get_title().set_multialignment("center")


def _fitting(labels: Sequence[str]) -> int:
    """How many columns of a legend fit into the width of the figure."""
    from matplotlib import rcParams
    from matplotlib.textpath import TextPath

    size = float(rcParams["legend.fontsize"])
    parts = [line for label in labels for line in label.split("\n")]
    widest = max(float(TextPath((0, 0), part, size=size).get_extents().width) for part in parts)
    gap = rcParams["legend.columnspacing"] * size
    column = widest + (rcParams["legend.handlelength"] + rcParams["legend.handletextpad"]) * size + gap
    return max(1, int((COLUMN * 72 - size + gap) / column))


def _rates(study: Study) -> dict[str, Callable[[], "Figure"]]:
    known = [(r, r.predicted, r.measured) for r in study.rates if r.predicted and r.measured and r.measured > 0]
    return {"rates": partial(_rate_points, known)} if known else {}


def _rate_points(known: Sequence[tuple[Rate, float, float]]) -> "Figure":
    """Measured against predicted rate, with the line on which they are equal."""
    from matplotlib.lines import Line2D

    figure = _figure(2.6)
    axes = figure.subplots()
    values = [value for _, *both in known for value in both]
    ends = (0.6 * min(values), 1.6 * max(values))
    axes.plot(ends, ends, color="0.5", linewidth=0.8)
    for rate, predicted, measured in known:
        colour = rate.cell.method.colour[0]
        axes.plot(predicted, measured, "o", ms=4, mec=colour, mfc=colour if rate.proved else "none")
    axes.set(xscale="log", yscale="log", xlabel="predicted rate per step", ylabel="measured rate per step")
    _label_powers(axes.xaxis, axes.get_xlim())
    _label_powers(axes.yaxis, axes.get_ylim())
    colours = {rate.cell.method.algorithm: rate.cell.method.colour[0] for rate, *_ in known}
    marks = [(name, colour, colour) for name, colour in colours.items()]
    if not all(rate.proved for rate, *_ in known):
        marks += [("filled: proved", "0.4", "0.4"), ("open: not proved", "0.4", "none")]
    handles = [Line2D([], [], ls="", marker="o", ms=4, mec=edge, mfc=face) for _, edge, face in marks]
    _legend(figure, handles, [name for name, *_ in marks])
    return figure


def _scaling(study: Study) -> dict[str, Callable[[], "Figure"]]:
    """One for each numeric parameter, at the accuracy that the page shows first."""
    found: dict[str, Callable[[], Figure]] = {}
    for name in dict.fromkeys(series.parameter.name for series in study.series):
        mine = [series for series in study.series if series.parameter.name == name]
        accuracy = fitted_accuracy(mine, study.shown)
        drawn = [series for series in mine if series.accuracy == accuracy and series.slopes["messages"]]
        if drawn:
            found[f"scaling-{name}"] = partial(_power_laws, name, accuracy, drawn)
    return found


def _power_laws(name: str, accuracy: float | None, drawn: Sequence[Series]) -> "Figure":
    """Costs against a numeric parameter."""
    figure = _figure(1.7)
    panels = figure.subplots(1, 2)
    for axes, cost in zip(panels, SCALING_COSTS, strict=True):
        for series in drawn:
            _power_law(axes, series, cost, [other for other in drawn if _colour(other) == _colour(series)])
        axes.set(xscale="log", yscale="log", xlabel=name, ylabel=f"{COSTS[cost]} to {accuracy:g}")
        _label_powers(axes.xaxis, axes.get_xlim())
        _label_powers(axes.yaxis, axes.get_ylim())
    title = f"slopes of {' and '.join(COSTS[cost] for cost in SCALING_COSTS)}"
    handles, labels = panels[0].get_legend_handles_labels()
    _legend(figure, handles, labels, title, most=1 if len(drawn) <= MOST_LABELS else 2)
    return figure


def _colour(series: Series) -> str:
    return series.first.method.colour[0]


def _power_law(axes: "Axes", series: Series, cost: str, alike: Sequence[Series]) -> None:
    """Costs of a series; those of one colour are told apart by their lines."""
    slopes = [series.slopes[each] for each in SCALING_COSTS]
    label = f"{series.label}: " + ", ".join("–" if each is None else f"{each.value:.2f}" for each in slopes)
    line = LINES[DASHES[alike.index(series) % len(DASHES)]]
    medians = [entry.costs[cost].median for _, entry in series.points]
    axes.plot([x for x, _ in series.points], medians, color=_colour(series), ls=line, marker="o", ms=2.5, label=label)


def _memory(study: Study) -> dict[str, Callable[[], "Figure"]]:
    return {"memory": partial(_memory_use, study.memory)} if study.memory else {}


def _memory_use(memory: Sequence[MemoryUse]) -> "Figure":
    """Resident memory over time, beside the budget."""
    figure = _figure(2.0)
    axes = figure.subplots()
    for use in memory:
        axes.plot(use.wall, use.resident, color=use.cell.method.colour[0], label=use.cell.label)
    for budget in sorted({use.budget for use in memory}):
        axes.axhline(budget, color="0.4", linestyle="--", linewidth=0.8, label=f"budget, {budget:,.0f} MB")
    axes.set(xlabel="seconds", ylabel="resident memory in MB", ylim=(0, None))
    handles, labels = _unique(axes)
    _legend(figure, handles, labels, most=1)
    return figure
