"""Every method and variant on real RCV1 rows: the cases of workflows/optimum/table.py, on the first 800 rows.

The whole table, on all rows and with a sigma that the paper uses, is in docs/algorithms.md; it takes an hour.
"""

import lzma
import runpy
from pathlib import Path
from typing import Any

import pytest

from dtoken.algorithms import METHODS
from tests.conftest import ROOT

WORKFLOW = runpy.run_path(str(ROOT / "workflows" / "optimum" / "table.py"))


@pytest.fixture(scope="module")
def first_rows(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("rcv1")
    file = folder / "first_rows.svm"
    with lzma.open(real_data / "rcv1sub_binary.svm.xz", "rt") as lines:
        file.write_text("".join(line for line, _ in zip(lines, range(800), strict=False)))
    return {"kind": "svmlight", "path": str(file), "store": str(folder / "stores")}


def test_every_method_has_a_case() -> None:
    assert {case.algorithm["_target_"] for case in WORKFLOW["CASES"]} == set(METHODS)
    assert len({case.folder for case in WORKFLOW["CASES"]}) == len(WORKFLOW["CASES"])


@pytest.mark.real_data
@pytest.mark.parametrize("case", WORKFLOW["CASES"], ids=lambda case: case.folder)
def test_reaches_1e_6(case: Any, first_rows: dict[str, Any]) -> None:
    result = WORKFLOW["run_case"](case, first_rows, sigma=3e-3)
    assert result.status == "done"
    assert result.records[0].suboptimality > 1e-2
    assert -1e-12 <= result.records[-1].suboptimality <= 1e-6
    assert result.summary["to_accuracy"]["1e-06"]["passes"] <= 1e5
