"""Topologies without chance: each is one function of the number of nodes and its own few parameters."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.graph.checks import enough, lattice, whole
from dtoken.graph.topology import Topology, from_edges

Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


def _undirected(kind: str, n: int, ends: Iterable[Ends], **params: Any) -> Topology:
    u, v = (np.concatenate(side) for side in zip(*ends, strict=True))
    return Topology(kind, n, False, (from_edges(n, u, v),), params=params)


def _chain(nodes: NDArray[np.int64]) -> Ends:
    return nodes[:-1], nodes[1:]


def complete(n: int) -> Topology:
    """Every node reaches every node, itself included: the setting of the paper's theorems."""
    return Topology("complete", n, False, ())


def ring(n: int) -> Topology:
    """Node i is joined to i - 1 and i + 1, modulo n."""
    enough("ring", n, 3)
    return _undirected("ring", n, [(np.arange(n), (np.arange(n) + 1) % n)])


def path(n: int) -> Topology:
    """Node i is joined to i + 1; the two ends have one neighbour."""
    enough("path", n, 2)
    return _undirected("path", n, [_chain(np.arange(n))])


def grid(n: int, shape: Sequence[int] | None = None) -> Topology:
    """Lattice with open borders, numbered row by row; ``shape`` is the most square rectangle unless given."""
    enough("grid", n, 2)
    sides = lattice("grid", n, shape)
    return _undirected("grid", n, _lattice(sides, closed=False), shape=list(sides))


def torus(n: int, shape: Sequence[int] | None = None) -> Topology:
    """Lattice whose borders are joined, numbered row by row; ``shape`` as for the grid."""
    enough("torus", n, 3)
    sides = lattice("torus", n, shape)
    return _undirected("torus", n, _lattice(sides, closed=True), shape=list(sides))


def _lattice(sides: Sequence[int], *, closed: bool) -> list[Ends]:
    """Edges along each axis; no loops, from sides of length one."""
    nodes = np.arange(int(np.prod(sides))).reshape(tuple(sides))
    ends = [(nodes[:0].ravel(), nodes[:0].ravel())]
    for axis, side in enumerate(sides):
        last = side if closed and side > 1 else side - 1
        start = np.take(nodes, np.arange(last), axis)
        end = np.take(nodes, np.arange(1, last + 1) % side, axis)
        ends.append((start.ravel(), end.ravel()))
    return ends


def star(n: int) -> Topology:
    """Node 0 is joined to all others."""
    enough("star", n, 2)
    return _undirected("star", n, [(np.zeros(n - 1, np.int64), np.arange(1, n))])


def hypercube(n: int) -> Topology:
    """Nodes whose binary numbers differ in one digit are joined; n must be a power of two."""
    enough("hypercube", n, 2)
    below = 2 ** (n.bit_length() - 1)
    if n != below:
        nearest = min((below, 2 * below), key=lambda power: abs(power - n))
        raise InputError(f"nodes={n} but graph=hypercube needs a power of two; use nodes={nearest}")
    nodes = np.arange(n)
    return _undirected("hypercube", n, [(nodes, nodes ^ (1 << digit)) for digit in range(n.bit_length() - 1)])


def barbell(n: int, clique: int | None = None) -> Topology:
    """Two complete graphs of ``clique`` nodes (n // 2 unless given), joined by a path through the others."""
    enough("barbell", n, 4)
    size = n // 2 if clique is None else whole("graph.clique", clique, 2, n // 2)
    u, v = np.triu_indices(size, 1)
    ends = [(u, v), _chain(np.arange(size - 1, n - size + 1)), (u + n - size, v + n - size)]
    return _undirected("barbell", n, ends, clique=size)


def directed_cycle(n: int) -> Topology:
    """Node i sends to i + 1 only, modulo n."""
    enough("directed_cycle", n, 2)
    graph = from_edges(n, np.arange(n), (np.arange(n) + 1) % n, directed=True)
    return Topology("directed_cycle", n, True, (graph,))
