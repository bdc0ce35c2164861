"""Whole runs on real RCV1 rows."""

from pathlib import Path

import pytest

import dtoken


@pytest.mark.real_data
@pytest.mark.parametrize(("method", "passes"), [("tvr", 300), ("tavr", 120)])
def test_a_run_on_rcv1_reaches_1e_8(method: str, passes: int, real_data: Path, tmp_path: Path) -> None:
    result = dtoken.run(
        {"kind": "svmlight", "path": str(real_data / "rcv1sub_binary.svm.xz"), "store": str(tmp_path)},
        nodes=20,
        algorithm={"_target_": method, "tokens": 4},
        sigma=1e-5,
        stop={"passes": passes, "suboptimality": 1e-8},
        record={"every_passes": 10.0},
    )
    assert result.status == "done"
    assert 0 < result.records[-1].suboptimality <= 1e-8
    assert result.summary["data"]["rows"] == 23_774
