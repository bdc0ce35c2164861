"""Static figures of publication quality: as wide as a column of a paper, in the colours of the page."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoken.outputs import write_atomically
from dtoken.report.bands import AXES, MEASURES, PANELS
from dtoken.report.cells import Cell, describe, show_value
from dtoken.report.colours import DASHES, LINES
from dtoken.report.costs import COSTS, Series
from dtoken.report.sentences import figure as count
from dtoken.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.4  # inches
FORMATS = ("png", "pdf")
DPI = 300
SCALING_COSTS = ("messages", "time")
MOST_LABELS = 12  # of a legend
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


def draw_figures(study: Study, folder: Path) -> list[str]:
    """Write all figures as PNG and PDF; the names of the PNG files, in the order of the page."""
    from matplotlib import rc_context

    names = []
    with rc_context(STYLE):
        for name, figure in [*_convergence(study), *_rates(study), *_scaling(study), *_memory(study)]:
            for kind in FORMATS:
                write_atomically(folder / f"{name}.{kind}", partial(_save, figure, kind))
            names.append(f"{name}.png")
    return names


def _save(figure: "Figure", kind: str, path: Path) -> None:
    metadata = {"CreationDate": None} if kind == "pdf" else None  # the same figure, the same file
    figure.savefig(path, format=kind, dpi=DPI, metadata=metadata)


def _figure(height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(COLUMN, height), layout="constrained")


def _convergence(study: Study) -> Iterator[tuple[str, "Figure"]]:
    """Four panels for each value of the parameter by which panels are told apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    facet, focus = study.sweep.facet, study.sweep.focus
    for value in facet.values if facet else (None,):
        chosen = [
            (cell, curves)
            for cell, curves in zip(study.sweep.cells, study.curves, strict=True)
            if curves and cell.matches(focus | ({facet.name: value} if facet else {}))
        ]
        if not chosen:
            continue
        figure = _figure(3.3)
        panels = figure.subplots(2, 2, sharey=True)
        for axes, axis in zip(panels.flat, PANELS, strict=True):
            for cell, curves in chosen:
                _curve(axes, cell, curves[axis])
            axes.set(yscale="log", xlabel=AXES[axis])
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(3))
            if axis != "wall":  # matplotlib would put a power of ten where the label is
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
        for axes in panels[:, 0]:
            axes.set_ylabel(MEASURES["suboptimality"])
        title = ", ".join(describe(({facet.name: value} if facet else {}) | focus))
        _legend(figure, panels[0, 0], title or None)
        yield f"convergence{f'-{facet.name}-{show_value(value)}' if facet else ''}".replace("/", "-"), figure


def _curve(axes: "Axes", cell: Cell, curves: Any) -> None:
    method, measure = cell.method, "suboptimality"
    axes.plot(curves.x, curves.median[measure], ls=LINES[method.dash], color=method.colour[0], label=method.name)
    if len(cell.runs) > 1:
        low, high = curves.low[measure], curves.high[measure]
        axes.fill_between(curves.x, low, high, color=method.colour[0], alpha=0.18, linewidth=0)


def _legend(figure: "Figure", axes: "Axes", title: str | None = None) -> None:
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if 1 < len(unique) <= MOST_LABELS or title:
        figure.legend(
            unique.values(), unique.keys(), loc="outside upper center", ncols=min(4, len(unique)), title=title
        ).get_title().set_fontsize(7)


def _rates(study: Study) -> Iterator[tuple[str, "Figure"]]:
    """Measured against predicted rate, with the line on which they are equal."""
    known = [(r, r.predicted, r.measured) for r in study.rates if r.predicted and r.measured and r.measured > 0]
    if not known:
        return
    figure = _figure(2.6)
    axes = figure.subplots()
    values = [value for _, *both in known for value in both]
    ends = (0.6 * min(values), 1.6 * max(values))
    axes.plot(ends, ends, color="0.5", linewidth=0.8)
    for rate, predicted, measured in known:
        colour = rate.cell.method.colour[0]
        face = colour if rate.proved else "none"
        axes.plot(predicted, measured, "o", ms=4, mec=colour, mfc=face, label=rate.cell.method.algorithm)
    axes.set(xscale="log", yscale="log", xlabel="predicted rate per step", ylabel="measured rate per step")
    _legend(figure, axes)
    yield "rates", figure


def _scaling(study: Study) -> Iterator[tuple[str, "Figure"]]:
    """Costs against each numeric parameter, at the finest accuracy that all methods reached somewhere."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in dict.fromkeys(series.parameter.name for series in study.series):
        mine = [series for series in study.series if series.parameter.name == name]
        usable = [series for series in mine if series.slopes["messages"]]
        if not usable:
            continue
        accuracy = min(series.accuracy for series in usable)
        drawn = [series for series in usable if series.accuracy == accuracy]
        figure = _figure(1.7 + 0.11 * len(drawn))
        panels = figure.subplots(1, 2)
        for axes, cost in zip(panels, SCALING_COSTS, strict=True):
            for series in drawn:
                _power_law(axes, series, cost, [other for other in drawn if _colour(other) == _colour(series)])
            axes.set(xscale="log", yscale="log", xlabel=name, ylabel=f"{COSTS[cost]} to {accuracy:g}")
            for side in (axes.xaxis, axes.yaxis):
                first, last = side.get_view_interval()
                side.set_major_locator(LogLocator(subs=(1, 2, 5) if last < 30 * first else (1,)))
                side.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
                side.set_minor_formatter(NullFormatter())
        handles, labels = panels[0].get_legend_handles_labels()
        columns = 1 if len(labels) <= MOST_LABELS else 2
        title = f"slopes of {' and '.join(COSTS[cost] for cost in SCALING_COSTS)}"
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, title=title).get_title().set_fontsize(
            7
        )
        yield f"scaling-{name}", figure


def _colour(series: Series) -> str:
    return series.first.method.colour[0]


def _power_law(axes: "Axes", series: Series, cost: str, alike: Sequence[Series]) -> None:
    """Costs of a series; those of one colour are told apart by their lines."""
    slopes = [series.slopes[each] for each in SCALING_COSTS]
    label = f"{series.label}: " + ", ".join("–" if each is None else f"{each.value:.2f}" for each in slopes)
    line = LINES[DASHES[alike.index(series) % len(DASHES)]]
    medians = [entry.costs[cost].median for _, entry in series.points]
    axes.plot([x for x, _ in series.points], medians, color=_colour(series), ls=line, marker="o", ms=2.5, label=label)


def _memory(study: Study) -> Iterator[tuple[str, "Figure"]]:
    """Resident memory over time, beside the budget."""
    if not study.memory:
        return
    figure = _figure(2.0)
    axes = figure.subplots()
    for use in study.memory:
        axes.plot(use.wall, use.resident, color=use.cell.method.colour[0], label=use.cell.label)
    for budget in sorted({use.budget for use in study.memory}):
        axes.axhline(budget, color="0.4", linestyle="--", linewidth=0.8, label=f"budget, {budget:,.0f} MB")
    axes.set(xlabel="seconds", ylabel="resident memory in MB", ylim=(0, None))
    _legend(figure, axes)
    yield "memory", figure
