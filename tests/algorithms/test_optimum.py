"""Every method and variant, the cases of workflows/optimum/table.py: to 1e-10 on a small problem, to 1e-6 on real rows.

The real rows are the first 800 of RCV1. The whole table, on all rows and with the paper's sigma, is in
docs/algorithms.md; it takes an hour.
"""

import lzma
import runpy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms import METHODS, method_class
from dtoken.schedule.stream import start_at
from tests.conftest import ROOT
from tests.engine.small import setup, small_shards, solve

WORKFLOW = runpy.run_path(str(ROOT / "workflows" / "optimum" / "table.py"))


@pytest.fixture(scope="module")
def first_rows(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("rcv1")
    file = folder / "first_rows.svm"
    with lzma.open(real_data / "rcv1sub_binary.svm.xz", "rt") as lines:
        file.write_text("".join(line for line, _ in zip(lines, range(800), strict=False)))
    return {"kind": "svmlight", "path": str(file), "store": str(folder / "stores")}


def test_cases_are_of_methods_and_have_folders_of_their_own() -> None:
    assert {case.algorithm["_target_"] for case in WORKFLOW["CASES"]} <= set(METHODS)
    assert len({case.folder for case in WORKFLOW["CASES"]}) == len(WORKFLOW["CASES"])


@pytest.mark.real_data
@pytest.mark.parametrize("case", WORKFLOW["CASES"], ids=lambda case: case.folder)
def test_reaches_1e_6(case: Any, first_rows: dict[str, Any]) -> None:
    result = WORKFLOW["run_case"](replace(case, sigma=None), first_rows, sigma=3e-3)
    assert result.status == "done"
    assert result.records[0].suboptimality > 1e-2
    assert -1e-12 <= result.records[-1].suboptimality <= 1e-6
    assert result.summary["to_accuracy"]["1e-06"]["stays_below"]["passes"] <= 1e5


@pytest.mark.parametrize("case", WORKFLOW["CASES"], ids=lambda case: case.folder)
def test_all_models_come_within_1e_10_of_the_optimum(case: Any) -> None:
    keys, graph = dict(case.algorithm), dict(case.graph)
    method = method_class(keys.pop("_target_"))(**keys)
    shards = small_shards(n=8, m=6, seed=11, empty=False)
    kind, walk = graph.pop("kind"), graph.pop("walk", "simple")
    run = setup(shards, method, sigma=0.2, graph=kind, kind=walk, **graph)
    best, errors = solve(shards, "logistic", 0.2), [np.inf]
    with run.engine() as engine:
        for events, _ in islice(run.schedule.segments(start_at(method.token_start(8))), 30):
            engine.run(events)
            models = engine.models(float(events.at[-1]))
            errors.append(float(max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max())))
            if max(errors[-2:]) <= 1e-10:
                return
    raise AssertionError(errors)
