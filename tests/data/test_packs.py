"""Nodes that share a pack: the rows, the runs and the answers are those of nodes that lie apart."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtoken
from dtoken.data import build
from dtoken.data.chunks import DamagedStore
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.remote import open_store
from dtoken.data.rows import concatenate
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.data.verify import verify

OLD = Path(__file__).with_name("version_2.json")  # written by the last dtoken that wrote this version
SAME = Synthetic(rows=30, features=6, density=0.5), Partition(3, "shuffled", sizes="unequal")


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    for name, content in json.loads(OLD.read_text()).items():
        file = tmp_path / "old.zarr" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            file.write_bytes(base64.b85decode(content))
        else:
            file.write_text(json.dumps(content, indent=1))
    return tmp_path / "old.zarr"


def test_stores_of_version_2_stay_readable(old_store: Path, tmp_path: Path) -> None:
    store, now = ShardStore.open(old_store), ingest(*SAME, root=tmp_path)
    assert (store.meta.version, now.meta.version) == (2, 3)
    assert store.digest == "7870334c534ff86194678aa5ad4c30f7588cd2b8f8b33a1bd685b947576b9106"
    assert store.meta.pack_nodes.tolist() == [0, 1, 2]
    assert verify(store) == []
    for node in range(3):
        assert [a.tobytes() for a in store.shard(node)] == [a.tobytes() for a in now.shard(node)]
    assert result_of(store, tmp_path / "scratch") == result_of(now, tmp_path / "scratch")


def test_damage_of_version_2_is_found(old_store: Path) -> None:
    file = old_store / "nodes/1/X/data/c/0"
    file.write_bytes(file.read_bytes()[::-1])
    store = ShardStore.open(old_store)
    assert verify(store) == [f"{file} is damaged: its checksum does not match"]
    with pytest.raises(DamagedStore, match="checksum"):
        store.shard(1)
    root = old_store / "zarr.json"
    root.write_text(root.read_text().replace('"index_base": 0', '"index_base": 1'))
    with pytest.raises(DamagedStore, match="digest"):
        ShardStore.open(old_store)


def result_of(store: ShardStore, scratch: Path, **settings: Any) -> bytes:
    """The tokens of a run on this very store, read as a remote one is."""
    method = {"_target_": "tvr", "tokens": 2}
    data = {"store": f"file://{store.path}", "scratch": str(scratch)}
    found = dtoken.run(data=data, nodes=store.n, algorithm=method, stop={"passes": 3}, sigma=0.1, threads=1, **settings)
    return bytes(found.tokens.tobytes())


PARTITIONS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "shuffled": {"kind": "shuffled"},
    "unequal": {"kind": "shuffled", "sizes": "unequal"},
    "dirichlet": {"kind": "dirichlet", "alpha": 0.3},
}


@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)
def test_runs_have_the_same_bits_however_nodes_are_packed(
    partition: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Synthetic(rows=400, features=30, density=0.2)
    found = []
    for entries, memory in ((0, 32 << 20), (300, 4000), (1 << 26, 32 << 20)):
        monkeypatch.setattr(build, "PACK_ENTRIES", entries)
        monkeypatch.setattr(build, "CHUNK_ENTRIES", 64)
        monkeypatch.setattr(build, "SPREAD_MEMORY", memory)
        store = ingest(source, Partition(20, **partition), root=tmp_path / str(entries))
        assert verify(store) == []
        rows = concatenate(list(store.blocks(0, store.n)))
        found.append([array.tobytes() for array in (*rows, store.node_rows, store.meta.node_positives)])
        found[-1].append(result_of(store, tmp_path / "scratch"))
        assert (store.meta.packs == 1) == (entries == 1 << 26)
    assert found[0] == found[1] == found[2]


def test_a_node_of_a_pack_is_read_by_its_own_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "CHUNK_ENTRIES", 1000)
    store = ingest(Synthetic(rows=4000, features=40, density=0.2), Partition(10), root=tmp_path)
    assert store.meta.packs == 1
    remote = open_store(f"file://{store.path}", tmp_path / "scratch")
    assert remote.shard(3).data.tobytes() == store.shard(3).data.tobytes()
    assert 4 <= len(list((tmp_path / "scratch").rglob("X/data/c/*"))) <= 5  # of 32


def test_large_nodes_have_packs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LARGE_NODE", 40)
    numbers = np.repeat(np.arange(6), [3, 3, 60, 3, 3, 3])
    store = ingest(Synthetic(rows=75, features=4), Partition.of_rows(numbers), root=tmp_path)
    assert store.meta.pack_nodes.tolist() == [0, 2, 3]
    assert verify(store) == []


@pytest.mark.filterwarnings("ignore")  # of anndata and zarr, about what they will change
def test_anndata_opens_packs_and_large_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anndata.io
    import zarr

    monkeypatch.setattr(build, "LARGE_NODE", 40)
    numbers = np.repeat(np.arange(6), [3, 3, 60, 3, 3, 3])
    store = ingest(Synthetic(rows=75, features=4, density=0.5), Partition.of_rows(numbers), root=tmp_path)
    root = zarr.open_group(store.path, mode="r")
    for pack, nodes in enumerate(([0, 1], [2], [3, 4, 5])):
        rows = concatenate([store.shard(node) for node in nodes])
        theirs = anndata.io.read_elem(root[f"packs/{pack}/X"])
        assert theirs.shape == (rows.rows, 4)
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(theirs, name), getattr(rows, name))
        np.testing.assert_array_equal(anndata.io.read_elem(root[f"packs/{pack}/y"]), rows.y)


def test_a_bucket_that_is_larger_than_expected_is_read_in_parts(
    rows_source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first nodes have all the entries: the expected size of a row says little."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    dense = rng.standard_normal((200, 50)) * (np.arange(200) < 40)[:, None]
    numbers = np.arange(200) // 2 % 100
    order = rng.permutation(200)
    source = rows_source(sp.csr_array(dense[order]), np.where(rng.random(200) < 0.5, -1.0, 1.0))
    stores = []
    for memory in (32 << 20, 3000):
        monkeypatch.setattr(build, "SPREAD_MEMORY", memory)
        stores.append(ingest(source, Partition.of_rows(numbers[order]), root=tmp_path / str(memory)))
    assert stores[0].digest == stores[1].digest
    for node in (0, 7, 19, 20, 99):
        expected = dense[order][numbers[order] == node]
        shard = stores[1].shard(node)
        assert (
            sp.csr_array((shard.data, shard.indices, shard.indptr), shape=(2, 50)).toarray().tolist()
            == expected.tolist()
        )
