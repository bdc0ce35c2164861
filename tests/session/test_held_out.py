"""Held-out rows: measured as scikit-learn measures, and without any influence on the run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import dtoken
from dtoken.config.settings import make_settings
from dtoken.data.arrays import Arrays
from dtoken.data.wrapped import Split
from dtoken.engine.loop.recorder import COLUMNS, TEST
from dtoken.errors import InputError
from dtoken.problem.held_out import area_under_curve

rng = np.random.default_rng(1)
X = rng.normal(size=(200, 4))
y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=200) > 0.3, 3, 1)
RUN: dict[str, Any] = {"nodes": 3, "stop": {"passes": 4}}


@pytest.fixture(scope="module", autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTOKEN_STORE", str(tmp_path_factory.mktemp("stores")))
        yield


@pytest.mark.parametrize("intercept", [False, True])
def test_measures_are_those_of_scikit_learn(intercept: bool) -> None:
    problem = {"sigma": 0.1, "intercept": intercept}
    found = dtoken.run((X[:150], y[:150]), test=(X[150:], y[150:]), problem=problem, **RUN)
    margins, truth, end = X[150:] @ found.coefficients + found.intercept, y[150:] == 3, found.trajectory.iloc[-1]
    assert end.test_accuracy == accuracy_score(truth, margins > 0)
    assert end.test_log_loss == pytest.approx(log_loss(truth, 1 / (1 + np.exp(-margins))), rel=1e-12)
    assert end.test_loss == end.test_log_loss
    assert end.test_auc == pytest.approx(roc_auc_score(truth, margins), rel=1e-14)
    assert found.summary["end"]["test_auc"] == end.test_auc


def test_real_labels_have_a_loss_only() -> None:
    target = X @ [1.0, 2.0, 0.0, 0.0]
    found = dtoken.run((X[:150], target[:150]), test=(X[150:], target[150:]), loss="squared", sigma=0.1, **RUN)
    expected = np.mean((X[150:] @ found.theta - target[150:]) ** 2) / 2
    assert found.trajectory.test_loss.iloc[-1] == pytest.approx(expected, rel=1e-12)
    assert "test_auc" not in found.trajectory


def test_a_run_has_the_same_bits_with_and_without() -> None:
    tested = dtoken.run((X[:150], y[:150]), test=(X[150:], y[150:]), algorithm="tavr", **RUN)
    plain = dtoken.run((X[:150], y[:150]), algorithm="tavr", **RUN)
    np.testing.assert_array_equal(tested.nodes, plain.nodes)
    assert list(plain.trajectory) == list(COLUMNS)
    same = [name for name in COLUMNS if name != "wall"]
    assert tested.trajectory[same].equals(plain.trajectory[same])


def test_a_share_splits_the_rows_without_overlap() -> None:
    """The run on a share is the run on the rows that are left, to the last bit."""
    whole = Arrays(np.arange(200.0)[:, None] + 1, y)
    parts = [np.concatenate([block.data for block in Split(whole, 0.25, held).blocks()]) for held in (False, True)]
    assert sorted(np.concatenate(parts)) == list(np.arange(200.0) + 1)
    assert 30 <= len(parts[1]) <= 70
    train, test = (part.astype(int) - 1 for part in parts)
    found = dtoken.run((X, y), test=0.25, **RUN)
    by_hand = dtoken.run((X[train], y[train]), test=(X[test], y[test]), **RUN)
    assert found.summary["data"]["rows"] == len(train)
    np.testing.assert_array_equal(found.nodes, by_hand.nodes)
    assert found.trajectory[list(TEST)].equals(by_hand.trajectory[list(TEST)])


def test_a_seed_draws_another_share_of_the_same_rows() -> None:
    whole = Arrays(np.arange(2000.0)[:, None] + 1, np.arange(2000) % 2)

    def held_out(seed: int) -> set[float]:
        return {row for block in Split(whole, 0.25, True, seed).blocks() for row in block.data}

    both = held_out(0) & held_out(1)
    assert 60 < len(both) < 190  # of 2000 rows 125 are in two independent shares, with a standard deviation of 11
    data, keywords = {"X": X, "y": y}, {"test": 0.25, **RUN}
    first, again = (dtoken.run({**data, "test_seed": seed}, **keywords) for seed in (0, 1))
    assert first.trajectory.test_auc.iloc[-1] != again.trajectory.test_auc.iloc[-1]
    assert first.trajectory.equals(dtoken.run(data, **keywords).trajectory.assign(wall=first.trajectory.wall))
    assert again.summary["provenance"]["seeds"]["test"] == 1


def test_shares_of_several_seeds_make_one_curve(tmp_path: Path) -> None:
    from dtoken.report.payload import payload
    from dtoken.report.study import study
    from dtoken.sweep.runs import find_runs

    for seed in (0, 1, 2):
        dtoken.run({"X": X, "y": y, "test_seed": seed}, test=0.25, directory=tmp_path / str(seed), **RUN)
    (cell,) = payload(study(find_runs([tmp_path])))["cells"]
    assert cell["runs"] == 3


def test_a_file_has_the_first_index_and_classes_of_the_training_rows(tmp_path: Path) -> None:
    """Index 1 of the test file is the first feature, also where index 0 would be; unknown features count nothing."""
    wide = np.column_stack([X, np.ones(200)])
    dump_svmlight_file(X[:150], y[:150], str(tmp_path / "train.svm"), zero_based=False)
    dump_svmlight_file(wide[150:], y[150:], str(tmp_path / "test.svm"), zero_based=False)
    train = {"kind": "svmlight", "path": tmp_path / "train.svm", "test": tmp_path / "test.svm"}
    found = dtoken.run(train, **RUN)
    expected = roc_auc_score(y[150:] == 3, X[150:] @ found.theta)
    assert found.trajectory.test_auc.iloc[-1] == pytest.approx(expected, rel=1e-14)
    assert found.summary["config"]["data"]["test"] == str(tmp_path / "test.svm")


def test_an_interrupted_run_goes_on_with_what_it_had_measured(tmp_path: Path) -> None:
    keywords: dict[str, Any] = {"test": 0.25, "checkpoint": {"every": 1}, "nodes": 3}
    dtoken.run((X, y), stop={"passes": 2}, directory=tmp_path / "run", **keywords)
    longer = dtoken.run((X, y), stop={"passes": 4}, directory=tmp_path / "run", **keywords)
    straight = dtoken.run((X, y), stop={"passes": 4}, directory=tmp_path / "straight", **keywords)
    assert longer.trajectory.drop(columns="wall").equals(straight.trajectory.drop(columns="wall"))
    loaded = dtoken.load(tmp_path / "straight")
    assert loaded.trajectories.test_auc.tolist() == straight.trajectory.test_auc.tolist()
    assert loaded.runs["end.test_auc"].tolist() == straight.trajectory.test_auc.tolist()[-1:]


def test_runs_with_and_without_in_one_table_and_on_one_page(tmp_path: Path) -> None:
    from dtoken.report.payload import payload
    from dtoken.report.study import study
    from dtoken.sweep.runs import find_runs

    for name, test in (("0", 0.25), ("1", None)):
        dtoken.run((X, y), test=test, directory=tmp_path / "sweep" / name, **RUN)
    table = dtoken.load(tmp_path / "sweep").trajectories
    assert table[table.run == "0"].test_auc.notna().all()
    assert table[table.run == "1"].test_auc.isna().all()
    page = payload(study(find_runs([tmp_path / "sweep"])))
    assert list(TEST) == [name for name in page["measures"] if name in TEST]
    assert [cell["curves"]["jumps"]["test_auc"][0][-1] is None for cell in page["cells"]] == [False, True]
    plain = payload(study(find_runs([tmp_path / "sweep" / "1"])))
    assert not [name for name in plain["measures"] if name in TEST]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (0.0, "data.test=0.0 is neither a file nor a share between 0 and 1"),
        (1, "data.test=1 is neither"),
        ("none.svm", "none.svm does not exist"),
        ("synthetic", "data.test=synthetic is the name of a source"),
        (1e-6, "data.test=1e-06 leaves no rows to test on"),
        ((X[:3], [1, 2, 3]), "data.test has the label 2, but the rows to train on have 1 and 3"),
    ],
)
def test_what_is_no_test(test: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        dtoken.run((X, y), test=test, **RUN)


def test_a_share_needs_rows_that_are_still_to_be_spread() -> None:
    with pytest.raises(InputError, match="leaves out rows for which the partition has nodes"):
        make_settings((X, y), partition=np.arange(200) % 3, test=0.2)
    with pytest.raises(InputError, match=r"holds out rows at ingest, and data.store is there already"):
        make_settings({"kind": "synthetic", "store": "s3://bucket/store.zarr", "test": 0.2})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"test_seed": 1}, r"data.test_seed=1 draws a share of the rows; give it, as data.test=0.2"),
        ({"test": 0.2, "test_seed": -1}, "data.test_seed=-1 must be an integer from 0 to"),
        ({"test": 0.2, "test_seed": 0.5}, "data.test_seed=0.5 is not an integer"),
    ],
)
def test_seeds_that_draw_nothing(data: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_settings({"kind": "synthetic", **data})


def test_area_under_curve_counts_ties_by_half() -> None:
    scores, labels = rng.integers(0, 5, 60).astype(float), np.where(rng.random(60) < 0.4, 1.0, -1.0)
    assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores), rel=1e-14)
    assert np.isnan(area_under_curve(scores, np.ones(60)))
