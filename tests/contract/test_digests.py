"""Results stay the same, to the last bit, when the code changes its shape."""

import json
from pathlib import Path

import pytest

from tests.contract.digests import CASES, FILE, found, machine

KEPT = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", CASES)
def test_a_run_gives_what_it_gave_before(name: str, tmp_path: Path) -> None:
    """Where functions round differently, only the schedule has the same bits, and the last numbers agree closely."""
    before, now = KEPT["runs"][name], found(CASES[name], tmp_path)
    assert now["events"] == before["events"]
    if machine() == KEPT["machine"]:
        assert now == before
    else:
        assert now["end"] == pytest.approx(before["end"], rel=1e-6, abs=1e-9)
