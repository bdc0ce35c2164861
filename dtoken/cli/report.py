"""``dtoken-report``: one page about all runs of a sweep."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dtoken.cli.terminal import run_command
from dtoken.errors import InputError

EPILOG = """\
The last line printed is the path of the page. It holds everything it needs and opens without a network; figures
as PNG and PDF lie beside it, and results.parquet and results.csv have all runs in one table.

  dtoken-report multirun/2026-11-16/10-12-03
  dtoken-report multirun/tokens multirun/baselines --output comparison --baseline gd --accuracies 1e-4 1e-8
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
    return parser


def _report(options: argparse.Namespace) -> int:
    from dtoken.report import make_report

    accuracies = [_accuracy(text) for entry in options.accuracies or () for text in entry.split(",") if text]
    print(make_report(options.directories, options.output, baseline=options.baseline, accuracies=accuracies or None))
    return 0


def _accuracy(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"accuracy {text} is not a number; give for instance --accuracies 1e-4 1e-6") from None


if __name__ == "__main__":
    sys.exit(main())
