"""Checkpoints: the same bits back, every damage noticed, cuts never mixed, and always one to be found."""

import os
import pickle
import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dtoken.engine.loop import checkpoint as module
from dtoken.engine.loop.checkpoint import FORMER, NAME, PARTS, Checkpoint, load_checkpoint, save_checkpoint
from dtoken.engine.loop.packed import MAGIC, read_packed, write_packed
from dtoken.engine.loop.parts import Part, PartFile, put_part, read_part, write_part
from dtoken.engine.loop.recorder import Record
from dtoken.errors import InputError, RunError
from dtoken.schedule.clock import Clock
from dtoken.schedule.stream import Start


def make(wall: float = 12.5) -> Checkpoint:
    rng = np.random.default_rng(0)
    first = Record(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.1 + 0.2, 1e-300, -0.0, 5e-324)
    return Checkpoint(
        identity="run 1",
        start=Start(3, np.array([4, 0, 7]), np.array([2**40 + 1, 0, 5]), 0.1 + 0.2),
        offset=77,
        clock=Clock(rng.random(5), rng.random(3), np.array([1, 2, 3, 4, 2**50])),
        t=1 / 3,
        wall=wall,
        records=[first, Record(2**60, 7, 6, 5, 1 / 3, 9.0, wall, float("nan"), float("inf"), 1.0, 2.0)],
    )


def make_parts() -> list[Part]:
    """Two hosts: nodes 3, 0 and 1 with tokens 0 and 2, node 2 with token 1."""
    rng = np.random.default_rng(1)
    where, turns = np.array([3, 2, 0]), np.array([5, 0, 2**40])
    odd = np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324, np.nextafter(1.0, 2.0)])
    first = {
        "nodes/theta": rng.standard_normal((3, 4)),
        "nodes/odd": odd,
        "nodes/zeros": np.zeros((3, 2, 2)),
        "tokens/count": np.array([-(2**63), 2**63 - 1]),
    }
    second = {
        "nodes/theta": rng.standard_normal((1, 4)),
        "nodes/odd": odd[:2],
        "nodes/zeros": np.ones((1, 2, 2)),
        "tokens/count": np.array([7]),
    }
    return [
        Part(np.array([3, 0, 1]), np.array([0, 2]), np.array([0, 4, 4, 7]), where, turns, first),
        Part(np.array([2]), np.array([1]), np.array([0, 2]), where, turns, second),
    ]


def save(directory: Path, checkpoint: Checkpoint, hosts: bool = False) -> None:
    """Save with all nodes in this process, or with two hosts that write files of their own."""

    def save_state(folder: Path, cut: str) -> Part | list[str]:
        if not hosts:
            return make_parts()[0]
        folder.mkdir(exist_ok=True)
        names = [f"{cut}-1-{number}.bin" for number in range(2)]
        for name, part in zip(names, make_parts(), strict=True):
            write_part(PartFile(folder / name, cut), part)
        return names

    save_checkpoint(directory, checkpoint, save_state)


def load(directory: Path) -> Checkpoint | None:
    """The checkpoint, after its state has been read and compared."""
    found = load_checkpoint(directory)
    if found is None:
        return None
    for part, expected in zip(map(read_part, found[1]), make_parts()[: len(found[1])], strict=True):
        assert part.arrays.keys() == expected.arrays.keys()
        pairs = [*zip(part[:-1], expected[:-1], strict=True)]
        for x, y in [*pairs, *((part.arrays[name], expected.arrays[name]) for name in expected.arrays)]:
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    return found[0]


def assert_same(a: Checkpoint, b: Checkpoint) -> None:
    assert (a.identity, a.offset, a.t, a.wall) == (b.identity, b.offset, b.t, b.wall)
    assert list(map(repr, a.records)) == list(map(repr, b.records))
    for x, y in zip([*a.start, *a.clock], [*b.start, *b.clock], strict=True):
        assert type(x) is type(y)
        if isinstance(y, np.ndarray):
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
            assert y.flags.writeable
        else:
            assert x == y


@pytest.mark.parametrize("hosts", [False, True])
def test_round_trip_to_the_bit(hosts: bool, tmp_path: Path) -> None:
    assert load(tmp_path) is None
    save(tmp_path, make(), hosts)
    found = load(tmp_path)
    assert found is not None
    assert_same(make(), found)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_newest_wins_and_nothing_else_is_left(tmp_path: Path) -> None:
    """Also when a run goes from one process to several hosts and back."""
    for wall, hosts in ((1.0, False), (2.0, True), (3.0, True), (4.0, False)):
        save(tmp_path, make(wall), hosts)
        found = load(tmp_path)
        assert found is not None
        assert found.wall == wall
        parts = [path.name for path in (tmp_path / PARTS).glob("*")]
        assert len(parts) == (2 if hosts else 0)
    assert names(tmp_path) == [NAME]


def test_a_small_state_is_one_small_file(tmp_path: Path) -> None:
    save(tmp_path, make())
    assert (tmp_path / NAME).stat().st_size < 4096


def damage_bit(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


DAMAGE = {
    "a bit is wrong": damage_bit,
    "cut off": lambda file, rng: os.truncate(file, rng.randrange(file.stat().st_size)),
    "empty": lambda file, _: os.truncate(file, 0),
    "longer": lambda file, rng: file.write_bytes(file.read_bytes() + rng.randbytes(rng.randint(1, 99))),
    "noise": lambda file, rng: file.write_bytes(rng.randbytes(500)),
    "a huge head": lambda file, _: file.write_bytes(MAGIC + struct.pack("<Q", 2**62) + b"x" * 99),
    "two pieces swapped": lambda file, _: file.write_bytes(_swapped(file.read_bytes())),
}


def _swapped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[: middle - 64] + content[middle:][:64] + content[middle - 64 :][:64] + content[middle + 64 :]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("hosts", [False, True])
def test_damage_is_noticed(damage: Any, hosts: bool, tmp_path: Path) -> None:
    """Wherever it is, in the head as well: never a state that was not saved; one sentence with path and remedy."""
    for seed in range(12):
        save(tmp_path, make(), hosts)
        file = tmp_path / sorted(names(tmp_path))[seed % (3 if hosts else 1)]
        damage(file, random.Random(seed))
        with pytest.raises(RunError, match=r"checkpoint\S* is damaged .*; delete it to start the run anew"):
            load(tmp_path)


def test_a_part_that_is_missing_is_noticed(tmp_path: Path) -> None:
    save(tmp_path, make(), hosts=True)
    next((tmp_path / PARTS).iterdir()).unlink()
    with pytest.raises(RunError, match=r"checkpoint\.parts/\S+ is damaged .*No such file"):
        load(tmp_path)


@pytest.mark.parametrize("hosts", [False, True])
def test_the_head_of_one_cut_is_never_combined_with_the_state_of_another(hosts: bool, tmp_path: Path) -> None:
    """Both are whole, both belong to this run, and the names agree."""
    for name, wall in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        save(tmp_path / name, make(wall), hosts)
    older, newer = (load_checkpoint(tmp_path / name) for name in ("a", "b"))
    assert older is not None
    assert newer is not None
    for mine, other in zip(older[1], newer[1], strict=True):
        other.path.replace(mine.path)
        with pytest.raises(RunError, match="belongs to another checkpoint"):
            read_part(mine)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "evil"),)

    write_packed(tmp_path / NAME, {"x": np.array([Evil()], object)}, {})
    with pytest.raises(RunError, match="is damaged"):
        read_packed(tmp_path / NAME)
    (tmp_path / NAME).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(RunError, match="is damaged"):
        load(tmp_path)
    assert not (tmp_path / "evil").exists()


def test_another_format_and_former_checkpoints_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FORMER).mkdir()
    with pytest.raises(InputError, match=r"checkpoint\.zarr is a checkpoint of an earlier version.*; delete it"):
        load(tmp_path)
    monkeypatch.setattr(module, "FORMAT_VERSION", 99)
    save(tmp_path, make())
    monkeypatch.undo()
    with pytest.raises(RunError, match=r"its format version is 99\); delete it"):
        load(tmp_path)


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs but what catches everything."""


def test_killed_at_every_step_of_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after everything that reaches the disk the old or the new checkpoint is found; the next save works."""
    steps = {os: ["fsync"], Path: ["replace", "unlink"], module.shutil: ["rmtree"]}

    def interrupt(number: int) -> int:
        """Let the step with this number be the last; return how many there were."""
        count = 0

        def stop_at(original: Any, after: bool) -> Any:
            def step(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == number and not after:
                    raise Killed
                found = original(*arguments, **options)
                if count == number:
                    raise Killed
                return found

            return step

        with monkeypatch.context() as patch:
            for owner, functions in steps.items():
                for function in functions:
                    patch.setattr(owner, function, stop_at(getattr(owner, function), after=bool(number % 2)))
            with suppress(Killed):
                save(tmp_path, make(2.0), hosts=True)
        return count

    walls = []
    for number in range(1, 100):
        save(tmp_path, make(1.0), hosts=number % 3 > 0)
        count = interrupt(number)
        found = load(tmp_path)
        assert found is not None
        walls.append(found.wall)
        save(tmp_path, make(3.0), hosts=number % 5 > 0)
        again = load(tmp_path)
        assert again is not None
        assert again.wall == 3.0
        if count < number:  # it was not interrupted any more
            break
    assert walls == sorted(walls)
    assert set(walls) == {1.0, 2.0}
    assert len(walls) > 8
    save(tmp_path, make(4.0))
    assert names(tmp_path) == [NAME]


def test_data_reach_the_disk_before_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the power failed a name stands for the whole file: file, then name, then folder; the old cut goes last."""
    save(tmp_path, make(1.0), hosts=True)
    told: list[str] = []
    fsync, replace, unlink = os.fsync, Path.replace, Path.unlink

    def tell_fsync(number: int) -> None:
        told.append(f"sync {Path(os.readlink(f'/proc/self/fd/{number}')).suffix or 'folder'}")
        fsync(number)

    def tell_replace(self: Path, target: Path) -> Path:
        told.append(f"name {target.name if target.name == NAME else 'part'}")
        return replace(self, target)

    def tell_unlink(self: Path, missing_ok: bool = False) -> None:
        told.append("delete")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(os, "fsync", tell_fsync)
    monkeypatch.setattr(Path, "replace", tell_replace)
    monkeypatch.setattr(Path, "unlink", tell_unlink)
    save(tmp_path, make(2.0), hosts=True)
    part, head = ["sync .partial", "name part", "sync .parts"], ["sync .partial", f"name {NAME}", "sync folder"]
    assert [entry for entry in told if not entry.startswith("sync test")] == [*part, *part, *head, "delete", "delete"]


def test_a_part_that_a_stopped_worker_leaves_later_is_not_read(tmp_path: Path) -> None:
    save(tmp_path, make(), hosts=True)
    write_part(PartFile(tmp_path / PARTS / "other-7-0.bin", "other"), make_parts()[0])
    assert load(tmp_path) is not None


def test_left_overs_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f".{NAME}.{os.uname().nodename}-{2**22 + 1}.partial"  # no process has such a number
    left.write_bytes(b"x")
    save(tmp_path, make())
    assert names(tmp_path) == [NAME]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*checkpoint\.bin"):
        save(tmp_path / "file", make())


def test_large_arrays_pass_in_pieces(tmp_path: Path) -> None:
    """Larger than a piece, empty, of no dimension, not contiguous."""
    arrays = {
        "large": np.arange(3_000_000.0).reshape(3, -1),
        "empty": np.empty((0, 4)),
        "scalar": np.array(7),
        "across": np.arange(12).reshape(3, 4).T,
        "single": np.float32([0.1, np.nan]),
    }
    write_packed(tmp_path / "file", arrays, {"a": [1, None, "b"]})
    found, attributes = read_packed(tmp_path / "file", lambda name: name != "scalar")
    assert attributes == {"a": [1, None, "b"]}
    assert found.keys() == arrays.keys() - {"scalar"}
    for name, array in found.items():
        assert (array.dtype, array.shape) == (arrays[name].dtype, arrays[name].shape)
        assert array.tobytes() == arrays[name].tobytes()


def test_parts_find_their_nodes_whoever_hosts_them() -> None:
    """Node 3 (four rows) and node 2 (two rows) come from different parts to a host that has both."""

    class State(NamedTuple):
        theta: np.ndarray  # type: ignore[type-arg]
        odd: np.ndarray  # type: ignore[type-arg]
        zeros: np.ndarray  # type: ignore[type-arg]

    class Tokens(NamedTuple):
        count: np.ndarray  # type: ignore[type-arg]

    parts = make_parts()
    state, tokens = State(np.zeros((2, 4)), np.zeros(6), np.zeros((2, 2, 2))), Tokens(np.zeros(3, np.int64))
    found = [put_part(part, np.array([2, 3]), np.array([0, 2, 6]), state, tokens) for part in parts]
    assert found == [1, 1]
    assert np.array_equal(state.theta, [parts[1].arrays["nodes/theta"][0], parts[0].arrays["nodes/theta"][0]])
    assert np.array_equal(state.odd, [0.1, -0.0, 0.1, -0.0, np.inf, -np.inf])
    assert np.array_equal(state.zeros[0], np.ones((2, 2)))
    assert tokens.count.tolist() == [-(2**63), 7, 2**63 - 1]
