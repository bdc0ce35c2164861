"""Damage of any kind, anywhere in a store: found by verify, by its name, and by whoever reads the shard."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dtoken.cli.data import main
from dtoken.data import build
from dtoken.data.chunks import ARRAYS, DamagedStore
from dtoken.data.store import ShardStore
from dtoken.data.verify import verify
from tests.data.forge import rewrite, seal


@pytest.fixture(params=[0, 130], ids=["nodes apart", "packed"])
def store(
    make_store: Callable[..., ShardStore], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ShardStore:
    monkeypatch.setattr(build, "CHUNK_ENTRIES", 20)
    monkeypatch.setattr(build, "CHUNK_ROWS", 7)
    monkeypatch.setattr(build, "PACK_ENTRIES", request.param)
    made = make_store(nodes=3)
    assert made.meta.pack_nodes.tolist() == ([0, 2] if request.param else [0, 1, 2])
    return made


def nodes_of(store: ShardStore, pack: int) -> range:
    first = [*store.meta.pack_nodes.tolist(), store.n]
    return range(first[pack], first[pack + 1])


def flip(file: Path, rng: np.random.Generator) -> None:
    content = bytearray(file.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    file.write_bytes(content)


def truncate(file: Path, rng: np.random.Generator) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.integers(len(content))])


def lengthen(file: Path, rng: np.random.Generator) -> None:
    file.write_bytes(file.read_bytes() + rng.bytes(int(rng.integers(1, 20))))


def swap_halves(file: Path, rng: np.random.Generator) -> None:
    content = file.read_bytes()
    half = len(content) // 2
    file.write_bytes(content[half:] + content[:half])


def delete(file: Path, rng: np.random.Generator) -> None:
    file.unlink()


def zero(file: Path, rng: np.random.Generator) -> None:
    file.write_bytes(bytes(len(file.read_bytes())))


def replace_by_a_folder(file: Path, rng: np.random.Generator) -> None:
    file.unlink()
    file.mkdir()


DAMAGES = [flip, truncate, lengthen, swap_halves, delete, zero, replace_by_a_folder]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(15))
def test_a_damaged_chunk_is_found(store: ShardStore, damage: Callable[..., None], seed: int) -> None:
    rng = np.random.default_rng([seed, DAMAGES.index(damage)])
    pack = int(rng.integers(store.meta.packs))
    array = store.array(pack, rng.choice(list(ARRAYS)))
    file = array.chunk_path(int(rng.integers(array.chunks)))
    assert len(list(store.path.rglob("c/*"))) > 20
    damage(file, rng)
    (fault,) = verify(store)
    assert fault.startswith(f"{file} ")
    own = nodes_of(store, pack)
    with pytest.raises(DamagedStore) as caught:
        list(store.blocks(own.start, own.stop))
    assert str(caught.value) == f"{fault}; delete the store and ingest again"
    with pytest.raises(DamagedStore, match="delete the store and ingest again"):
        [store.shard(node) for node in own]
    for other in set(range(store.n)) - set(own):
        store.shard(other)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(8))
def test_damaged_metadata_is_found(store: ShardStore, damage: Callable[..., None], seed: int) -> None:
    rng = np.random.default_rng([seed, DAMAGES.index(damage)])
    file = rng.choice(sorted(store.path.rglob("zarr.json")))
    damage(file, rng)
    (fault,) = verify(store)
    assert fault.startswith(f"{file} ")


def test_every_fault_is_named(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    files = [store.array(0, "X/data").chunk_path(1), store.array(1, "y").chunk_path(0)]
    files += [store.array(1, "X/indices").chunk_path(0), store.pack_path(0) / "X/indptr/zarr.json"]
    delete(files[0], np.random.default_rng(0))
    for file in files[1:]:
        flip(file, np.random.default_rng(1))
    assert main(["verify", str(store.path)]) == 1
    said = capsys.readouterr()
    assert sorted(line.split(" ")[0] for line in said.out.splitlines()) == sorted(map(str, files))
    assert f"{files[0]} is missing\n" in said.out
    assert f"{files[1]} is damaged: its checksum does not match\n" in said.out
    assert said.err == f"4 faults in {store.path}; delete it and ingest again.\n"


def test_a_missing_pack_is_named_file_by_file(store: ShardStore) -> None:
    files = {str(file) for file in store.pack_path(1).rglob("*") if file.is_file()}
    shutil.rmtree(store.pack_path(1))
    assert {fault.removesuffix(" is missing") for fault in verify(store)} == files


FORGED = [  # array, place in its first chunk, value, what is wrong, whether a run could not survive it
    ("X/indices", 1, 12, "X/indices leaves the range 0..11", True),
    ("X/indices", 1, -1, "X/indices leaves the range 0..11", True),
    ("X/indices", 1, -(2**31), "X/indices leaves the range 0..11", True),
    ("X/indices", 1, 0, "X/indices does not increase inside a row", False),
    ("X/data", 1, np.inf, "X/data holds a value that is not finite", False),
    ("X/indptr", 0, 1, "X/indptr begins with 1 instead of 0", True),
    ("X/indptr", 2, 2**40, "X/indptr decreases", True),
    ("X/indptr", 3, -5, "X/indptr decreases", True),
    ("y", 1, 0.5, "y holds a label other than -1 and +1", True),
    ("y", 1, np.nan, "y holds a label other than -1 and +1", True),
]


@pytest.mark.parametrize(("name", "place", "value", "fault", "refused"), FORGED)
def test_contents_that_were_written_wrong(
    store: ShardStore, name: str, place: int, value: float, fault: str, refused: bool
) -> None:
    """Correct checksums over impossible values: the fault of another program, or an attack."""
    rewrite(store, 1, name, 0, {place: value})
    seal(store)
    forged = ShardStore.open(store.path)
    assert verify(forged) == [f"{store.pack_path(1)}/{fault}"]
    if refused:
        first = nodes_of(store, 1).start
        for read in (lambda: forged.shard(first), lambda: list(forged.blocks(first, first + 1))):
            with pytest.raises(DamagedStore, match=fault.split(" ")[0]):
                read()


def test_rows_that_do_not_end_with_the_entries(store: ShardStore) -> None:
    array = store.array(1, "X/indptr")
    last = array.length - 1 - (array.chunks - 1) * array.chunk
    entries = store.array(1, "X/data").length
    for value in (entries - 1, entries + 1):
        rewrite(store, 1, "X/indptr", array.chunks - 1, {last: value})
        seal(store)
        forged = ShardStore.open(store.path)
        said = f"X/indptr ends with {value}, but there are {entries} entries"
        assert verify(forged) == [f"{store.pack_path(1)}/{said}"]
        with pytest.raises(DamagedStore, match="X/indptr ends with"):
            list(forged.blocks(nodes_of(store, 1)[-1]))


def test_nodes_that_begin_elsewhere_than_their_sizes_say(make_store: Callable[..., ShardStore]) -> None:
    """Sizes of nodes with the right sum and the right digest, but not those of the rows."""
    store = make_store(nodes=3)
    assert store.meta.packs == 1
    counts = store.node_nonzeros + np.array([1, -1, 0])
    seal(store, node_nonzeros=counts)
    forged = ShardStore.open(store.path)
    said = f"X/indptr has node 1 begin at entry {counts[0] - 1}, but node_nonzeros says {counts[0]}"
    assert verify(forged) == [f"{store.pack_path(0)}/{said}"]
    for read in (lambda: list(forged.blocks(0, 3)), lambda: forged.shard(0), lambda: forged.shard(1)):
        with pytest.raises(DamagedStore, match="X/indptr"):
            read()


@pytest.mark.parametrize(
    "changed",
    [
        {"d": 0},
        {"d": 2**31},
        {"d": -1},
        {"d": "12"},
        {"n": 4},
        {"n": 2**62},
        {"rows": 7},
        {"nonzeros": 10**30},
        {"node_rows": [17, 17, 0]},
        {"node_rows": [17, 17]},
        {"node_rows": [2**62, 2**62, 50]},
        {"node_nonzeros": [-1, 2, 3]},
        {"node_positives": [1]},
        {"pack_nodes": [0, 0]},
        {"pack_nodes": [1, 2]},
        {"pack_nodes": [0, 3]},
        {"pack_nodes": []},
        {"node_sizes": [17, 17, 16]},
        {"chunk_entries": 0},
        {"chunk_rows": True},
        {"chunk_rows": 2**20},
        {"more": 1},
        {"source": 7},
        {"partition": None},
    ],
    ids=str,
)
def test_impossible_attributes_are_refused(store: ShardStore, changed: dict[str, object]) -> None:
    seal(store, **changed)
    with pytest.raises(DamagedStore, match=r"zarr\.json is damaged: "):
        ShardStore.open(store.path)


def test_labels_that_were_counted_wrong(store: ShardStore) -> None:
    counts = store.meta.node_positives.tolist()
    seal(store, node_positives=[counts[0], counts[1] + 1, counts[2]])
    (fault,) = verify(ShardStore.open(store.path))
    said = f"node 1 has {counts[1]} positive labels, but node_positives says {counts[1] + 1}"
    assert fault == f"{store.pack_path(store.meta.pack_of(1))}/y: {said}"


def test_what_does_not_belong_to_the_store_is_named(store: ShardStore) -> None:
    (store.path / "packs/3").mkdir()
    (store.path / "packs/1/X/data/c/99").write_bytes(b"x")
    assert verify(store) == [
        f"{store.path}/packs/{each} does not belong to the store" for each in ("3", "1/X/data/c/99")
    ]


def test_a_damaged_root_stops_verify_and_inspect(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    file = store.path / "zarr.json"
    rows, fewer = (f'"rows": {number}' for number in (store.meta.rows, store.meta.rows - 1))
    file.write_text(file.read_text().replace(rows, fewer))
    for command in ("verify", "inspect"):
        assert main([command, str(store.path)]) == 1
        fault = f"{file} is damaged: its digest does not match; delete the store and ingest again"
        assert capsys.readouterr().err == f"{fault}.\n"
