"""Damage of any kind, anywhere in a store: found by verify, by its name, and by whoever reads the shard."""

import shutil
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from dtoken.cli.data import main
from dtoken.data import build
from dtoken.data.store import ARRAYS, DamagedStore, ShardStore
from dtoken.data.verify import verify


@pytest.fixture
def store(make_store: Callable[..., ShardStore], monkeypatch: pytest.MonkeyPatch) -> ShardStore:
    monkeypatch.setattr(build, "CHUNK_ENTRIES", 20)
    monkeypatch.setattr(build, "CHUNK_ROWS", 7)
    return make_store(nodes=3)


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
    node = int(rng.integers(store.n))
    array = store.array(node, rng.choice(list(ARRAYS)))
    file = array.chunk_path(int(rng.integers(array.chunks)))
    assert len(list(store.path.rglob("c/*"))) > 20
    damage(file, rng)
    (fault,) = verify(store)
    assert fault.startswith(f"{file} ")
    with pytest.raises(DamagedStore) as caught:
        store.shard(node)
    assert str(caught.value) == f"{fault}; delete the store and ingest again"
    with pytest.raises(DamagedStore, match="delete the store and ingest again"):
        list(store.blocks(node))
    for other in set(range(store.n)) - {node}:
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
    files = [store.array(0, "X/data").chunk_path(1), store.array(2, "y").chunk_path(0)]
    files += [store.array(2, "X/indices").chunk_path(0), store.path / "nodes/1/X/indptr/zarr.json"]
    delete(files[0], np.random.default_rng(0))
    for file in files[1:]:
        flip(file, np.random.default_rng(1))
    assert main(["verify", str(store.path)]) == 1
    said = capsys.readouterr()
    assert sorted(line.split(" ")[0] for line in said.out.splitlines()) == sorted(map(str, files))
    assert f"{files[0]} is missing\n" in said.out
    assert f"{files[1]} is damaged: its checksum does not match\n" in said.out
    assert said.err == f"4 faults in {store.path}; delete it and ingest again.\n"


def test_a_missing_node_is_named_file_by_file(store: ShardStore) -> None:
    files = {str(file) for file in (store.path / "nodes/1").rglob("*") if file.is_file()}
    shutil.rmtree(store.path / "nodes/1")
    assert {fault.removesuffix(" is missing") for fault in verify(store)} == files


def test_contents_that_were_written_wrong(store: ShardStore) -> None:
    """A correct checksum over impossible values: the fault of another program."""

    def rewrite(name: str, value: float) -> None:
        array = store.array(1, name)
        content = array.read_chunk(0).copy()
        full = np.frombuffer(array.chunk_path(0).read_bytes()[:-4], array.dtype).copy()
        full[: len(content)] = content
        full[1] = value
        body = full.tobytes()
        array.chunk_path(0).write_bytes(body + int(google_crc32c.value(body)).to_bytes(4, "little"))

    kept = {file: file.read_bytes() for file in store.path.rglob("c/*")}
    for name, value, fault in (
        ("X/indices", 12, "X/indices leaves the range 0..11"),
        ("X/indices", -1, "X/indices leaves the range 0..11"),
        ("X/data", np.inf, "X/data holds a value that is not finite"),
        ("y", 0.5, "y holds a label other than -1 and +1"),
    ):
        rewrite(name, value)
        assert verify(store) == [f"{store.path}/nodes/1/{fault}"]
        for file, content in kept.items():
            file.write_bytes(content)
    assert verify(store) == []


def test_a_damaged_root_stops_verify_and_inspect(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    file = store.path / "zarr.json"
    rows, fewer = (f'"rows": {number}' for number in (store.meta.rows, store.meta.rows - 1))
    file.write_text(file.read_text().replace(rows, fewer))
    for command in ("verify", "inspect"):
        assert main([command, str(store.path)]) == 1
        fault = f"{file} is damaged: its checksum does not match; delete the store and ingest again"
        assert capsys.readouterr().err == f"{fault}.\n"
