"""The closing table of a sweep: what each method needed, over its seeds."""

import math
from typing import TYPE_CHECKING

from dtoken.session.lines import FIRST, aligned, amounts, headings

if TYPE_CHECKING:
    from dtoken.report.costs import Reached
    from dtoken.report.study import Study

COLUMNS = ("jumps", "messages", "gradients", "time", "wall")
MOST_ROWS = 24  # fit on a screen; the report has them all


def cost_table(study: "Study") -> list[str]:
    """Median over seeds of what it took to stay below the accuracy that the report shows first; empty: no run does."""
    from dtoken.report.cells import describe
    from dtoken.report.sentences import intervals, seeds, short_of_target

    sweep, accuracy = study.sweep, study.shown
    entries = [entry for entry in study.reached if entry.accuracy == accuracy]
    if not any(entry.reached for entry in entries):
        return []
    rows = [(" ".join([e.cell.method.name, *describe(e.cell.context)]), *_needed(e)) for e in entries[:MOST_ROWS]]
    told = seeds(sweep)
    head = f"to {accuracy:g}" + (f", median of {told}" if told else "")
    lines = aligned([(head, *headings(COLUMNS), FIRST), *rows])
    left = len(entries) - MOST_ROWS
    notes = [f"... and {left} more in the report" if left > 0 else "", short_of_target(sweep), intervals(sweep)]
    return [*lines, *(note for note in notes if note)]


def _needed(entry: "Reached") -> list[str]:
    middle = {name: entry.costs[name].median for name in COLUMNS}
    first = entry.first["jumps"].median
    return [
        *amounts(None if math.isinf(middle["jumps"]) else middle, COLUMNS),
        *amounts(None if math.isinf(first) else {"jumps": first}, ["jumps"]),
    ]
