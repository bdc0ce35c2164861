"""The state of some nodes and tokens as named arrays: what checkpoints are made of, whoever hosts what later."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays
from dtoken.engine.events.plan import Traffic
from dtoken.engine.loop.packed import damaged, read_packed, write_packed
from dtoken.engine.loop.rules import rows_fault, state_fault
from dtoken.errors import RunError

INDEX = ("nodes", "tokens", "first", "where", "turns")
STATE = "state/"  # before the names of a part's arrays in a file


class Part(NamedTuple):
    """The state of some nodes and tokens."""

    nodes: NDArray[np.int64]  # numbers of the nodes
    tokens: NDArray[np.int64]  # numbers of the tokens
    first: NDArray[np.int64]  # (nodes + 1,) bounds of the nodes' rows
    where: NDArray[np.int64]  # (K,) node that each token, here or not, mixed at last
    turns: NDArray[np.int64]  # (K,) visits and meets of each token so far
    arrays: dict[str, NDArray[Any]]  # nodes/<field> and tokens/<field>

    @property
    def listed(self) -> dict[str, NDArray[np.int64]]:
        """All but the states."""
        return {name: getattr(self, name) for name in INDEX}


def take_part(
    nodes: NDArray[np.int64],
    first: NDArray[np.int64],
    node_state: Arrays,
    tokens: NDArray[np.int64],
    token_state: Arrays,
    traffic: Traffic,
    *,
    copy: bool = True,
) -> Part:
    """The state of hosted ``nodes`` and of some ``tokens``; what is not copied must be used before anything happens."""
    arrays = {name: array.copy() if copy else array for name, array in _named("nodes", node_state).items()}
    arrays |= {name: array[tokens] for name, array in _named("tokens", token_state).items()}
    return Part(nodes.copy(), tokens.copy(), first.copy(), traffic.where.copy(), traffic.turns.copy(), arrays)


def put_part(
    part: Part, nodes: NDArray[np.int64], first: NDArray[np.int64], node_state: Arrays, token_state: Arrays
) -> int:
    """Copy back what concerns the hosted ``nodes``, and all tokens; return how many of the nodes there were.

    RunError, before anything is copied, if the part is not of these nodes and states.
    """
    place = np.flatnonzero(np.isin(part.nodes, nodes))  # of those that are hosted here, in the part
    slot = np.searchsorted(nodes, part.nodes[place])
    check(rows_fault(np.diff(part.first)[place], np.diff(first)[slot]))
    counts = len(part.nodes), int(part.first[-1])
    check(state_fault(part.arrays, _named("nodes", node_state), counts))
    check(state_fault(part.arrays, _named("tokens", token_state), [len(part.tokens)]))
    for name, array in node_state._asdict().items():
        source = part.arrays[f"nodes/{name}"]
        array[_entries(array, first, slot)] = source[_entries(source, part.first, place)]
    for name, array in token_state._asdict().items():
        array[part.tokens] = part.arrays[f"tokens/{name}"]
    return len(place)


def _named(kind: str, state: Arrays) -> dict[str, NDArray[Any]]:
    return {f"{kind}/{name}": array for name, array in state._asdict().items()}


def check(fault: str | None) -> None:
    """RunError if there is a fault in a part."""
    if fault:
        raise RunError(f"the checkpoint does not fit this run: {fault}; delete it to start the run anew")


def _entries(array: NDArray[Any], first: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The entries of some nodes: arrays count nodes, or rows of nodes, along their first axis."""
    if len(array) == len(first) - 1:
        return places
    if len(array) == first[-1]:
        sizes = first[places + 1] - first[places]
        return np.repeat(first[places] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    raise RunError(f"a state array of length {len(array)} counts neither {len(first) - 1} nodes nor {first[-1]} rows")


class PartFile(NamedTuple):
    """Where a part is on disk, and to which cut it belongs."""

    path: Path
    cut: str


def part_arrays(part: Part) -> dict[str, NDArray[Any]]:
    """A part as the named arrays of a file."""
    index = {f"{STATE}index/{name}": array for name, array in part.listed.items()}
    return index | {STATE + name: array for name, array in part.arrays.items()}


def write_part(file: PartFile, part: Part) -> None:
    """Write a part as a file of its own."""
    write_packed(file.path, part_arrays(part), {"cut": file.cut})


def read_part(file: PartFile) -> Part:
    """Read a part from its file; RunError if it is damaged, or of another cut."""
    found, attributes = read_packed(file.path, lambda name: name.startswith(STATE))
    if attributes.get("cut") != file.cut:
        raise damaged(file.path, "it belongs to another checkpoint")
    arrays = {name.removeprefix(STATE): array for name, array in found.items()}
    try:
        index = {name: arrays.pop(f"index/{name}") for name in INDEX}
    except KeyError as error:
        raise damaged(file.path, f"{error} is missing") from error
    return Part(**index, arrays=arrays)
