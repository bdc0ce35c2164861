"""Topologies without chance: each is one function of the number of nodes and its own few parameters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtoken.errors import InputError
from dtoken.graph.checks import enough, lattice, whole
from dtoken.graph.topology import Topology, adjacency_of

if TYPE_CHECKING:
    import networkx as nx
else:
    from dtoken.graph.lazy import nx


def _undirected(kind: str, graph: "nx.Graph[Any]", **params: Any) -> Topology:
    return Topology(kind, graph.number_of_nodes(), False, (adjacency_of(graph),), params=params)


def complete(n: int) -> Topology:
    """Every node reaches every node, itself included: the setting of the paper's theorems."""
    return Topology("complete", n, False, ())


def ring(n: int) -> Topology:
    """Node i is joined to i - 1 and i + 1, modulo n."""
    enough("ring", n, 3)
    return _undirected("ring", nx.cycle_graph(n))


def path(n: int) -> Topology:
    """Node i is joined to i + 1; the two ends have one neighbour."""
    enough("path", n, 2)
    return _undirected("path", nx.path_graph(n))


def grid(n: int, shape: Sequence[int] | None = None) -> Topology:
    """Lattice with open borders, numbered row by row; ``shape`` is the most square rectangle unless given."""
    enough("grid", n, 2)
    sides = lattice("grid", n, shape)
    return _undirected("grid", nx.grid_graph(sides[::-1]), shape=list(sides))


def torus(n: int, shape: Sequence[int] | None = None) -> Topology:
    """Lattice whose borders are joined, numbered row by row; ``shape`` as for the grid."""
    enough("torus", n, 3)
    sides = lattice("torus", n, shape)
    graph = nx.grid_graph(sides[::-1], periodic=True)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))  # from sides of length one
    return _undirected("torus", graph, shape=list(sides))


def star(n: int) -> Topology:
    """Node 0 is joined to all others."""
    enough("star", n, 2)
    return _undirected("star", nx.star_graph(n - 1))


def hypercube(n: int) -> Topology:
    """Nodes whose binary numbers differ in one digit are joined; n must be a power of two."""
    enough("hypercube", n, 2)
    below = 2 ** (n.bit_length() - 1)
    if n != below:
        nearest = min((below, 2 * below), key=lambda power: abs(power - n))
        raise InputError(f"nodes={n} but graph=hypercube needs a power of two; use nodes={nearest}")
    return _undirected("hypercube", nx.hypercube_graph(n.bit_length() - 1) if n > 2 else nx.path_graph(2))


def barbell(n: int, clique: int | None = None) -> Topology:
    """Two complete graphs of ``clique`` nodes (n // 2 unless given), joined by a path through the others."""
    enough("barbell", n, 4)
    size = n // 2 if clique is None else whole("graph.clique", clique, 2, n // 2)
    return _undirected("barbell", nx.barbell_graph(size, n - 2 * size), clique=size)


def directed_cycle(n: int) -> Topology:
    """Node i sends to i + 1 only, modulo n."""
    enough("directed_cycle", n, 2)
    graph = nx.cycle_graph(n, create_using=nx.DiGraph)
    return Topology("directed_cycle", n, True, (adjacency_of(graph),))
