"""workflows/starts.py: what is averaged, and that its data and runs are there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "workflows"))
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    import starts  # type: ignore[import-not-found]

    monkeypatch.setattr(starts, "METHODS", ({"_target_": "tvr", "tokens": 2},))
    yield starts
    sys.modules.pop("starts")


def test_the_mean_over_datasets_is_geometric(starts: ModuleType) -> None:
    def made(labels: float, local: float) -> dict[tuple[str, str], Any]:
        amounts = {"zero": 10.0, "labels": labels, "local": local}
        keys = [(accuracy, column) for accuracy in starts.ACCURACIES for column in starts.COLUMNS]
        return {("tvr, K=2", start): dict.fromkeys(keys, amount) for start, amount in amounts.items()}

    rows = list(starts.rows_of([made(20.0, 1.0), made(20.0, 4.0)]))
    assert rows[0] == "| tvr, K=2 | labels | " + " | ".join(["2.00"] * 9) + " |"
    assert rows[1] == "| tvr, K=2 | local | " + " | ".join(["0.20"] * 9) + " |"


def test_measures_every_start(starts: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "ACCURACIES", (1e-1, 1e-2))
    assert starts.datasets([Path("a/b.svm.xz")])["b"] == {"kind": "svmlight", "path": Path("a/b.svm.xz")}
    found = starts.measure(starts.datasets([])["tiny"], 4, 20.0)
    assert set(found) == {("tvr, K=2", start) for start in ("zero", "labels", "local")}
    assert found["tvr, K=2", "local"][1e-2, "passes"] >= 1
    assert all(0 < amounts[1e-2, "time"] < float("inf") for amounts in found.values())
