"""The closing table of a sweep: what each method needed, over its seeds."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from dtoken.cli.lines import FIRST, aligned, amounts, headings

if TYPE_CHECKING:
    from dtoken.report.costs import Reached

COLUMNS = ("jumps", "messages", "gradients", "time", "wall")
MOST_ROWS = 24  # fit on a screen; the report has them all


def cost_table(directory: Path) -> list[str]:
    """Median over seeds of what it took to stay below the accuracy that the report shows first; empty: no run does."""
    from dtoken.report.cells import cells_of, describe
    from dtoken.report.costs import accuracies_of, reached, shown_accuracy
    from dtoken.report.sentences import intervals, seeds
    from dtoken.sweep.collect import read_trajectory
    from dtoken.sweep.runs import find_runs

    sweep = cells_of(find_runs([directory]))
    wanted = accuracies_of(sweep, None)
    table = []
    for cell in sweep.cells:
        tables = [read_trajectory(run, ("suboptimality", *COLUMNS)) for run in cell.runs]
        table += [reached(cell, tables, accuracy) for accuracy in wanted]
    accuracy = shown_accuracy(table)
    entries = [entry for entry in table if entry.accuracy == accuracy]
    if accuracy is None or not any(entry.reached for entry in entries):
        return []
    rows = [(" ".join([e.cell.method.name, *describe(e.cell.context)]), *_needed(e)) for e in entries[:MOST_ROWS]]
    told = seeds(sweep)
    head = f"to {accuracy:g}" + (f", median of {told}" if told else "")
    lines = aligned([(head, *headings(COLUMNS), FIRST), *rows])
    left = len(entries) - MOST_ROWS
    notes = [f"... and {left} more in the report" if left > 0 else "", intervals(sweep)]
    return [*lines, *(note for note in notes if note)]


def _needed(entry: "Reached") -> list[str]:
    middle = {name: entry.costs[name].median for name in COLUMNS}
    first = entry.first["jumps"].median
    return [
        *amounts(None if math.isinf(middle["jumps"]) else middle, COLUMNS),
        *amounts(None if math.isinf(first) else {"jumps": first}, ["jumps"]),
    ]
