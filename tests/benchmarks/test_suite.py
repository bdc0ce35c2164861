"""The suite of benchmarks: which figures it keeps, which table it writes, what it calls slower."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = "before\n<!-- figures: hops -->\nold\n<!-- end -->\nafter\n"


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """benchmarks/suite.py with a page and a file of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import suite  # type: ignore[import-not-found]

    monkeypatch.setattr(suite, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(suite, "KEPT", tmp_path / "figures.json")
    suite.PAGE.write_text(PAGE)
    return suite


def run(value: float, size: str = "full", target: str = "<= 2", unit: str = "ratio") -> dict[str, Any]:
    row = {"figure": "hop / bare TCP", "value": value, "unit": unit, "target": target, "met": value <= 2}
    return {"size": size, "machine": "two cores", "date": "1 May 2026", "seconds": 3, "figures": [row]}


def measures(suite: ModuleType, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    monkeypatch.setattr(suite, "measure", lambda name, size: run(value, size))


def test_full_size_replaces_its_table_and_small_size_leaves_the_page_alone(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    measures(suite, monkeypatch, 1.5)
    assert suite.main(["--only", "hops", "--size", "full"]) == 0
    page = suite.PAGE.read_text()
    assert "| hop / bare TCP | 1.5 ratio | <= 2 | met |" in page
    assert (page[:7], page[-6:]) == ("before\n", "after\n")
    assert "old" not in page
    measures(suite, monkeypatch, 2.5)
    assert suite.main(["--only", "hops", "--size", "small"]) == 0  # nothing of its size to compare with
    assert suite.PAGE.read_text() == page
    kept = json.loads(suite.KEPT.read_text())
    assert [kept[size]["hops"]["figures"][0]["value"] for size in ("full", "small")] == [1.5, 2.5]


def test_what_got_slower_is_said_and_is_an_error(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(suite, monkeypatch, 1.0)
    suite.main(["--only", "hops"])
    measures(suite, monkeypatch, 1.5)
    for _ in range(2):  # it stays slower until that is accepted
        assert suite.main(["--only", "hops"]) == 1
        assert "slower: hop / bare TCP: 1.5, was 1" in capsys.readouterr().out
    assert suite.main(["--only", "hops", "--accept"]) == 1
    assert suite.main(["--only", "hops"]) == 0
    assert "nothing got slower" in capsys.readouterr().out


def test_nothing_is_written_if_that_is_not_wanted(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    measures(suite, monkeypatch, 1.0)
    suite.main(["--only", "hops", "--size", "full", "--no-write"])
    assert suite.PAGE.read_text() == PAGE
    assert not suite.KEPT.exists()


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (run(1.0), run(1.3), False),  # within the noise of a machine
        (run(1.0), run(1.4), True),
        (run(1.4), run(1.0), False),  # faster
        (run(0.8, target=">= 0.7"), run(0.5, target=">= 0.7"), True),
        (run(0.5, target=">= 0.7"), run(0.8, target=">= 0.7"), False),
        (run(1.0, unit="s"), run(9.0, unit="s"), False),  # seconds do not travel between machines
    ],
)
def test_only_ratios_that_got_worse_by_a_third_count(suite: ModuleType, before: Any, now: Any, worse: bool) -> None:
    assert bool(suite.slower(before, now)) == worse


def test_a_benchmark_that_fails_is_named(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "measure", lambda name, size: None)
    assert suite.main(["--only", "hops", "report"]) == 1
    assert "failed: hops, report" in capsys.readouterr().out


def test_the_page_has_a_place_for_every_benchmark(suite: ModuleType) -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    for name in suite.NAMES:
        assert (ROOT / "benchmarks" / f"{name}.py").is_file()
        assert suite.write(page, name, run(1.0)) != page


def test_a_benchmark_that_is_skipped_says_why_and_leaves_earlier_figures(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import network  # type: ignore[import-not-found]

    monkeypatch.setattr(network.os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["network.py", "--json", str(tmp_path / "figures.json")])
    network.main()
    assert "skipped: network namespaces need root" in capsys.readouterr().out
    skipped = json.loads((tmp_path / "figures.json").read_text())
    measures(suite, monkeypatch, 1.0)
    suite.main(["--only", "hops", "--size", "full"])
    before = suite.PAGE.read_text()
    monkeypatch.setattr(suite, "measure", lambda name, size: skipped | {"seconds": 0})
    assert suite.main(["--only", "hops", "--size", "full"]) == 0
    assert suite.PAGE.read_text() == before
