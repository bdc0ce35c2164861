"""A user's own arrays: the same rows from every kind of array, and one sentence for what is no dataset."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge

import dtoken
from dtoken.data import arrays
from dtoken.data.arrays import Arrays
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.errors import InputError

rng = np.random.default_rng(5)
X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.6)
y = np.where(X @ [1.0, -2.0, 0.5, 1.0] + 0.3 * rng.normal(size=30) > 0, 1, 0)
dask_frame = SimpleNamespace(to_dask_array=None, columns=["a"])  # what is looked at of one
frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(30)[::-1])


@pytest.fixture(scope="module", autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTOKEN_STORE", str(tmp_path_factory.mktemp("stores")))
        yield


KINDS: dict[str, Callable[[], Any]] = {
    "lists": lambda: (X.tolist(), y.tolist()),
    "fortran": lambda: (np.asfortranarray(X), y.astype(bool)),
    "csr": lambda: (sp.csr_array(X), y[:, None]),
    "csc": lambda: (sp.csc_matrix(X), y),
    "coo": lambda: (sp.coo_array(X), y.astype(np.float32)),
    "pandas": lambda: (frame, pd.Series(y)),
    "nullable": lambda: (frame.convert_dtypes(), pd.Series(y, dtype="Int64")),
    "column": lambda: (frame.assign(label=y), "label"),
    "dask": lambda: (da.from_array(X, chunks=(7, 3)), da.from_array(y, chunks=11)),
    "keys": lambda: {"X": X, "y": y},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_from_every_kind_of_array(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = Arrays(X, y)
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 12)  # where blocks end does not matter
    source = Arrays.of(KINDS[kind]())
    assert source is not None
    assert source.identity() == expected.identity()
    shard = ingest(source, Partition(1), root=tmp_path).shard(0)
    np.testing.assert_array_equal(sp.csr_array((shard.data, shard.indices, shard.indptr), (30, 4)).toarray(), X)
    np.testing.assert_array_equal(shard.y, 2 * y - 1)


def test_other_content_is_another_dataset() -> None:
    other, moved = X.copy(), y.copy()
    other[3, 1] += 1e-12
    moved[4] = 1 - moved[4]
    wider = np.hstack([X, np.zeros((30, 1))])
    found = [Arrays(*each).identity()["digest"] for each in ((X, y), (other, y), (X, moved), (X[::-1], y))]
    assert len(set(found)) == 4
    assert Arrays(wider, y).identity() != Arrays(X, y).identity()


def test_runs_on_arrays_are_cached_by_content(tmp_path: Path) -> None:
    first, again = (
        dtoken.run({"X": values, "y": y, "store": tmp_path}, nodes=3, sigma=0.1, stop={"passes": 3})
        for values in (X, sp.csr_array(X))
    )
    assert len(list(tmp_path.glob("arrays-*.zarr"))) == 1
    np.testing.assert_array_equal(first.theta, again.theta)
    assert first.summary["config"]["data"]["digest"] == Arrays(X, y).identity()["digest"]


def test_a_run_finds_what_scikit_learn_finds(tmp_path: Path) -> None:
    """F is n times the mean of squares / 2 + sigma / 2 ||theta||^2 where nodes have the same number of rows."""
    target = X @ [1.0, 2.0, 3.0, -1.0] + 0.1 * rng.normal(size=30)
    data = {"X": X, "y": target, "store": tmp_path}
    found = dtoken.run(data, nodes=3, loss="squared", sigma=0.1, stop={"suboptimality": 1e-14, "passes": 2000})
    expected = Ridge(alpha=30 * 0.1, fit_intercept=False, tol=1e-12).fit(X, target)
    np.testing.assert_allclose(found.theta, expected.coef_, atol=1e-6)


def test_a_bunch_on_a_graph_with_nodes_of_its_own() -> None:
    bunch = load_breast_cancer()
    bunch.data = bunch.data / bunch.data.std(axis=0)
    ring = nx.cycle_graph(5, create_using=nx.DiGraph)
    result = dtoken.run(bunch, graph={"kind": ring, "walk": "lazy"}, stop={"passes": 1})
    assert result.nodes.shape == (5, 30)
    assert result.summary["graph"]["directed"] is True
    assert result.summary["config"]["graph"]["edges"] == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]


def test_given_nodes() -> None:
    numbers = np.arange(30) % 4
    given = dtoken.run((X, y), partition=numbers, sigma=0.1, stop={"passes": 3})
    order = np.argsort(numbers, kind="stable")
    sorted_rows = dtoken.run((X[order], y[order]), nodes=4, sigma=0.1, stop={"passes": 3})
    assert given.summary["data"]["nodes"] == 4
    np.testing.assert_array_equal(given.theta, sorted_rows.theta)  # 8, 8, 7, 7 rows either way


def test_a_column_that_holds_the_nodes(tmp_path: Path) -> None:
    numbers = np.arange(30) % 3
    source = Arrays(np.column_stack([X[:, :2], numbers, X[:, 2:]]), y)
    store = ingest(source, Partition(3, "given", column=2), root=tmp_path)
    for node in range(3):
        shard = store.shard(node)
        rows = sp.csr_array((shard.data, shard.indices, shard.indptr), (10, 5)).toarray()
        np.testing.assert_array_equal(rows[:, [0, 1, 3, 4]], X[numbers == node])
        assert not rows[:, 2].any()


@pytest.mark.parametrize(
    ("column", "nodes", "words"),
    [
        (2, 2, "2 of row 2 is not the number of one of 2 nodes; number them 0 to 1"),
        (2, 4, "node 3 of 4 has no rows by partition.column=2; use another nodes=N, and number them without gaps"),
        (0, 3, "of row 0 is not the number of one of 3 nodes"),
        (9, 3, "partition.column=9, but features are numbered 0 to 4"),
    ],
)
def test_columns_that_hold_no_nodes(tmp_path: Path, column: int, nodes: int, words: str) -> None:
    source = Arrays(np.column_stack([X[:, :2] + 0.5, np.arange(30) % 3, X[:, 2:]]), y)
    with pytest.raises(InputError, match=words):
        ingest(source, Partition(nodes, "given", column=column), root=tmp_path)
    assert not list(tmp_path.glob("*.zarr"))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "fewer labels": ({"data": (X, y[:-1])}, "data has 30 rows but 29 labels"),
    "a vector": ({"data": (X[:, 0], y)}, r"X has the shape \(30,\)"),
    "no rows": ({"data": (X[:0], y[:0])}, r"X has the shape \(0, 4\)"),
    "two columns of labels": ({"data": (X, X[:, :2])}, r"y has the shape \(30, 2\)"),
    "nan": ({"data": (np.where(np.isin(X, X[3, 1]), np.nan, X), y)}, "data: a value of row 3 is not a finite number"),
    "nan label": ({"data": (X, np.r_[np.zeros(29), np.nan])}, "data: the label of row 29 is not a finite number"),
    "missing": ({"data": (frame.astype("Float64").where(frame != X[3, 1]), y)}, "value of row 3 is not a finite"),
    "text": ({"data": (X, np.where(y > 0, "cat", "dog"))}, "y holds <U3 instead of numbers; numpy.unique"),
    "text column": ({"data": (frame.assign(town="Bern"), y)}, "column 'town' of X holds (object|str) instead of"),
    "objects": ({"data": ([[1, None], ["a", 2]], [0, 1])}, "X cannot be read as an array of numbers"),
    "objects as labels": ({"data": (X, np.array(["a", "b"] * 15, object))}, r"numbers; numpy.unique\(y"),
    "complex": ({"data": (X + 1j, y)}, "X holds complex128 instead of numbers"),
    "no column": ({"data": (frame, "label")}, "y='label' is no column of X; it has a, b, c, d"),
    "dask frame": ({"data": (dask_frame, "a")}, "y='a' names a column of a dask data frame; give arrays: frame.drop"),
    "no frame": ({"data": (X, "label")}, "y='label' names a column, but X is no data frame"),
    "unknown chunks": ({"data": (da.from_array(X)[da.from_array(y) > 0], y)}, "call X.compute_chunk_sizes"),
    "three parts": ({"data": (X, y, y)}, r"data has 3 parts; give \(X, y\)"),
    "no data": ({"data": None}, r"data is a NoneType; give \(X, y\)"),
    "a key": ({"data": {"X": X, "y": y, "label": "real"}}, "Did you mean data.labels"),
    "classes": (
        {"data": (X, np.arange(30))},
        "logistic needs two classes, but .* are numbers, or more than two",
    ),
    "one class": ({"data": (X, np.ones(30))}, "arrays has only one class"),
    "few rows": ({"data": (X[:3], y[:3])}, "nodes=8 but the dataset has only 3 rows"),
    "graph": ({"data": (X, y), "graph": nx.path_graph(3), "nodes": 5}, "nodes=5 but the graph has 3 nodes"),
    "numbers": ({"data": (X, y), "partition": [0, 1]}, "partition has 2 node numbers for 30 rows"),
    "shape": ({"data": (X, y), "partition": X}, r"partition has the shape \(30, 4\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_dataset_is_one_sentence(case: str) -> None:
    keywords, words = BAD[case]
    with pytest.raises(InputError, match=words) as error:
        dtoken.run(**keywords)
    assert "\n" not in str(error.value)
