"""The paper's experiment: what counts as a curve, and when a sentence holds."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.sweep.made import config, write_run


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The scripts of workflows/paper, which import each other by name."""
    monkeypatch.syspath_prepend(str(ROOT / "workflows" / "paper"))
    import claims  # type: ignore[import-not-found]
    import curves  # type: ignore[import-not-found]
    import figure  # type: ignore[import-not-found]

    yield {"claims": claims, "curves": curves, "figure": figure}
    for name in ("claims", "curves", "figure"):
        sys.modules.pop(name, None)


def trajectory(jumps: float) -> pd.DataFrame:
    """Suboptimality 1, 0.04, 0.1, 0.01, 0.001 after 0, 1, 2, 3, 4 times so many jumps."""
    table = pd.DataFrame({"suboptimality": [1.0, 0.04, 0.1, 0.01, 0.001]})
    for name in ("event", "jumps", "messages", "gradients", "passes", "time", "wall"):
        table[name] = jumps * table.index
    return table.assign(objective=0.0, distance=0.0, consensus=0.0)


def settings(algorithm: str, seed: int, graph: str, tokens: int = 1, **more: Any) -> Any:
    """A run that stops at 1e-3."""
    made = config(algorithm, tokens=tokens, graph=graph, seed=seed)
    made["algorithm"] = {"_target_": f"dtoken.algorithms.{algorithm}.X{algorithm}", **more}
    if algorithm in ("token", "tvr"):
        made["algorithm"]["tokens"] = tokens
    return made | {"stop": {"suboptimality": 1e-3}, "time": {"tau_comm": 1000.0}, "data": {"kind": "made"}}


def add(
    sweep: Path,
    jumps: float,
    algorithm: str,
    seed: int = 0,
    graph: str = "complete",
    status: str = "done",
    **more: Any,
) -> None:
    folder = sweep / str(len(list(sweep.iterdir())))
    write_run(folder, settings(algorithm, seed, graph, **more), trajectory(jumps), algorithm=algorithm, status=status)


def test_what_the_middle_seed_needs_to_stay_below_counts(workflow: dict[str, ModuleType], tmp_path: Path) -> None:
    for seed, jumps in enumerate((50, 10, 20)):
        add(tmp_path, jumps, "tvr", seed, tokens=4)
    add(tmp_path, 7, "gd", allreduce="ring")
    add(tmp_path, 9, "token", status="running")
    curves = workflow["curves"].load_curves(tmp_path)
    assert curves.accuracy == 1e-3
    assert curves.names("complete") == ["TVR, K=4", "GD, ring"]
    assert curves.names("ring") == ["GD, ring"]  # it does not use the graph
    assert curves.needed("complete", "TVR, K=4", "jumps", 0.05) == 3 * 20
    assert curves.needed("complete", "TVR, K=4", "jumps", 1e-9) == float("inf")


@pytest.mark.parametrize(
    ("amounts", "verdict"),
    [
        ({"a": {0.1: 10, 0.001: 10}, "b": {0.1: 19, 0.001: 19}}, "holds"),
        ({"a": {0.1: 10, 0.001: 10}, "b": {0.1: 21, 0.001: 19}}, "holds at 0.001 only"),
        ({"a": {0.1: 10, 0.001: 10}, "b": {0.1: 21, 0.001: float("inf")}}, "does not hold"),
    ],
)
def test_a_sentence_is_judged_at_both_accuracies(
    workflow: dict[str, ModuleType], amounts: dict[str, dict[float, float]], verdict: str
) -> None:
    claims = workflow["claims"]

    class Made:
        accuracy = 0.001

        def needed(self, graph: str, name: str, column: str, accuracy: float) -> float:
            return amounts[name][round(accuracy, 6)]

    claim = claims.Claim("alike", "complete", "jumps", "within 2 ({})", claims.spread(("a", "b"), 2.0), "because")
    judged = claims.judge(claim, Made())
    assert judged.verdict == verdict
    assert judged.why == ("" if verdict == "holds" else "because")


def test_tvr_is_judged_from_both_starts(workflow: dict[str, ModuleType], tmp_path: Path) -> None:
    """Where the runs for a sentence are there; what the paper's start says is told beside it."""
    for tokens in (1, 4):
        for algorithm, jumps, start in (("token", 10, "zero"), ("tvr", 30, "zero"), ("tvr", 5, "local")):
            add(tmp_path, jumps, algorithm, tokens=tokens, start=start)
    curves = workflow["curves"].load_curves(tmp_path)
    assert curves.names("complete")[-2:] == ["TVR, K=1, local start", "TVR, K=4, local start"]
    assert curves.needed("complete", "TVR, K=1, local start", "jumps", 0.05) == 3 * 5
    found = {verdict.sentence: verdict for verdict in workflow["claims"].verdicts(tmp_path)}
    faster = found["TVR is faster than Algorithm 1"]
    assert faster.verdict == "holds"
    assert list(faster.numbers.values()) == [0.5, 0.5]
    assert faster.why == "from margins of zero: does not hold (3 / 3)"
    assert found["Walkman is the slowest algorithm in this setting"].verdict == "no runs"
    assert found["but not Algorithm 1"].why == ""  # no TVR in it


def test_the_inequalities_are_what_their_names_say(workflow: dict[str, ModuleType]) -> None:
    claims = workflow["claims"]
    amount = {"a": 10.0, "b": 12.0, "c": 30.0}.__getitem__
    assert claims.below(("a", "b"), ("c",))(amount) == (True, 0.4)
    assert claims.below(("a", "c"), ("b",))(amount) == (False, 2.5)
    assert claims.near(("a", "c"), "b", 2.0)(amount) == (False, 2.5)
    assert claims.near(("a",), "b", 1.5)(amount)[0]
    assert claims.pairs(("a", "b"), ("b", "c"), 1.0)(amount)[0]
    assert not claims.pairs(("a", "c"), ("b", "b"), 1.0)(amount)[0]
    assert claims.not_faster("b", "a", 0.8)(amount)[0]
    assert not claims.not_faster("a", "c", 0.8)(amount)[0]


@pytest.mark.parametrize(
    ("level", "amount"), [(20.0, 0.0), (1.0, 10.0), (0.1, 20.0), (1e-2, 30.0), (1e-3, 40.0), (1e-4, float("nan"))]
)
def test_lines_between_record_points_are_straight_in_logarithms(
    workflow: dict[str, ModuleType], level: float, amount: float
) -> None:
    jumps, suboptimality = pd.Series([0.0, 10.0, 20.0, 40.0]), pd.Series([10.0, 1.0, 0.1, 1e-3])
    assert workflow["figure"]._crossing(jumps, suboptimality, level) == pytest.approx(amount, nan_ok=True)
