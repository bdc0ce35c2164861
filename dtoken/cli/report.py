"""``dtoken-report``: one page about all runs of a sweep."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtoken.cli.terminal import add_version, run_command
from dtoken.errors import InputError

if TYPE_CHECKING:
    from dtoken.report.paper import Paper

UNITS = {"in": 1.0, "cm": 2.54, "mm": 25.4, "pt": 72.27}  # of an inch, as TeX has them
EPILOG = """\
The last line printed is the path of the page. It holds everything it needs and opens without a network; figures
as PNG and PDF lie beside it, and results.parquet and results.csv have all runs in one table.

  dtoken-report multirun/2026-11-16/10-12-03
  dtoken-report multirun/tokens multirun/baselines --output comparison --baseline gd --accuracies 1e-4 1e-8
  dtoken-report multirun/tokens --paper --width 86mm --font serif --font-size 8 --axes messages gradients
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``dtoken-report``."""
    options = _parser().parse_args(arguments)
    return run_command(lambda: _report(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dtoken-report",
        description="Collect the runs of sweeps and write one page about them, also while they are under way.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_version(parser)
    add = parser.add_argument
    add("directories", nargs="+", metavar="DIR", type=Path, help="directory of a sweep or of a run")
    add("--output", type=Path, metavar="FOLDER", help="where to write the report (default: DIR/report)")
    add("--baseline", metavar="METHOD", help="method with which costs are compared (default: the first)")
    add(
        "--accuracies",
        nargs="+",
        metavar="A",
        help="suboptimalities to reach (default: those that runs recorded and reached)",
    )
    paper = parser.add_argument_group("for a paper", "figures and the table of costs, written to FOLDER/paper")
    add = paper.add_argument
    add("--paper", action="store_true", help="write them: figures as PDF, costs.tex (booktabs) and costs.csv")
    add("--width", metavar="W", help="of a figure: inches, or with a unit: 86mm, 8.6cm, 240pt (default 3.4)")
    add("--font", metavar="FAMILY", help="such as serif, or the name of one that is installed")
    add("--font-size", metavar="PT", help="size of the letters in points (default 7)")
    add("--axes", nargs="+", metavar="A", help="of messages, jumps, gradients, time, wall (default: all but jumps)")
    add("--format", nargs="+", metavar="F", help="of pdf, pgf, png, svg, eps (default: pdf)")
    return parser


def _report(options: argparse.Namespace) -> int:
    from dtoken.report import make_report
    from dtoken.report.paper import FOLDER

    paper = _paper(options)
    accuracies = [_accuracy(text) for text in _words(options.accuracies or ())]
    chosen = {"baseline": options.baseline, "accuracies": accuracies or None, "paper": paper}
    page = make_report(options.directories, options.output, **chosen)
    if paper is not None:
        print(page.parent / FOLDER)
    print(page)
    return 0


def _paper(options: argparse.Namespace) -> "Paper | None":
    """What a paper asks for; None: there is no paper."""
    from dtoken.report.paper import Paper
    from dtoken.report.sheet import Sheet

    given = {name: getattr(options, name) for name in ("width", "font", "font_size", "axes", "format")}
    if not options.paper:
        for name, value in given.items():
            if value is not None:
                raise InputError(f"--{name.replace('_', '-')} is for --paper; add --paper")
        return None
    usual = Sheet()
    width = usual.width if options.width is None else _inches(options.width)
    letters = usual.letters if options.font_size is None else _points(options.font_size)
    axes = usual.axes if options.axes is None else tuple(_words(options.axes))
    formats = Paper.formats if options.format is None else tuple(_words(options.format))
    return Paper(Sheet(width, letters, options.font, axes), formats)


def _words(given: Sequence[str]) -> list[str]:
    """Words with blanks or commas between them."""
    return [word for entry in given for word in entry.split(",") if word]


def _inches(text: str) -> float:
    match = re.fullmatch(r"([0-9.]+)\s*(in|cm|mm|pt)?", text)
    try:
        if match is None:
            raise ValueError
        return float(match[1]) / UNITS[match[2] or "in"]
    except ValueError:
        raise InputError(f"--width {text} is not a length; give for instance 3.4, 86mm or 240pt") from None


def _points(text: str) -> float:
    try:
        return float(text.removesuffix("pt"))
    except ValueError:
        raise InputError(f"--font-size {text} is not a number of points; give for instance 8") from None


def _accuracy(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"accuracy {text} is not a number; give for instance --accuracies 1e-4 1e-6") from None


if __name__ == "__main__":
    sys.exit(main())
