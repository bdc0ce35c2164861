"""Checkpoints: the same bits back, every damage noticed, and always one to be found."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dtoken.engine import arrays
from dtoken.engine.checkpoint import NAME, Checkpoint, load_checkpoint, save_checkpoint
from dtoken.engine.parts import Part, put_part, read_part, write_part
from dtoken.errors import RunError
from dtoken.schedule.clock import Clock
from dtoken.schedule.stream import Start


def make(wall: float = 12.5) -> Checkpoint:
    rng = np.random.default_rng(0)
    return Checkpoint(
        identity="run 1",
        start=Start(3, np.array([4, 0, 7]), np.array([2**40 + 1, 5, 0]), 0.1 + 0.2),
        offset=77,
        clock=Clock(rng.random(5), rng.random(3), np.array([1, 2, 3, 4, 2**50])),
        t=1 / 3,
        wall=wall,
        records=[{"event": 1, "objective": 0.1 + 0.2}, {"event": 2, "objective": float("nan")}],
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


def save_parts(folder: Path, final: Path) -> list[str]:
    assert final.name == folder.name
    for number, part in enumerate(make_parts()):
        write_part(folder / str(number), part)
    return ["0", "1"]


def save(directory: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(directory, checkpoint, save_parts)


def load(directory: Path) -> Checkpoint | None:
    """The checkpoint, after its state has been read and compared."""
    found = load_checkpoint(directory)
    if found is None:
        return None
    for part, expected in zip(map(read_part, found[1]), make_parts(), strict=True):
        assert part.arrays.keys() == expected.arrays.keys()
        pairs = [*zip(part[:-1], expected[:-1], strict=True)]
        for x, y in [*pairs, *((part.arrays[name], expected.arrays[name]) for name in expected.arrays)]:
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    return found[0]


def assert_same(a: Checkpoint, b: Checkpoint) -> None:
    assert (a.identity, a.offset, a.t, a.wall) == (b.identity, b.offset, b.t, b.wall)
    assert (a.start.segment, a.start.at) == (b.start.segment, b.start.at)
    assert np.array_equal(a.start.jumps, b.start.jumps)
    assert json.dumps(a.records) == json.dumps(b.records)
    for x, y in [(a.start.positions, b.start.positions), *zip(a.clock, b.clock, strict=True)]:
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
        assert y.flags.writeable


def test_round_trip_to_the_bit(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    save(tmp_path, make())
    found = load(tmp_path)
    assert found is not None
    assert_same(make(), found)


def test_the_newest_wins_and_nothing_else_is_left(tmp_path: Path) -> None:
    for wall in (1.0, 2.0, 3.0):
        save(tmp_path, make(wall))
    found = load(tmp_path)
    assert found is not None
    assert found.wall == 3.0
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def chunk_of(path: Path, name: str) -> Path:
    return next(file for file in sorted((path / name / "c").rglob("*")) if file.is_file())


def flip(path: Path) -> None:
    data = bytearray(chunk_of(path, "state/0/nodes/theta").read_bytes())
    data[11] ^= 1
    chunk_of(path, "state/0/nodes/theta").write_bytes(data)


def cut(path: Path) -> None:
    file = chunk_of(path, "clock/counts")
    file.write_bytes(file.read_bytes()[:-7])


def edit(path: Path, **attributes: Any) -> None:
    file = path / "zarr.json"
    content = json.loads(file.read_text())
    content["attributes"] = {
        name: value for name, value in (content["attributes"] | attributes).items() if value is not None
    }
    file.write_text(json.dumps(content))


DAMAGE = {
    "a bit is wrong": flip,
    "a chunk is cut off": cut,
    "a chunk is missing": lambda path: chunk_of(path, "state/0/nodes/theta").unlink(),
    "a chunk of positions is missing": lambda path: chunk_of(path, "start/positions").unlink(),
    "an array is missing": lambda path: shutil.rmtree(path / "state/1/tokens/count"),
    "a host is missing": lambda path: shutil.rmtree(path / "state/1"),
    "the clock is missing": lambda path: shutil.rmtree(path / "clock"),
    "an array's description is missing": lambda path: (path / "clock/nodes/zarr.json").unlink(),
    "the group's description is missing": lambda path: (path / "zarr.json").unlink(),
    "the group's description is cut off": lambda path: os.truncate(path / "zarr.json", 40),
    "the group's description is empty": lambda path: os.truncate(path / "zarr.json", 0),
    "an attribute is missing": lambda path: edit(path, offset=None),
    "the records are cut off": lambda path: edit(path, records='[{"event": 1'),
    "another format": lambda path: edit(path, format_version=99),
    "a file instead of a folder": lambda path: (shutil.rmtree(path), path.write_text("x")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_noticed(damage: Any, tmp_path: Path) -> None:
    """Never a state that was not saved; one sentence with the path and the remedy."""
    save(tmp_path, make())
    damage(tmp_path / NAME)
    with pytest.raises(RunError, match=r"checkpoint\.zarr(/state/.)? is damaged .*; delete it to start the run anew"):
        load(tmp_path)


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs but what catches everything."""


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_killed_while_exchanging(renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, between and after the two renames the old or the new checkpoint is found; the next save works."""
    save(tmp_path, make(1.0))
    rename, done = Path.rename, []

    def stop(self: Path, target: Path) -> Path:
        if len(done) == renames:
            raise Killed
        done.append(target)
        return rename(self, target)

    def stop_removing(path: Path, *_: object, **__: object) -> None:
        if done:
            raise Killed

    monkeypatch.setattr(Path, "rename", stop)
    if renames == 2:
        monkeypatch.setattr(arrays.shutil, "rmtree", stop_removing)
    with pytest.raises(Killed):
        save(tmp_path, make(2.0))
    monkeypatch.undo()
    found = load(tmp_path)
    assert found is not None
    assert_same(make(2.0 if renames == 2 else 1.0), found)
    save(tmp_path, make(3.0))
    again = load(tmp_path)
    assert again is not None
    assert again.wall == 3.0
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_part_that_a_stopped_worker_leaves_later_is_not_read(tmp_path: Path) -> None:
    save(tmp_path, make())
    write_part(tmp_path / NAME / "state/1-7-0", make_parts()[0])
    (tmp_path / NAME / "state/.1-7-1.partial").mkdir()
    assert load(tmp_path) is not None


def test_left_overs_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f".{NAME}.1234567.partial"
    (left / "state").mkdir(parents=True)
    save(tmp_path, make())
    assert not left.exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*checkpoint\.zarr"):
        save(tmp_path / "file", make())


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
