"""sampling=permuted: what event logs show of it, the same bits however it is run, and what it cannot do."""

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import dtoken
from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.npz import Npz
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.errors import InputError
from tests.engine.small import setup, small_shards
from tests.schedule.test_permuted import buckets

BUCKET = 8
EMPTY = (5, 64, 65, 170)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """200 rows, some of them empty."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("rows")
    matrix = rng.standard_normal((200, 9))
    matrix[list(EMPTY)] = 0.0
    labels = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    sp.save_npz(folder / "rows.npz", sp.csr_matrix(matrix))
    np.save(folder / "labels.npy", labels)
    return {"kind": "npz", "path": folder / "rows.npz", "y": folder / "labels.npy", "store": folder / "stores"}


def run(data: dict[str, Any], directory: Path, algorithm: dict[str, Any], **more: Any) -> Any:
    settings: dict[str, Any] = {
        "data": data,
        "nodes": 3,
        "partition": {"sizes": "unequal", "seed": 2},
        "algorithm": {"sampling": "permuted", "bucket_rows": BUCKET} | algorithm,
        "sigma": 0.05,
        "stop": {"passes": 30.0},
        "record": {"events": True},
        "directory": directory,
    }
    return dtoken.run(**settings | more)


def store_of(data: dict[str, Any]) -> ShardStore:
    return ingest(Npz(data["path"], data["y"]), Partition(3, sizes="unequal", seed=2), root=data["store"])


def filled_rows(data: dict[str, Any]) -> list[list[int]]:
    """The rows of each node that are not empty."""
    store = store_of(data)
    return [np.flatnonzero(np.diff(store.shard(node).indptr)).tolist() for node in range(store.n)]


def epochs(log: pd.DataFrame, node: int, size: int) -> list[list[int]]:
    """What a node used, epoch by epoch, without the last one if it is not over."""
    used = log[(log.node == node) & (log["sample"] >= 0)]["sample"].tolist()
    return [used[first : first + size] for first in range(0, len(used) - size + 1, size)]


METHODS: dict[str, dict[str, Any]] = {
    "tvr": {"_target_": "tvr", "tokens": 2},
    "tvr on arrival": {"_target_": "tvr", "tokens": 2, "compute": "on_arrival"},
    "tavr": {"_target_": "tavr"},
    "dvr": {"_target_": "dvr"},
}


@pytest.mark.parametrize("algorithm", METHODS.values(), ids=METHODS.keys())
def test_every_row_once_an_epoch_in_buckets_whose_order_is_always_another(
    data: dict[str, Any], algorithm: dict[str, Any], tmp_path: Path
) -> None:
    run(data, tmp_path, algorithm)
    log, orders, filled = pd.read_parquet(tmp_path / "events.parquet"), [], filled_rows(data)
    assert len({len(rows) for rows in filled}) == 3
    for node, rows in enumerate(filled):
        for epoch in epochs(log, node, len(rows)):
            assert sorted(epoch) == rows
            places = np.searchsorted(rows, epoch)
            together = buckets(places.tolist(), len(rows), BUCKET)
            orders.append(str(together))
    assert len(orders) > 20
    assert len(set(orders)) == len(orders)


def test_blocks_are_permuted_and_cut_to_buckets(data: dict[str, Any], tmp_path: Path) -> None:
    run(data, tmp_path, {"_target_": "tvr", "block_rows": 4, "bucket_rows": 11})  # two blocks a bucket
    log = pd.read_parquet(tmp_path / "events.parquet")
    for node, size in enumerate(store_of(data).node_rows):
        blocks = list(range(0, size, 4))
        for epoch in epochs(log, node, len(blocks)):
            assert sorted(epoch) == blocks
            assert buckets([row // 4 for row in epoch], len(blocks), 2)


@pytest.mark.parametrize("algorithm", METHODS.values(), ids=METHODS.keys())
def test_equal_bits_with_threads_records_and_resume(
    data: dict[str, Any], algorithm: dict[str, Any], tmp_path: Path
) -> None:
    whole = run(data, tmp_path / "a", algorithm)
    half = {"stop": {"passes": 11.0}, "checkpoint": {"every": 3}}
    run(data, tmp_path / "b", algorithm, threads=2, **half)
    again = run(data, tmp_path / "b", algorithm, threads=3, checkpoint={"every": 3})
    often = run(data, tmp_path / "c", algorithm, threads=2, record={"every_passes": 0.7})
    for other in (again, often):
        for name in ("theta", "tokens", "nodes"):
            assert np.array_equal(getattr(whole, name), getattr(other, name)), name
    logs = [pd.read_parquet(tmp_path / name / "events.parquet") for name in "ab"]
    pd.testing.assert_frame_equal(*logs)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            lambda: TVR(sampling="permuted", bucket_rows=0),
            r"algorithm\.bucket_rows=0, but a bucket has at least one row",
        ),
        (lambda: TAVR(sampling="permuted", bucket_rows=-3), r"bucket_rows=-3, but"),
        (
            lambda: TVR(sampling="uniform", bucket_rows=64),
            r"bucket_rows=64 belongs to algorithm\.sampling=permuted, not to uniform",
        ),
        (lambda: DVR(sampling="shuffled"), r"sampling=shuffled is not known; use one of uniform, importance, permuted"),
    ],
)
def test_bad_input(method: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        method()


def test_importance_weights_cannot_be_permuted() -> None:
    class Weighted(TVR):
        def weights(self, c: Any, L: Any) -> Any:
            return 1 + L

    case = setup(small_shards(), Weighted(sampling="permuted"))
    with (
        pytest.raises(InputError, match=r"importance weights; use sampling=importance, or no weights.*equal norms"),
        case.engine(),
    ):
        pass


def test_buckets_cost_no_passes_where_rows_have_a_direction_in_common(tmp_path: Path) -> None:
    """Rows that had the same neighbours in every epoch would take three times the passes."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1200, 20))
    rows[:, :5] += 3.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    apart = (rows - rows.mean(axis=0)) @ rng.standard_normal(20)
    labels = np.where(rng.random(1200) < 1 / (1 + np.exp(-4 * apart)), 1.0, -1.0)

    def passes(bucket_rows: int) -> float:
        result = dtoken.run(
            (rows, labels),
            4,
            {"_target_": "tavr", "start": "zero", "sampling": "permuted", "bucket_rows": bucket_rows},
            sigma=1e-4,
            partition={"kind": "shuffled"},
            stop={"passes": 400, "suboptimality": 1e-6},
            record={"every_passes": 1.0},
        )
        assert result.status == "done"
        return float(result.records[-1].passes)

    assert passes(16) <= 1.3 * passes(1)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["tvr", "tavr"])
@pytest.mark.parametrize("file", ["rcv1sub_binary.svm.xz", "a9a.xz", "w8a.xz"])
def test_no_more_passes_than_with_independent_draws(real_data: Path, tmp_path: Path, file: str, name: str) -> None:
    """Over four seeds, on 600 rows of real data, one by one and in buckets."""
    with lzma.open(real_data / file, "rt") as lines:
        rows = lines.readlines()
    (tmp_path / "rows.svm").write_text("".join(rows[:: len(rows) // 600][:600]))

    def passes(keys: dict[str, Any], seed: int) -> float:
        result = dtoken.run(
            {"kind": "svmlight", "path": tmp_path / "rows.svm", "store": tmp_path / "stores"},
            6,
            {"_target_": name, "start": "zero", **keys},
            sigma=1e-3,
            seed=seed,
            partition={"kind": "shuffled"},
            stop={"passes": 3000, "suboptimality": 1e-4},
            record={"every_passes": 0.5, "growth": 0.01},
        )
        assert result.status == "done"
        return float(result.records[-1].passes)

    orders = (
        {"sampling": "uniform"},
        {"sampling": "permuted", "bucket_rows": 1},
        {"sampling": "permuted", "bucket_rows": 8},
    )
    uniform, one_by_one, in_buckets = (sum(passes(keys, seed) for seed in range(4)) for keys in orders)
    assert one_by_one <= uniform
    assert in_buckets <= uniform


@pytest.mark.parametrize("cls", [TVR, TAVR, DVR])
def test_nothing_is_proved_of_permuted_samples_and_constants_are_those_of_uniform_draws(cls: Any) -> None:
    shards = small_shards()
    permuted, uniform = (setup(shards, cls(sampling=sampling)) for sampling in ("permuted", "uniform"))
    for mine, theirs in zip(permuted.constants, uniform.constants, strict=True):
        assert np.array_equal(mine, theirs)
    promise, other = (case.method.promise(case.constants, case.facts) for case in (permuted, uniform))
    assert promise.rate == other.rate
    assert "observed" in promise.basis
    assert other.basis == ("proved" if cls is not DVR else promise.basis)
    best = np.zeros(shards.d)
    bound = permuted.method.bound(permuted.constants, permuted.facts, permuted.problem, best)
    assert bound is None


def test_a_bucket_larger_than_a_node_is_cut() -> None:
    shards = small_shards()
    events = [setup(shards, TVR(sampling="permuted", bucket_rows=rows)).events(3000) for rows in (10**6, 10**9)]
    assert np.array_equal(events[0].draw, events[1].draw)
