"""Bugs that were planted on purpose are found: if they were not, nothing found would mean nothing."""

import pytest

from tests.simulation.__main__ import campaign
from tests.simulation.planted import PLANTED
from tests.simulation.ports import replaced

MOST_FAULTS = 3000
MAY_BE_MISSED = 1


def found(name: str) -> str | None:
    with replaced(PLANTED[name]()):
        *_, told = campaign(MOST_FAULTS, seed=0)
    return told.violation


def test_planted_bugs_are_found() -> None:
    assert len(PLANTED) >= 20
    missed = [name for name in PLANTED if found(name) is None]
    assert len(missed) <= MAY_BE_MISSED, missed


@pytest.mark.parametrize("name", PLANTED)
def test_each_says_what_it_is(name: str) -> None:
    assert PLANTED[name].__doc__
