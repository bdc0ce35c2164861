"""Checkpoints with a right checksum that nobody wrote so: a sentence, never a step that leaves its arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dtoken.engine.loop.checkpoint import NAME
from dtoken.engine.loop.packed import read_packed, write_packed
from dtoken.engine.loop.rules import position_fault
from dtoken.engine.loop.settings import Stop
from dtoken.errors import RunError
from dtoken.graph import build
from dtoken.schedule.clock import start_clock
from dtoken.schedule.stream import start_at
from dtoken.schedule.walks.levy import Levy
from dtoken.schedule.walks.registry import make_walk
from dtoken.schedule.walks.rounds import Rounds
from tests.engine.loop.test_resume import METHODS, go

HALF, WHOLE = Stop(passes=None, events=70_000), Stop(passes=None, events=140_000)  # of two segments and a bit
LAST = (..., -1)


def put(value: int) -> Any:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        array[LAST] = value
        return array

    return change


CHANGES = {
    "too large": put(10**6),
    "huge": put(2**62),
    "negative": put(-7),
    "short": lambda array: array[:-1],
    "long": lambda array: np.concatenate([array, array[-1:]]),
    "empty": lambda array: array[:0],
    "of another kind": lambda array: array.astype(np.float32),
    "of another shape": lambda array: array[..., None],
}
ANY = ("short", "long", "empty", "of another kind", "of another shape")
COUNTED = ("huge", "negative", *ANY)
INDEX = ("too large", *COUNTED)
FORGED = {
    "clock/nodes": ANY,
    "clock/tokens": ANY,
    "clock/counts": ("negative", *ANY),
    "start/positions": INDEX,
    "start/jumps": COUNTED,
    "start/used": COUNTED[:-3] + COUNTED[-2:],  # empty: nothing was used
    "state/index/nodes": INDEX,
    "state/index/tokens": INDEX,
    "state/index/first": INDEX,
    "state/index/where": INDEX,
    "state/index/turns": COUNTED,
    "state/nodes/theta": ANY,
    "state/nodes/z": ANY,
    "state/tokens/theta": ANY,
}


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    go(folder, stop=HALF, method=METHODS["tvr, permuted"])
    return folder / NAME


@pytest.mark.parametrize("name", FORGED)
def test_what_does_not_fit_is_refused(half: Path, tmp_path: Path, name: str) -> None:
    arrays, attributes = read_packed(half)
    for how in FORGED[name]:
        write_packed(tmp_path / NAME, arrays | {name: CHANGES[how](arrays[name].copy())}, attributes)
        with pytest.raises(RunError, match="delete it to start the run anew"):
            go(tmp_path, stop=WHOLE, method=METHODS["tvr, permuted"])
    write_packed(tmp_path / NAME, {each: array for each, array in arrays.items() if each != name}, attributes)
    with pytest.raises(RunError, match="delete it to start the run anew"):
        go(tmp_path, stop=WHOLE, method=METHODS["tvr, permuted"])


@pytest.mark.parametrize(
    "changed",
    [{"offset": -1}, {"offset": "x"}, {"offset": 2.5}, {"offset": 2**63}, {"t": "x"}, {"wall": None}, {"parts": 7}],
    ids=str,
)
def test_attributes_that_do_not_fit_are_refused(half: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
    arrays, attributes = read_packed(half)
    write_packed(tmp_path / NAME, arrays, attributes | changed)
    with pytest.raises(RunError, match=r"checkpoint\.bin is damaged .*; delete it to start the run anew"):
        go(tmp_path, stop=WHOLE, method=METHODS["tvr, permuted"])


def test_a_checkpoint_without_measurements_is_refused(half: Path, tmp_path: Path) -> None:
    arrays, attributes = read_packed(half)
    kept = {name: array[:0] if name.startswith("records/") else array for name, array in arrays.items()}
    write_packed(tmp_path / NAME, kept, attributes)
    with pytest.raises(RunError, match="nothing was measured"):
        go(tmp_path, stop=WHOLE, method=METHODS["tvr, permuted"])


@pytest.mark.parametrize(
    ("law", "good", "bad"),
    [
        (Rounds(), [2.0, 0.0, 1.0, 3.0, 1.0], [[2.0, 0.0, 1.0, 4.0, 1.0], [2.0, 0.0, 1.0, 3.0, 4.0], [0.0] * 5]),
        (Levy(longest=3), [0.0, 3.0], [[0.0, 4.0], [0.0, -1.0], [0.0, np.nan], [0.0, np.inf]]),
    ],
)
def test_what_a_walk_cannot_remember_is_refused(law: Any, good: list[float], bad: list[list[float]]) -> None:
    ways = make_walk(build("complete", 4), law.name, None, law)
    first, clock = start_at(np.array([0, 2])), start_clock(4, 2)

    def fault(state: Any) -> str | None:
        return position_fault(first._replace(segment=1, walk=np.array(state)), 0, clock, first, ways)

    assert fault(good) is None
    assert [fault(state) for state in [*bad, good[1:], np.array(good, np.float32)]] == [
        "what it remembers is not of this walk"
    ] * (len(bad) + 2)
