"""What is in a store, as zarr and anndata see it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata.io
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st

from dtoken.data import build
from dtoken.data.chunks import DamagedStore
from dtoken.data.rows import RowBlock, concatenate, cut, select
from dtoken.data.store import ShardStore
from dtoken.data.verify import verify
from dtoken.errors import InputError


@pytest.fixture(params=[(1 << 20, 1 << 20), (8, 4), (1, 1), (5, 100), (100, 3)], ids=str)
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Elements of a chunk: per entry and per row."""
    entries, rows = request.param
    monkeypatch.setattr(build, "CHUNK_ENTRIES", entries)
    monkeypatch.setattr(build, "CHUNK_ROWS", rows)
    monkeypatch.setattr(build, "CHUNKS", 10**9)  # they do not grow
    monkeypatch.setattr(build, "SPREAD_MEMORY", 500)
    return entries, rows


@pytest.fixture(params=[0, 1 << 26], ids=["nodes apart", "packed"])
def packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most entries of a pack of several nodes."""
    monkeypatch.setattr(build, "PACK_ENTRIES", request.param)
    return int(request.param)


def as_matrix(block: RowBlock, d: int) -> sp.csr_matrix:
    return sp.csr_matrix((block.data, block.indices, block.indptr), shape=(block.rows, d))


def assert_same_block(a: RowBlock, b: RowBlock) -> None:
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


def test_shards_hold_the_rows(
    make_store: Callable[..., ShardStore], random_rows: Callable[..., Any], chunks: tuple[int, int], packing: int
) -> None:
    source = random_rows(50)
    store = make_store(source, nodes=4, sizes="equal")
    assert store.node_rows.tolist() == [12, 12, 12, 12]
    assert store.meta.packs == (1 if packing else 4)
    assert (store.meta.rows, store.meta.dropped_rows) == (48, 2)
    for node in range(4):
        shard = store.shard(node)
        rows = slice(12 * node, 12 * node + 12)
        assert (as_matrix(shard, store.d) != source.matrix[rows]).nnz == 0
        assert len(shard.data) == source.matrix[rows].nnz == store.node_nonzeros[node]
        assert shard.y.tolist() == source.y[rows].tolist()
        assert store.meta.node_positives[node] == int((shard.y > 0).sum())
        assert not any(array.flags.writeable for array in shard)
        assert [str(array.dtype) for array in shard] == ["float64", "int32", "int64", "float64"]
    assert store.meta.nonzeros == sum(store.node_nonzeros)
    assert verify(store) == []


def test_blocks_together_are_the_shard(
    make_store: Callable[..., ShardStore], chunks: tuple[int, int], packing: int
) -> None:
    store = make_store(nodes=3)
    whole = concatenate([store.shard(node) for node in range(3)])
    assert_same_block(concatenate(list(store.blocks(0, 3))), whole)
    assert_same_block(concatenate(list(store.blocks(1, 3))), concatenate([store.shard(1), store.shard(2)]))
    for node in range(3):
        blocks = list(store.blocks(node))
        assert_same_block(concatenate(blocks), store.shard(node))
        for block in blocks:
            assert block.indptr[0] == 0
            assert block.rows == 1 or len(block.data) <= chunks[0]
            assert block.rows <= chunks[1]
            assert not any(array.flags.writeable for array in block)


def test_any_zarr_reader_and_anndata_see_the_same(
    make_store: Callable[..., ShardStore], chunks: tuple[int, int], packing: int
) -> None:
    store = make_store(nodes=3, kind="shuffled")
    root = zarr.open_group(store.path, mode="r")
    assert root.attrs["format"] == "dtoken-shards"
    assert root.attrs["n"] == 3
    assert root["node_rows"][:].tolist() == store.node_rows.tolist()
    assert root["pack_nodes"][:].tolist() == ([0] if packing else [0, 1, 2])
    for pack in range(1 if packing else 3):
        shard = concatenate(list(store.blocks(0, 3))) if packing else store.shard(pack)
        matrix = anndata.io.read_elem(root[f"packs/{pack}/X"])
        assert matrix.shape == (shard.rows, store.d)
        assert matrix.data.tobytes() == shard.data.tobytes()
        assert matrix.indices.tolist() == shard.indices.tolist()
        assert matrix.indptr.tolist() == shard.indptr.tolist()
        assert anndata.io.read_elem(root[f"packs/{pack}/y"]).tolist() == shard.y.tolist()
        for name, limit in {"X/data": chunks[0], "X/indices": chunks[0], "X/indptr": chunks[1]}.items():
            array = root[f"packs/{pack}/{name}"]
            assert array.chunks == (min(limit, array.shape[0]),)
            assert array.nchunks_initialized == array.nchunks == -(-array.shape[0] // array.chunks[0])
            assert len(list((store.pack_path(pack) / name / "c").iterdir())) == array.nchunks


def test_nodes_without_entries(
    make_store: Callable[..., ShardStore], rows_source: Any, chunks: tuple[int, int], packing: int
) -> None:
    matrix = sp.csr_array(np.diag([0.0, 0.0, 1.0, 2.0]))
    store = make_store(rows_source(matrix, np.array([1.0, -1.0, 1.0, -1.0])), nodes=2)
    assert store.node_nonzeros.tolist() == [0, 2]
    assert verify(store) == []
    assert_same_block(concatenate(list(store.blocks(0))), store.shard(0))
    root = zarr.open_group(store.path, mode="r")
    assert anndata.io.read_elem(root["packs/0/X"]).shape == (4 if packing else 2, 4)
    assert anndata.io.read_elem(root["packs/0/X"]).nnz == (2 if packing else 0)


def test_a_missing_chunk_shows_in_any_reader(make_store: Callable[..., ShardStore]) -> None:
    store = make_store(nodes=1)
    for name in ("X/data", "X/indices", "X/indptr", "y"):
        store.array(0, name).chunk_path(0).unlink()
    root = zarr.open_group(store.path, mode="r")
    assert np.isnan(root["packs/0/X/data"][:]).all()
    assert np.isnan(root["packs/0/y"][:]).all()
    assert (root["packs/0/X/indices"][:] == -1).all()
    assert (root["packs/0/X/indptr"][:] == -1).all()


def test_stores_of_other_chunk_sizes_stay_readable(
    make_store: Callable[..., ShardStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build, "CHUNK_ENTRIES", 6)
        store = make_store(nodes=2)
    assert len(list((store.path / "packs/0/X/data/c").iterdir())) > 3
    assert verify(ShardStore.open(store.path)) == []


def test_open_reads_what_was_written(make_store: Callable[..., ShardStore]) -> None:
    store = make_store(nodes=2, kind="dirichlet", seed=4, alpha=0.5)
    again = ShardStore.open(str(store.path))
    assert again == store
    assert again.meta.partition == {
        "nodes": 2,
        "kind": "dirichlet",
        "seed": 4,
        "sizes": "keep",
        "alpha": 0.5,
    }
    assert again.meta.source["kind"] == "rows"
    assert (again.meta.chunk_entries, again.meta.chunk_rows) == (1 << 20, 1 << 20)


def test_folders_that_are_no_stores(tmp_path: Path, make_store: Callable[..., ShardStore]) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(InputError) as caught:
            ShardStore.open(path)
        return str(caught.value)

    assert refusal(tmp_path / "absent") == f"{tmp_path / 'absent'} does not exist"
    assert refusal(tmp_path) == f"{tmp_path} is not a dtoken store: it has no zarr.json"
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file") == f"{tmp_path / 'file'} is a file, not a dtoken store; ingest it first"
    zarr.create_group(tmp_path / "other")
    assert refusal(tmp_path / "other") == f"{tmp_path / 'other'} is a zarr hierarchy, but not a dtoken store"
    store = make_store(nodes=2)
    file = store.path / "zarr.json"
    content = json.loads(file.read_bytes())
    content["attributes"]["format_version"] = 99
    file.write_text(json.dumps(content))
    refused = f"{store.path} has format version 99, this dtoken reads 2 and 3; ingest the source again"
    command = "dtoken-data ingest rows --nodes 2 --partition contiguous --sizes keep"
    assert refusal(store.path).startswith(f"{refused}: {command}")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"attributes": 7'])
def test_a_root_that_is_no_metadata(make_store: Callable[..., ShardStore], content: bytes) -> None:
    store = make_store(nodes=2)
    (store.path / "zarr.json").write_bytes(content)
    with pytest.raises(DamagedStore, match=r"zarr\.json is damaged; delete the store and ingest again"):
        ShardStore.open(store.path)


def test_a_root_with_a_changed_number(make_store: Callable[..., ShardStore]) -> None:
    store = make_store(nodes=2)
    file = store.path / "zarr.json"
    file.write_text(file.read_text().replace('"d": 12', '"d": 13'))
    with pytest.raises(DamagedStore, match=r"zarr\.json is damaged: its digest does not match"):
        ShardStore.open(store.path)


rows_strategy = st.lists(st.lists(st.integers(0, 9), max_size=4, unique=True), min_size=1, max_size=8)


def block_of(rows: list[list[int]]) -> RowBlock:
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([i for row in rows for i in sorted(row)], np.int32)
    return RowBlock(np.arange(len(indices), dtype=np.float64), indices, indptr, np.arange(float(len(rows))))


@given(rows_strategy, st.data())
def test_rows_are_cut_joined_and_selected_as_by_scipy(rows: list[list[int]], data: Any) -> None:
    block = block_of(rows)
    matrix = as_matrix(block, 10)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    picked = select(block, np.array(chosen, np.intp))
    assert (as_matrix(picked, 10) != matrix[chosen]).nnz == 0
    assert picked.y.tolist() == [float(row) for row in chosen]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    piece = cut(block, start, stop)
    assert (as_matrix(piece, 10) != matrix[start:stop]).nnz == 0
    both = concatenate([piece, picked, block])
    expected = sp.vstack([matrix[start:stop], matrix[chosen], matrix], "csr")
    assert (as_matrix(both, 10) != expected).nnz == 0
    assert both.indptr.tolist() == expected.indptr.tolist()
