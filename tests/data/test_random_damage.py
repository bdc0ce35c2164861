"""Three hundred random damages of stores, packed or not: each is found by verify and by readers, or changes nothing."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtoken
from dtoken.data import build
from dtoken.data.chunks import DamagedStore
from dtoken.data.ingest import ingest
from dtoken.data.meta import CHECKSUMS, INDEX
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.data.verify import verify
from dtoken.errors import InputError, RunError

DAMAGES = 150  # of each kind of store
RUNS_EVERY = 10  # of them a whole run meets
DATA = {"rows": 36, "features": 5, "density": 0.5}
SETTINGS: dict[str, Any] = {
    "nodes": 3,
    "algorithm": {"_target_": "tvr", "tokens": 2},
    "sigma": 0.1,
    "stop": {"passes": 1},
    "threads": 1,
}

Rng = np.random.Generator
Damage = Callable[[Path, Path, Rng], None]  # of a store, given another one


def pick(root: Path, rng: Rng, pattern: str = "c/*") -> Path:
    files = sorted(file for file in root.rglob(pattern) if file.is_file())
    return files[rng.integers(len(files))]


def pair(root: Path, rng: Rng) -> tuple[Path, Path]:
    """Two chunks of the same size, of any nodes; one that has no such companion is not chosen."""
    files = [file for file in sorted(root.rglob("c/*")) if file.is_file()]
    alike = [(a, b) for a in files for b in files if a != b and a.stat().st_size == b.stat().st_size]
    return alike[rng.integers(len(alike))]


def exchange(first: Path, second: Path) -> None:
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])


def flip(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng, "*")
    content = bytearray(file.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    file.write_bytes(content)


def truncate(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng, "*")
    os.truncate(file, rng.integers(file.stat().st_size))


def extend(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng, "*")
    file.write_bytes(file.read_bytes() + rng.bytes(int(rng.integers(1, 9))))


def delete(store: Path, other: Path, rng: Rng) -> None:
    pick(store, rng, "*").unlink()


def zero(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng)
    file.write_bytes(bytes(file.stat().st_size))


def swap(store: Path, other: Path, rng: Rng) -> None:
    exchange(*pair(store, rng))


def swap_inside_an_array(store: Path, other: Path, rng: Rng) -> None:
    array = store / "packs" / str(rng.integers(packs(store))) / "X" / str(rng.choice(["data", "indices", "indptr"]))
    exchange(*pair(array, rng))


def copy(store: Path, other: Path, rng: Rng) -> None:
    file, other_file = pair(store, rng)
    file.write_bytes(other_file.read_bytes())


def chunk_of_another_store(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng)
    stranger = other / file.relative_to(store)
    if stranger.exists():
        file.write_bytes(stranger.read_bytes())


def packs(store: Path) -> int:
    return sum(each.is_dir() for each in (store / "packs").iterdir())


def pack_of_another_store(store: Path, other: Path, rng: Rng) -> None:
    pack = str(rng.integers(packs(store)))
    shutil.rmtree(store / "packs" / pack)
    shutil.copytree(other / "packs" / pack, store / "packs" / pack)


def swap_packs(store: Path, other: Path, rng: Rng) -> None:
    first, second = (store / "packs" / str(pack) for pack in rng.permutation(packs(store))[:2])
    first.rename(store / "aside")
    second.rename(first)
    (store / "aside").rename(second)


def root_of_another_store(store: Path, other: Path, rng: Rng) -> None:
    lists = [f"{name}/c/0" for name in (CHECKSUMS, *INDEX)]
    names = ["zarr.json", *lists]
    for name in rng.permutation(names)[: rng.integers(1, len(names) + 1)]:
        shutil.copy(other / name, store / name)


def attribute(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng, "zarr.json")
    content = json.loads(file.read_text())
    named = content["attributes"]
    key = rng.choice([*named, "new"])
    named[key] = [0, -1, None, 7, [], "text"][rng.integers(6)]
    file.write_text(json.dumps(content, indent=1))


def number_in_metadata(store: Path, other: Path, rng: Rng) -> None:
    file = pick(store, rng, "zarr.json")
    text = file.read_text()
    places = [place for place, letter in enumerate(text) if letter.isdecimal()]
    place = places[rng.integers(len(places))]
    file.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])


KINDS: list[Damage] = [
    flip,
    truncate,
    extend,
    delete,
    zero,
    swap,
    swap_inside_an_array,
    copy,
    chunk_of_another_store,
    pack_of_another_store,
    swap_packs,
    root_of_another_store,
    attribute,
    number_in_metadata,
]


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def restore(path: Path, before: dict[str, bytes]) -> None:
    now = contents(path)
    for name, content in before.items():
        if now.pop(name, None) != content:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    for name in now:
        (path / name).unlink()


def rows(path: Path) -> list[bytes]:
    store = ShardStore.open(path)
    return [array.tobytes() for block in store.blocks(0, store.n) for array in block]


def faults(path: Path) -> list[str]:
    try:
        return verify(ShardStore.open(path))
    except (DamagedStore, InputError) as error:
        return [str(error)]


@pytest.mark.parametrize(("entries", "first"), [(0, [0, 1, 2]), (70, [0, 2])], ids=["nodes apart", "packed"])
def test_every_damage_is_found_or_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, first: list[int]
) -> None:
    monkeypatch.setattr(build, "PACK_ENTRIES", entries)
    monkeypatch.setattr(build, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(build, "CHUNK_ROWS", 7)
    seed = int(os.environ.get("DTOKEN_DAMAGE_SEED", np.random.SeedSequence().generate_state(1)[0]))
    print(f"DTOKEN_DAMAGE_SEED={seed}")
    path, other = (ingest(Synthetic(**DATA, seed=s), Partition(3), root=tmp_path / "stores").path for s in (0, 1))
    assert ShardStore.open(path).meta.pack_nodes.tolist() == first
    source = {"kind": "synthetic", "store": str(tmp_path / "stores"), **DATA}
    expected = dtoken.run(data=source, **SETTINGS)
    before, good = contents(path), rows(path)
    harmless = silent = 0
    for number in range(DAMAGES):
        rng = np.random.default_rng([seed, number])
        damage = KINDS[number % len(KINDS)]
        damage(path, other, rng)
        about = f"damage {number}: {damage.__name__}"
        same = contents(path) == before  # the chunks that were swapped are equal
        assert bool(faults(path)) != same, about
        harmless += same
        try:
            assert rows(path) == good, about  # what was damaged is no part of what a run reads
            silent += 1
            refused = False
        except (DamagedStore, InputError):
            refused = True
        if number % RUNS_EVERY == 0:
            try:
                assert dtoken.run(data=source, **SETTINGS).tokens.tobytes() == expected.tokens.tobytes(), about
            except (InputError, RunError):
                assert refused, about
            else:
                assert not refused, about
        restore(path, before)
    assert harmless < DAMAGES / 10
    assert silent < DAMAGES / 2
