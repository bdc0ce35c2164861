"""Reduce a failing list of faults to a short one that still fails."""

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.faults import Fault
from tests.simulation.trial import Plan

MOST_TRIALS = 400


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """A plan that fails, too, and from which no fault can be left out; the others stay at their moments."""
    trials = 0

    def still(faults: tuple[Fault, ...]) -> bool:
        nonlocal trials
        trials += 1
        return trials <= MOST_TRIALS and fails(replace(plan, faults=faults))

    faults, size = plan.faults, max(1, len(plan.faults) // 2)
    while size:
        start, shorter = 0, False
        while start < len(faults):
            candidate = without(faults, start, start + size)
            if still(candidate):
                faults, shorter = candidate, True
            else:
                start += size
        size = size if shorter and size == 1 else size // 2
    return replace(plan, faults=faults)


def without(faults: tuple[Fault, ...], start: int, stop: int) -> tuple[Fault, ...]:
    """Leave some out, so that those after them do not come earlier."""
    waited, rest = sum(fault.pause for fault in faults[start:stop]), faults[stop:]
    if rest and not rest[0].steps:
        rest = (replace(rest[0], pause=rest[0].pause + waited), *rest[1:])
    return faults[:start] + rest
