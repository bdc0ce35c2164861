"""workflows/order.py: what it prints is what runs took."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dtoken


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "workflows"))
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    import order  # type: ignore[import-not-found]

    yield order
    sys.modules.pop("order")


def options(most: float) -> argparse.Namespace:
    return argparse.Namespace(nodes=4, sigma=1e-2, accuracy=1e-4, seeds=1, most=most, start="zero")


def test_a_cell_tells_passes_jumps_and_seconds(order: ModuleType) -> None:
    data, method = order.datasets([Path("a/b.svm.xz")])["tiny"], order.METHODS["sdca, a third"]
    assert order.cell(data, method, order.ORDERS["importance"], options(50)) == "-"
    assert order.cell(data, order.METHODS["tvr, K = 4"], order.ORDERS["permuted"], options(0.5)) == "> 0.5"
    passes, jumps, seconds = order.cell(data, method, order.ORDERS["buckets of 32"], options(50)).split(" / ")
    assert seconds.endswith(" s")
    run = dtoken.run(
        data,
        4,
        "sdca",
        sigma=1e-2,
        partition=order.PARTITION,
        stop={"passes": 50, "suboptimality": 4e-4, "patience": 1},
        record={"every_passes": 0.5, "growth": 0.01},
    )
    assert f"{run.records[-1].passes:.3g}" == passes
    assert f"{run.records[-1].jumps:,}" == jumps


def test_all_cases_are_of_methods(order: ModuleType) -> None:
    data = order.datasets([])["tiny"]
    for method in order.METHODS.values():
        for keys in order.ORDERS.values():
            if method["_target_"] != "sdca" or keys["sampling"] != "importance":
                dtoken.predict(data=data, nodes=4, algorithm=method | keys)
