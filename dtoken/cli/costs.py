"""The closing table of a sweep: what each method needed, over its seeds."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from dtoken.cli.lines import aligned, amounts, headings

if TYPE_CHECKING:
    from dtoken.report.cells import Cell

COLUMNS = ("jumps", "messages", "gradients", "time", "wall")
MOST_ROWS = 24  # fit on a screen; the report has them all


def cost_table(directory: Path) -> list[str]:
    """Median over seeds of what it took to come to the finest accuracy that a run recorded and reached."""
    from dtoken.report.cells import cells_of, describe
    from dtoken.sweep.runs import find_runs

    sweep = cells_of(find_runs([directory]))
    accuracy = _finest(sweep.cells)
    if accuracy is None:
        return []
    rows = [
        (" ".join([cell.method.name, *describe(cell.context)]), *_needed(cell, accuracy))
        for cell in sweep.cells[:MOST_ROWS]
    ]
    seeds = f", median of {len(sweep.seeds)} seeds" if len(sweep.seeds) > 1 else ""
    lines = aligned([(f"to {accuracy}{seeds}", *headings(COLUMNS)), *rows])
    left = len(sweep.cells) - MOST_ROWS
    return [*lines, f"... and {left} more in the report"] if left > 0 else lines


def _finest(cells: Sequence["Cell"]) -> str | None:
    """The smallest accuracy that any run reached, as summaries write it."""
    reached = {
        accuracy
        for cell in cells
        for run in cell.runs
        for accuracy, taken in ((run.summary or {}).get("to_accuracy") or {}).items()
        if taken is not None
    }
    return min(reached, key=float, default=None)


def _needed(cell: "Cell", accuracy: str) -> list[str]:
    taken = [((run.summary or {}).get("to_accuracy") or {}).get(accuracy) for run in cell.runs]
    middle = {name: median(each[name] if each else math.inf for each in taken) for name in COLUMNS}
    return amounts(None if math.isinf(middle["jumps"]) else middle, COLUMNS)
