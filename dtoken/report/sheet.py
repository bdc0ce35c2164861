"""The sheet that figures are drawn on: its width and letters, legends and labels that fit on it."""

import math
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dtoken.report.bands import PANELS
from dtoken.text import figure as count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMN = 3.4  # inches: a column of most papers
LETTERS = 7.0  # points
WIDE = 5.0  # inches from which on all panels stand beside each other
HEIGHT, BELOW = 0.8, 0.35  # of a panel by its width, and inches for what stands below the last
MOST_LABELS = 12  # of a legend
LINE_LETTERS, LINE_HEIGHT = 56, 0.13  # of a legend in a column: what fits into the width, and inches
MOST_TICKS = 5  # with labels, of a logarithmic axis
TEX = ("pdflatex", "xelatex", "lualatex")  # what can set the letters of labels for pgf
SIZES = {"font.size": 1.0, "axes.labelsize": 1.0, "xtick.labelsize": 0.86, "ytick.labelsize": 0.86}
STYLE: Any = {
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text, which publishers ask for
    "ps.fonttype": 42,
    "pgf.rcfonts": False,  # the document's own
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": True,
}


@dataclass(frozen=True)
class Sheet:
    """What a figure is drawn on.

    Parameters
    ----------
    width
        In inches.
    letters
        Size of the letters in points.
    font
        Family of the letters; None: matplotlib's own.
    axes
        What the curves are drawn against, a panel each.
    """

    width: float = COLUMN
    letters: float = LETTERS
    font: str | None = None
    axes: tuple[str, ...] = PANELS

    @property
    def style(self) -> Any:
        """Settings of matplotlib."""
        sizes = {name: share * self.letters for name, share in (SIZES | {"legend.fontsize": 0.93}).items()}
        family = {"font.family": self.font, "mathtext.fontset": "stix"} if self.font else {}
        return STYLE | sizes | family | {"pgf.texsystem": next(filter(shutil.which, TEX), TEX[0])}

    @property
    def columns(self) -> int:
        """How many panels stand beside each other."""
        return min(len(self.axes), 2 if self.width < WIDE else 4)

    def figure(self, height: float) -> "Figure":
        """An empty figure of this height in inches."""
        from matplotlib.figure import Figure

        return Figure(figsize=(self.width, height), layout="constrained")

    def panels(self) -> tuple["Figure", Any]:
        """A figure with a panel for each axis, and the panels, which share their heights."""
        rows = math.ceil(len(self.axes) / self.columns)
        figure = self.figure(HEIGHT * self.width / self.columns * rows + BELOW * self.letters / LETTERS)
        return figure, figure.subplots(rows, self.columns, sharey=True, squeeze=False)

    def legend(
        self, figure: "Figure", handles: Sequence[Any], labels: Sequence[str], title: str = "", most: int = 4
    ) -> None:
        """A legend above the panels, in as many columns as fit; the figure grows by what it takes."""
        if not title and not 1 < len(labels) <= MOST_LABELS:
            return
        letters = int(LINE_LETTERS * self.width / COLUMN * LETTERS / self.letters)
        wrapped = [fill(label, letters) for label in labels]
        columns = min(most, len(labels), self._fitting(wrapped))
        rows = [max(label.count("\n") + 1 for label in wrapped[at::columns]) for at in range(columns)]
        lines = max(rows) * math.ceil(len(labels) / columns) + bool(title)
        figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * self.letters / LETTERS * lines)
        found = figure.legend(
            handles, wrapped, loc="outside upper center", ncols=columns, title=fill(title, letters) or None
        )
        found.get_title().set_fontsize(self.letters)
        found.get_title().set_multialignment("center")

    def _fitting(self, labels: Sequence[str]) -> int:
        """How many columns of a legend fit into the width of the figure."""
        from matplotlib import rcParams
        from matplotlib.textpath import TextPath

        size = float(rcParams["legend.fontsize"])
        parts = [line for label in labels for line in label.split("\n")]
        widest = max(float(TextPath((0, 0), part, size=size).get_extents().width) for part in parts)
        gap = rcParams["legend.columnspacing"] * size
        column = widest + (rcParams["legend.handlelength"] + rcParams["legend.handletextpad"]) * size + gap
        return max(1, int((self.width * 72 - size + gap) / column))


def file_name(*words: str) -> str:
    """A name for a file that LaTeX takes: no dots, no blanks.

    Examples
    --------
    >>> file_name("convergence", "problem.sigma", "0.001")
    'convergence-problem_sigma-0_001'
    """
    return "-".join(re.sub(r"[^A-Za-z0-9-]+", "_", word) for word in words)


def label_powers(side: "Axis", ends: tuple[float, float]) -> None:
    """Label a logarithmic axis in words: powers of ten, or what lies between where there would be less than two."""
    powers = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10), (each / 10 for each in range(10, 100))):
        places = [digit * 10.0**power for digit in digits for power in powers]
        inside = [place for place in sorted(places) if ends[0] <= place <= ends[1]]
        if len(inside) >= 2:
            break
    _label(side, inside[:: math.ceil(len(inside) / MOST_TICKS)])


def label_values(side: "Axis", values: Iterable[float], ends: tuple[float, float]) -> None:
    """Label a logarithmic axis with the values of a setting where they have room, else in words."""
    places = sorted(set(values))
    steps = [math.log(after / before) for before, after in pairwise(places)]
    if steps and len(places) <= MOST_TICKS and min(steps) * 2 * MOST_TICKS >= sum(steps):
        _label(side, places)
    else:
        label_powers(side, ends)


def _label(side: "Axis", places: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    side.set_major_locator(FixedLocator(places))
    side.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
    side.set_minor_formatter(NullFormatter())


def unique(axes: "Axes") -> tuple[list[Any], list[str]]:
    """Handles and labels of what was drawn, each label once."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    return list(unique.values()), list(unique)
