"""What a checkpoint must keep, whoever wrote it: compiled code has no bounds but these.

Its checksum finds accidents. Whoever writes another file with a checksum of its own could otherwise lead compiled code
out of its arrays. Each function returns a fault, or None.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.graph.walks import Walk
from dtoken.schedule.clock import Clock, start_clock
from dtoken.schedule.stream import Start

MOST = 2**62  # of anything that is counted


def position_fault(start: Start, offset: object, clock: Clock, first: Start, walk: Walk) -> str | None:
    """Where a run is in a schedule that began at ``first``, and what its clock says."""
    if not all(type(number) is int and 0 <= number < MOST for number in (start.segment, offset)):
        return "it is at no place of the schedule"
    if not _are_numbers(start.positions, first.positions.shape, walk.n):
        return f"a token is at none of the nodes 0..{walk.n - 1}"
    if not _are_numbers(start.jumps, first.jumps.shape):
        return "jumps are not counted for each token"
    if len(start.used) and not _are_numbers(start.used, (walk.n,)):
        return "samples are not counted for each node"
    if not _remembered(start.walk, walk, len(first.positions)):
        return "what it remembers is not of this walk"
    if not _is_like(start.fate, first.fate) or not np.isfinite(start.fate).all():
        return "which tokens there are is not said as in this run"
    alive = np.ones(len(first.positions), np.bool_) if len(first.fate) else None
    clocks = start_clock(walk.n, len(first.positions), alive)
    if any(not _is_like(found, like) for found, like in zip(clock, clocks, strict=True)) or clock.counts.min() < 0:
        return "its clocks are not those of the nodes and tokens"
    return None if type(start.at) is float else "the time of its last step is no number"


def _remembered(state: NDArray[Any], walk: Walk, tokens: int) -> bool:
    if state.size == 0:
        return True
    if walk.law is None or not _is_like(state, walk.law.state(walk.n, tokens)):
        return False
    return bool(walk.law.allows(state, walk.n))


def index_fault(index: Mapping[str, NDArray[Any]], n: int, tokens: int) -> str | None:
    """Which of ``n`` nodes and of the tokens a part says it has, with the bounds of the nodes' rows."""
    for name, below in (("nodes", n), ("tokens", tokens)):
        listed = index[name]
        if not _are_numbers(listed, (listed.size,), below) or len(np.unique(listed)) != len(listed):
            return f"{name} are not numbers from 0 to {below - 1}, each once"
    if not _are_numbers(index["where"], (tokens,), n) or not _are_numbers(index["turns"], (tokens,)):
        return "it does not say where each token is"
    first = index["first"]
    rising = _are_numbers(first, (len(index["nodes"]) + 1,)) and first[0] == 0 and np.all(np.diff(first) >= 0)
    return None if rising else "first does not bound the rows of its nodes"


def rows_fault(found: NDArray[np.int64], expected: NDArray[np.int64]) -> str | None:
    """How many rows some nodes have, in a part and in the data."""
    return None if np.array_equal(found, expected) else "its nodes do not have the rows of these data"


def state_fault(
    arrays: Mapping[str, NDArray[Any]], like: Mapping[str, NDArray[Any]], counts: Sequence[int]
) -> str | None:
    """Arrays of the state of nodes, or of tokens: the names and kinds of ``like``, with one of ``counts`` entries."""
    for name, expected in like.items():
        found = arrays.get(name)
        if found is None or found.dtype != expected.dtype or found.shape[1:] != expected.shape[1:] or not found.ndim:
            return f"{name} is not of this method"
        if len(found) not in counts:
            return f"{name} has {len(found)} entries instead of {' or '.join(map(str, dict.fromkeys(counts)))}"
    return None


def _are_numbers(found: NDArray[Any], shape: tuple[int, ...], below: int = MOST) -> bool:
    """Whether these are whole numbers from 0 to before ``below``, in this shape."""
    right = found.dtype == np.int64 and found.shape == shape
    return bool(right and (found.size == 0 or (found.min() >= 0 and found.max() < below)))


def _is_like(found: NDArray[Any], like: NDArray[Any]) -> bool:
    return found.dtype == like.dtype and found.shape == like.shape
