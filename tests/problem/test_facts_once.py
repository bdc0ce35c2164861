"""What only the dataset decides is computed once, however many runs ask for it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dtoken.config.settings import make_settings
from dtoken.problem import optimum
from dtoken.problem.finite_sum import FiniteSum
from dtoken.session.prepare import prepare_run


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts passes over the data by what they are for."""
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def count(*given: Any, **more: Any) -> Any:
            counts[name] += 1
            return original(*given, **more)

        monkeypatch.setattr(owner, name, count)

    counted(FiniteSum, "row_norms")  # once for each group of nodes, and these are one
    counted(FiniteSum, "objective")
    counted(optimum, "minimise")
    return counts


def prepared(folder: Path, **more: Any) -> Any:
    data = {"kind": "synthetic", "rows": 60, "features": 4, "store": str(folder)}
    settings = {"nodes": 4, "problem": {"sigma": 0.1}, "stop": {"passes": 3}}
    return prepare_run(make_settings(data=data, **settings | more))


def test_runs_on_one_dataset_share_its_facts(tmp_path: Path, passes: Counter[str]) -> None:
    first = prepared(tmp_path)
    assert passes["minimise"] == 1
    assert passes["row_norms"] == 1
    before = Counter(passes)
    others = [prepared(tmp_path, seed=seed, algorithm=name) for seed in (1, 2) for name in ("tvr", "token")]
    assert passes == before
    for other in others:
        assert other.gap == first.gap
        assert other.experiment.optimum.objective == first.experiment.optimum.objective


def test_another_sigma_needs_only_another_optimum(tmp_path: Path, passes: Counter[str]) -> None:
    prepared(tmp_path)
    prepared(tmp_path, problem={"sigma": 0.2})
    assert passes["minimise"] == 2
    assert passes["row_norms"] == 1
