"""Static figures of costs: a map over two numbers that were swept, and boxes over seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dtoken.report.cells import Parameter, describe, short, show_value
from dtoken.report.costs import COSTS, Reached
from dtoken.report.sheet import Sheet, file_name, label_powers
from dtoken.report.study import FAR_APART, Study
from dtoken.text import figure as count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BOXES, MOST_MAPS = 40, 8
BOX, BESIDE = 0.17, 0.55  # inches that a box takes, and what is above and below all of them
PALE = 0.55  # share of the scale from which on letters are dark
Rests = Mapping[str, Sequence[Reached]]  # by what all other settings are
Makers = dict[str, Callable[[], "Figure"]]


def cost_figures(study: Study, sheet: Sheet) -> Makers:
    """What makes each of them, by its name: those that the page has, at the accuracy that it shows first."""
    cost = next((axis for axis in sheet.axes if axis in COSTS), "messages")
    entries = [entry for entry in study.reached if entry.accuracy == study.shown]
    return {**_boxes(entries, cost, sheet), **_maps(study, entries, cost, sheet)}


def _title(cost: str, entries: Sequence[Reached]) -> str:
    return f"{COSTS[cost]} to {entries[0].accuracy:g}"


def _boxes(entries: Sequence[Reached], cost: str, sheet: Sheet) -> Makers:
    known = [entry for entry in entries if entry.runs > 1 and entry.single][:MOST_BOXES]
    return {"spread": partial(_spread, known, cost, sheet)} if known else {}


def _spread(entries: Sequence[Reached], cost: str, sheet: Sheet) -> "Figure":
    """A box for each setting, from quartile to quartile, and a point for each run that got there."""
    figure = sheet.figure((BOX * len(entries) + BESIDE) * sheet.letters / 7)
    axes = figure.subplots()
    values = [[run[cost] for run in entry.single] for entry in entries]
    for at, (entry, mine) in enumerate(zip(entries, values, strict=True)):
        colour: Any = entry.cell.method.look.colour[0]
        line = {"color": colour, "linewidth": 0.8}
        parts: Any = {f"{part}props": line for part in ("box", "median", "whisker", "cap")}
        axes.boxplot([mine], positions=[at], orientation="horizontal", widths=0.6, showfliers=False, **parts)
        axes.plot(mine, [at] * len(mine), "o", ms=2, color=colour)
    axes.set_yticks(range(len(entries)), [_counted(entry) for entry in entries])
    axes.invert_yaxis()
    axes.set_xlabel(_title(cost, entries))
    every = [value for mine in values for value in mine]
    if min(every) > 0 and max(every) > FAR_APART * min(every):
        axes.set_xscale("log")
        label_powers(axes.xaxis, axes.get_xlim())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: count(value))
    return figure


def _counted(entry: Reached) -> str:
    missed = f" ({entry.reached} of {entry.runs})" if entry.reached < entry.runs else ""
    return entry.cell.label + missed


def _maps(study: Study, entries: Sequence[Reached], cost: str, sheet: Sheet) -> Makers:
    numbers = [each for each in study.sweep.parameters if each.numeric and len(each.values) > 1]
    if len(numbers) < 2 or not any(entry.reached for entry in entries):
        return {}
    x, y = numbers[:2]
    rests: dict[str, list[Reached]] = {}
    for entry in entries:
        rests.setdefault(_rest(entry.cell.values, (x.name, y.name)), []).append(entry)
    shown = dict(list(rests.items())[:MOST_MAPS])
    return {file_name("map", x.name, y.name): partial(_map_panels, shown, x, y, cost, sheet)}


def _rest(values: Mapping[str, Any], but: Sequence[str]) -> str:
    kept = {name: value for name, value in values.items() if name not in but and value is not None}
    algorithm = [str(kept.pop("algorithm"))] if "algorithm" in kept else []
    return ", ".join([*algorithm, *describe(kept)])


def _map_panels(
    rests: Mapping[str, Sequence[Reached]], x: Parameter, y: Parameter, cost: str, sheet: Sheet
) -> "Figure":
    """Medians over both numbers, a panel for each combination of all other settings, in one scale of colours."""
    columns = min(len(rests), 2 if sheet.width < 5 else 4)
    rows = math.ceil(len(rests) / columns)
    figure = sheet.figure(0.8 * sheet.width / columns * rows)
    panels = figure.subplots(rows, columns, squeeze=False)
    grids = {rest: _grid(entries, x, y, cost) for rest, entries in rests.items()}
    finite = [value for grid in grids.values() for value in grid.flat if math.isfinite(value)]
    ends = (min(finite), max(finite)) if finite else (0.0, 1.0)
    for axes in panels.flat[len(rests) :]:
        axes.set_axis_off()
    for axes, (rest, grid) in zip(panels.flat, grids.items(), strict=False):
        _map(axes, grid, ends)
        axes.set_title(rest, fontsize=sheet.letters)
        axes.set_xticks(range(len(x.given)), [show_value(value) for value in x.given])
        axes.set_yticks(range(len(y.given)), [show_value(value) for value in y.given])
        axes.set(xlabel=short(x.name), ylabel=short(y.name))
    figure.suptitle(_title(cost, next(iter(rests.values()))), fontsize=sheet.letters)
    return figure


def _grid(entries: Sequence[Reached], x: Parameter, y: Parameter, cost: str) -> Any:
    """Logarithms of medians, (values of y, values of x); NaN: not run, infinite: most runs did not get there."""
    grid = np.full((len(y.given), len(x.given)), np.nan)
    for entry in entries:
        one, other = entry.cell.values.get(x.name), entry.cell.values.get(y.name)
        if one in x.given and other in y.given:
            median = entry.costs[cost].median
            grid[y.given.index(other), x.given.index(one)] = math.log10(median) if median > 0 else -math.inf
    return grid


def _map(axes: "Axes", grid: Any, ends: tuple[float, float]) -> None:
    axes.imshow(np.where(np.isfinite(grid), grid, np.nan), cmap="viridis", vmin=ends[0], vmax=ends[1], aspect="auto")
    axes.invert_yaxis()
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(grid):
        dark = not math.isfinite(value) or value > ends[0] + PALE * (ends[1] - ends[0])
        text = "" if math.isnan(value) else count(10**value) if math.isfinite(value) else "–"
        axes.text(column, row, text, ha="center", va="center", color="black" if dark else "white")
