"""Static figures of publication quality, in the colours of the page."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoken.report.bands import Curves
from dtoken.report.cells import Cell, Sweep, describe, show_value
from dtoken.report.cost_figures import cost_figures
from dtoken.report.costs import COSTS, Series, fitted_accuracy
from dtoken.report.memory import MemoryUse
from dtoken.report.sheet import MOST_LABELS, Sheet, file_name, label_powers, label_values, unique
from dtoken.report.study import Rate, Study
from dtoken.session.colours import DASHES, LINES
from dtoken.session.labels import AXES, MEASURES
from dtoken.text import figure as count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCALING_COSTS = ("messages", "time")


def makers(study: Study, sheet: Sheet) -> dict[str, Callable[[], "Figure"]]:
    """What makes each figure, by its name, in the order of the page."""
    parts = (_convergence, cost_figures, _rates, _scaling, _memory)
    return {name: make for part in parts for name, make in part(study, sheet).items()}


def _convergence(study: Study, sheet: Sheet) -> dict[str, Callable[[], "Figure"]]:
    """One for each value of the parameter by which panels are told apart."""
    facet = study.sweep.facet

    def name(value: Any) -> str:
        return file_name("convergence", *((facet.name, show_value(value)) if facet else ()))

    found: dict[str, Callable[[], Figure]] = {}
    for at, value in enumerate(study.panels):
        own = name(value) if name(value) not in found else f"{name(value)}-{at}"  # only dots may tell values apart
        found[own] = partial(_panels, study, value, sheet)
    return found


def _panels(study: Study, value: Any, sheet: Sheet) -> "Figure":
    """Suboptimality against each axis: with the usual ones, the panels of the paper's figure."""
    facet, focus = study.sweep.facet, study.sweep.focus
    figure, panels = sheet.panels()
    for axes in panels.flat[len(sheet.axes) :]:
        axes.set_axis_off()
    for axes, axis in zip(panels.flat, sheet.axes, strict=False):
        log = axis in study.logarithmic
        for cell, curves in study.panels[value]:
            _curve(axes, study.sweep, cell, curves[axis], log)
        axes.set(yscale="log", xlabel=AXES[axis])
        _horizontal(axes, axis, log)
    for axes in panels[:, 0]:
        axes.set_ylabel(MEASURES["suboptimality"])
    title = ", ".join(describe(({facet.name: value} if facet else {}) | focus))
    sheet.legend(figure, *unique(panels[0, 0]), title)
    return figure


def _curve(axes: "Axes", sweep: Sweep, cell: Cell, curves: Curves, log: bool) -> None:
    (name, look), measure = sweep.drawn_as(cell), "suboptimality"
    there = curves.x > 0 if log else curves.x >= 0
    x, colour = curves.x[there], look.colour[0]
    axes.plot(x, curves.median[measure][there], ls=LINES[look.dash], color=colour, label=name)
    if len(cell.runs) > 1 or curves.estimated:
        low, high = curves.low[measure][there], curves.high[measure][there]
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def _horizontal(axes: "Axes", axis: str, log: bool) -> None:
    """The scale and the labels of an axis of costs."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if log:
        axes.set_xscale("log")
        label_powers(axes.xaxis, axes.get_xlim())
        return
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    if axis != "wall":  # matplotlib would put a power of ten where the label is
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))


def _rates(study: Study, sheet: Sheet) -> dict[str, Callable[[], "Figure"]]:
    known = [(r, r.predicted, r.measured) for r in study.rates if r.predicted and r.measured and r.measured > 0]
    return {"rates": partial(_rate_points, known, sheet)} if known else {}


def _rate_points(known: Sequence[tuple[Rate, float, float]], sheet: Sheet) -> "Figure":
    """Measured against predicted rate, with the line on which they are equal."""
    from matplotlib.lines import Line2D

    figure = sheet.figure(2.6)
    axes = figure.subplots()
    values = [value for _, *both in known for value in both]
    ends = (0.6 * min(values), 1.6 * max(values))
    axes.plot(ends, ends, color="0.5", linewidth=0.8)
    for rate, predicted, measured in known:
        colour = rate.cell.method.look.colour[0]
        axes.plot(predicted, measured, "o", ms=4, mec=colour, mfc=colour if rate.proved else "none")
    axes.set(xscale="log", yscale="log", xlabel="predicted rate per step", ylabel="measured rate per step")
    label_powers(axes.xaxis, axes.get_xlim())
    label_powers(axes.yaxis, axes.get_ylim())
    colours = {rate.cell.method.name: rate.cell.method.look.colour[0] for rate, *_ in known}
    marks = [(name, colour, colour) for name, colour in colours.items()]
    if not all(rate.proved for rate, *_ in known):
        marks += [("filled: proved", "0.4", "0.4"), ("open: not proved", "0.4", "none")]
    handles = [Line2D([], [], ls="", marker="o", ms=4, mec=edge, mfc=face) for _, edge, face in marks]
    sheet.legend(figure, handles, [name for name, *_ in marks])
    return figure


def _scaling(study: Study, sheet: Sheet) -> dict[str, Callable[[], "Figure"]]:
    """One for each numeric parameter, at the accuracy that the page shows first."""
    found: dict[str, Callable[[], Figure]] = {}
    for name in dict.fromkeys(series.parameter.name for series in study.series):
        mine = [series for series in study.series if series.parameter.name == name]
        accuracy = fitted_accuracy(mine, study.shown)
        drawn = [series for series in mine if series.accuracy == accuracy and series.slopes["messages"]]
        if drawn:
            found[file_name("scaling", name)] = partial(_power_laws, name, accuracy, drawn, sheet)
    return found


def _power_laws(name: str, accuracy: float | None, drawn: Sequence[Series], sheet: Sheet) -> "Figure":
    """Costs against a numeric parameter."""
    figure = sheet.figure(1.7)
    panels = figure.subplots(1, 2)
    for axes, cost in zip(panels, SCALING_COSTS, strict=True):
        for series in drawn:
            _power_law(axes, series, cost, [other for other in drawn if _algorithm(other) == _algorithm(series)])
        axes.set(xscale="log", yscale="log", xlabel=name, ylabel=f"{COSTS[cost]} to {accuracy:g}")
        values = [value for series in drawn for value, _ in series.points]
        label_values(axes.xaxis, values, axes.get_xlim())
        label_powers(axes.yaxis, axes.get_ylim())
    title = f"slopes of {' and '.join(COSTS[cost] for cost in SCALING_COSTS)}"
    handles, labels = panels[0].get_legend_handles_labels()
    sheet.legend(figure, handles, labels, title, most=1 if len(drawn) <= MOST_LABELS else 2)
    return figure


def _algorithm(series: Series) -> str:
    return series.first.method.algorithm


def _power_law(axes: "Axes", series: Series, cost: str, alike: Sequence[Series]) -> None:
    """Costs of a series; those of one algorithm are told apart by their lines."""
    slopes = [series.slopes[each] for each in SCALING_COSTS]
    label = f"{series.label}: " + ", ".join("–" if each is None else f"{each.value:.2f}" for each in slopes)
    line = LINES[DASHES[alike.index(series) % len(DASHES)]]
    medians = [entry.costs[cost].median for _, entry in series.points]
    colour = series.first.method.look.colour[0]
    axes.plot([x for x, _ in series.points], medians, color=colour, ls=line, marker="o", ms=2.5, label=label)


def _memory(study: Study, sheet: Sheet) -> dict[str, Callable[[], "Figure"]]:
    return {"memory": partial(_memory_use, study.memory, sheet)} if study.memory else {}


def _memory_use(memory: Sequence[MemoryUse], sheet: Sheet) -> "Figure":
    """Resident memory over time, beside the budget."""
    figure = sheet.figure(2.0)
    axes = figure.subplots()
    for use in memory:
        axes.plot(use.wall, use.resident, color=use.cell.method.look.colour[0], label=use.cell.label)
    for budget in sorted({use.budget for use in memory}):
        axes.axhline(budget, color="0.4", linestyle="--", linewidth=0.8, label=f"budget, {budget:,.0f} MB")
    axes.set(xlabel="seconds", ylabel="resident memory in MB", ylim=(0, None))
    handles, labels = unique(axes)
    sheet.legend(figure, handles, labels, most=1)
    return figure
