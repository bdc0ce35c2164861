"""Output for a paper: figures at a given width in a given font, and the table of costs for LaTeX and as CSV."""

import csv
import io
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dtoken.errors import InputError
from dtoken.report.bands import AXES
from dtoken.report.cells import short, show_value
from dtoken.report.costs import COSTS, Reached, Spread
from dtoken.report.sheet import TEX, Sheet
from dtoken.report.tex import escaped
from dtoken.session.files import write_file
from dtoken.text import use_one_of

if TYPE_CHECKING:
    from dtoken.report.study import Study

FOLDER = "paper"
FORMATS = ("pdf", "pgf", "png", "svg", "eps")
WIDTHS = (1.0, 20.0)  # inches
LETTERS = (4.0, 24.0)  # points
LARGE = 1e5  # from here on a power of ten is written


@dataclass(frozen=True)
class Paper:
    """What a paper asks of its figures.

    Parameters
    ----------
    sheet
        Width, letters, font, and what the curves are drawn against.
    formats
        Kinds of files: ``pdf``, ``pgf``, ``png``, ``svg`` or ``eps``.
    """

    sheet: Sheet = field(default_factory=Sheet)
    formats: tuple[str, ...] = ("pdf",)

    def __post_init__(self) -> None:
        for name, known, chosen in (("axes", AXES, self.sheet.axes), ("format", FORMATS, self.formats)):
            for each in chosen:
                if each not in known:
                    raise InputError(f"--{name} {each} is not known; {use_one_of(each, known)}")
            if len(set(chosen)) != len(chosen) or not chosen:
                raise InputError(f"--{name} {' '.join(chosen)} must name each only once, and at least one")
        for name, value, (low, high), unit in (
            ("width", self.sheet.width, WIDTHS, "inches"),
            ("font-size", self.sheet.letters, LETTERS, "points"),
        ):
            if not low <= value <= high:
                raise InputError(f"--{name} {value:g} must be from {low:g} to {high:g} {unit}")
        if "pgf" in self.formats and not any(map(shutil.which, TEX)):
            raise InputError(f"--format pgf needs {' or '.join(TEX)}, which is not here; use --format pdf")
        _check_font(self.sheet.font)


def _check_font(family: str | None) -> None:
    from matplotlib.font_manager import FontProperties, findfont

    try:
        findfont(FontProperties(family=family), fallback_to_default=family is None)
    except ValueError:
        raise InputError(f"--font {family} is not installed; use for instance serif, sans-serif or monospace") from None


def write_tables(study: "Study", folder: Path, costs: Sequence[str]) -> None:
    """Write ``costs.tex`` and ``costs.csv``: medians over seeds with their 10 % and 90 % quantiles."""
    known = [cost for cost in COSTS if cost in costs]
    table, text = _csv(study, known).encode(), latex(study, known).encode()
    write_file(folder / "costs.tex", lambda file: file.write(text), durable=False)
    write_file(folder / "costs.csv", lambda file: file.write(table), durable=False)


def _csv(study: "Study", costs: Sequence[str]) -> str:
    names, stream = [parameter.name for parameter in study.sweep.context], io.StringIO(newline="")
    rows = csv.writer(stream)
    spreads = [f"{cost}{part}" for cost in costs for part in ("", "_low", "_high")]
    rows.writerow(["method", *names, "accuracy", "runs", "reached", *spreads])
    for entry in study.reached:
        values = ["" if value is None else show_value(value) for value in entry.cell.context.values()]
        found = [entry.costs[cost] for cost in costs]
        numbers = [number for each in found for number in (each.median, each.low, each.high)]
        written = [repr(number) if math.isfinite(number) else "" for number in numbers]
        rows.writerow([entry.cell.method.name, *values, repr(entry.accuracy), entry.runs, entry.reached, *written])
    return stream.getvalue()


def latex(study: "Study", costs: Sequence[str]) -> str:
    """The table of costs for LaTeX with booktabs; of several runs the quantiles stand at the median."""
    names = [short(parameter.name) for parameter in study.sweep.context]
    columns = f"{'l' * (1 + len(names))}{'r' * (1 + len(costs))}"
    head = ["method", *names, "runs", *(COSTS[cost] for cost in costs)]
    lines = [
        "% Costs until the suboptimality stays at or below an accuracy; needs \\usepackage{booktabs}.",
        "% Medians over seeds, below and above them the 10 % and 90 % quantiles; runs: how many got there.",
        "\\begingroup\\renewcommand{\\arraystretch}{1.3}% room for the quantiles",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        f"{' & '.join(map(escaped, head))} \\\\",
    ]
    for accuracy in study.accuracies:
        lines += ["\\midrule", f"\\multicolumn{{{len(columns)}}}{{l}}{{to ${_power(accuracy)}$}} \\\\"]
        lines += [_line(entry, costs) for entry in study.reached if entry.accuracy == accuracy and entry.runs]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\endgroup", ""])


def _line(entry: Reached, costs: Sequence[str]) -> str:
    values = ["--" if value is None else escaped(show_value(value)) for value in entry.cell.context.values()]
    counts = f"{entry.reached} of {entry.runs}"
    cells = [escaped(entry.cell.method.name), *values, counts]
    return " & ".join([*cells, *(_amount(entry.costs[cost], entry.runs) for cost in costs)]) + " \\\\"


def _amount(spread: Spread, runs: int) -> str:
    """A median with its quantiles, all by the same power of ten.

    Examples
    --------
    >>> _amount(Spread(1577.0, 1500.0, math.inf), 3)
    '$1{,}577_{1{,}500}^{\\\\infty}$'
    >>> _amount(Spread(1_580_000.0, 1_500_000.0, 1_600_000.0), 1)
    '$1.58 \\\\cdot 10^{6}$'
    """
    if not math.isfinite(spread.median):
        return "--"
    exponent = math.floor(math.log10(spread.median)) if spread.median >= LARGE else 0
    median, low, high = (_number(value / 10**exponent) for value in (spread.median, spread.low, spread.high))
    quantiles = f"_{{{low}}}^{{{high}}}" if runs > 1 and {low, high} != {median} else ""
    power = f" \\cdot 10^{{{exponent}}}" if exponent else ""
    return f"${median}{quantiles}{power}$"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "\\infty"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return text.replace(",", "{,}")


def _power(value: float) -> str:
    """A number as a power of ten.

    Examples
    --------
    >>> _power(1e-6), _power(3e-4)
    ('10^{-6}', '3 \\\\cdot 10^{-4}')
    """
    digits, _, exponent = f"{value:.3e}".partition("e")
    leading = "" if float(digits) == 1 else f"{float(digits):g} \\cdot "
    return f"{leading}10^{{{int(exponent)}}}"
