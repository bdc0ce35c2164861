"""The table of the paper's claims in docs/algorithms.md: every theorem is in it, and what it names is there."""

import re

from tests.conftest import ROOT

HEADING = "## What the paper states, and where it is"
THEOREMS = set(range(1, 9))  # of Hendrikx (2022), appendix included


def claims() -> list[tuple[str, str, str]]:
    """(claim, where it is, its tests) of every row."""
    _, found, rest = (ROOT / "docs" / "algorithms.md").read_text().partition(HEADING)
    assert found
    rows = [line.strip("| ").split(" | ") for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[2] if len(row) > 2 else "") for row in rows[1:]]


def test_every_theorem_has_a_row() -> None:
    text = " ".join(claim for claim, _, _ in claims())
    assert {int(number) for number in re.findall(r"Theorem (\d)", text)} == THEOREMS


def test_what_is_claimed_has_tests_that_are_there() -> None:
    for claim, _, tests in claims():
        named = re.findall(r"`([\w/]+\.py)`", tests)
        assert named, claim
        folder = ROOT
        for name in named:
            file = ROOT / name if "/" in name else folder / name
            assert file.is_file(), f"{claim}: {name}"
            folder = file.parent


def test_files_that_are_named_are_there() -> None:
    for claim, where, _ in claims():
        for name in re.findall(r"`(dtoken/[\w/]+(?:\.py|/))`", where):
            assert (ROOT / name).exists(), f"{claim}: {name}"


def test_the_readme_promises_what_the_table_has() -> None:
    """All of the paper, but for what the table says is not of its methods."""
    missing = [claim for claim, where, _ in claims() if "not for the paper's methods" in where]
    assert missing == ["left for later: privacy"]
    assert "All of the paper" in (ROOT / "README.md").read_text()
    assert "but for the privacy of its methods" in " ".join((ROOT / "README.md").read_text().split())
