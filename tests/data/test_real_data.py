"""The real datasets, bit for bit as scikit-learn reads them."""

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

import anndata.io
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from sklearn.datasets import load_svmlight_file

from dtoken.cli.data import main
from dtoken.data import svmlight
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.svmlight import Svmlight
from dtoken.data.verify import verify

pytestmark = pytest.mark.real_data

NAMES = ["a9a", "w8a", "rcv1sub_binary.svm"]


class Dataset(NamedTuple):
    file: Path
    matrix: sp.csr_matrix
    y: np.ndarray


@pytest.fixture(scope="module", params=NAMES)
def dataset(request: pytest.FixtureRequest, real_data: Path) -> Dataset:
    file = real_data / f"{request.param}.xz"
    with lzma.open(file) as text:
        return Dataset(file, *load_svmlight_file(text))


def assert_same(store: ShardStore, node: int, matrix: Any, y: np.ndarray) -> None:
    shard = store.shard(node)
    assert shard.data.tobytes() == matrix.data.tobytes()
    assert shard.indices.tolist() == matrix.indices.tolist()
    assert shard.indptr.tolist() == matrix.indptr.tolist()
    assert shard.y.tolist() == y.tolist()


def test_contiguous_shards(dataset: Dataset, tmp_path: Path) -> None:
    store = ingest(Svmlight(dataset.file), Partition(20, sizes="equal"), root=tmp_path)
    rows = len(dataset.y) // 20
    assert store.node_rows.tolist() == [rows] * 20
    assert store.meta.dropped_rows == len(dataset.y) % 20
    assert store.d == dataset.matrix.shape[1]
    for node in range(20):
        part = slice(node * rows, (node + 1) * rows)
        assert_same(store, node, dataset.matrix[part], dataset.y[part])
    assert verify(store) == []
    root = zarr.open_group(store.path, mode="r")
    theirs = anndata.io.read_elem(root["packs/0/X"])
    assert (theirs != dataset.matrix[: theirs.shape[0]]).nnz == 0


def test_shuffled_shards_in_small_pieces(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "PIECE_BYTES", 100_003)
    partition = Partition(7, "shuffled", seed=3, sizes="keep")
    store = ingest(Svmlight(dataset.file, threads=3), partition, root=tmp_path)
    nodes = partition.assignment(len(dataset.y), None)(dataset.y)
    assert np.bincount(nodes).tolist() == list(store.node_rows)
    for node in range(7):
        assert_same(store, node, dataset.matrix[nodes == node], dataset.y[nodes == node])


def test_inspect(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = Partition(5, "dirichlet", seed=1, alpha=0.5)
    store = ingest(Svmlight(dataset.file), partition, root=tmp_path)
    assert main(["inspect", str(store.path), "--sigma", "1e-5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    nodes = partition.assignment(len(dataset.y), int((dataset.y > 0).sum()))(dataset.y)
    kept = nodes >= 0
    matrix, y, nodes = dataset.matrix[kept], dataset.y[kept], nodes[kept]
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    assert found["rows"] == len(y)
    assert found["nonzeros"] == matrix.nnz
    assert found["positive_share"] == pytest.approx((y > 0).mean(), rel=1e-14)
    shares = [(y[nodes == node] > 0).mean() for node in range(5)]
    assert found["node_positive_share"] == pytest.approx(shares, rel=1e-14)
    assert np.ptp(shares) > 0.1  # skewed
    assert found["empty_rows"] == np.count_nonzero(squares == 0)
    assert found["row_norm_min"] == pytest.approx(np.sqrt(squares[squares > 0].min()), rel=1e-12)
    assert found["row_norm_max"] == pytest.approx(np.sqrt(squares.max()), rel=1e-12)
    assert found["row_norm_rms"] == pytest.approx(np.sqrt(squares[squares > 0].mean()), rel=1e-12)
    largest = max(0.25 * squares[nodes == node].mean() for node in range(5))
    assert found["sum_smoothness"] == pytest.approx(largest, rel=1e-12)
    assert found["kappa_s"] == pytest.approx(1 + largest / 1e-5, rel=1e-12)


@pytest.fixture
def plain(real_data: Path, tmp_path: Path) -> Path:
    file = tmp_path / "a9a"
    file.write_bytes(lzma.decompress((real_data / "a9a.xz").read_bytes()))
    return file


def test_the_same_store_from_plain_and_compressed_text(plain: Path, real_data: Path, tmp_path: Path) -> None:
    ours, theirs = (
        ingest(Svmlight(file), Partition(3), root=tmp_path / "stores") for file in (plain, real_data / "a9a.xz")
    )
    assert ours.path != theirs.path
    for node in range(3):
        for a, b in zip(ours.shard(node), theirs.shard(node), strict=True):
            assert a.tobytes() == b.tobytes()
