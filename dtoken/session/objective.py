"""The number that a run of a sweep returns, for sweepers that search: ``suboptimality``, or ``jumps to 1e-6``."""

import math
import re

from dtoken.errors import InputError
from dtoken.session.result import Result

COSTS = ("events", "jumps", "messages", "gradients", "passes", "time", "wall")
FORM = re.compile(rf"({'|'.join(COSTS)}) to (\S+)")


def check_objective(text: object) -> tuple[str, float | None]:
    """What is asked for: the name of a column or of a cost, and the accuracy to which it is counted.

    Examples
    --------
    >>> check_objective("jumps to 1e-6"), check_objective("suboptimality")
    (('jumps', 1e-06), ('suboptimality', None))
    """
    if text == "suboptimality":
        return "suboptimality", None
    if found := FORM.fullmatch(str(text)):
        try:
            accuracy = float(found[2])
        except ValueError:
            accuracy = 0.0
        if 0 < accuracy < math.inf:
            return found[1], accuracy
    raise InputError(
        f"objective={text} is not known; use suboptimality, or as in 'objective=jumps to 1e-6' what it takes to come "
        f"to an accuracy, in {', '.join(COSTS)}"
    )


def objective(text: str, result: Result) -> float:
    """The number; infinite where a run does not stay below the accuracy."""
    name, accuracy = check_objective(text)
    if accuracy is None:
        return float(result.records[-1].suboptimality)
    taken = result.to_accuracy(accuracy)["stays_below"]
    return math.inf if taken is None else float(taken[name])
