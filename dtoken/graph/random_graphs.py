"""Random topologies: a pure function of their parameters and ``seed``.

A draw that is not connected is drawn again with the next seed derived from ``seed``; when that does not help,
the parameters are refused, because a run would need luck.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dtoken.errors import InputError
from dtoken.graph.checks import enough, real, whole
from dtoken.graph.topology import Topology, adjacency_of

if TYPE_CHECKING:
    import networkx as nx
else:
    from dtoken.graph.lazy import nx

TRIES = 100  # draws before a random graph is refused


def erdos_renyi(n: int, p: float | None = None, seed: int = 0) -> Topology:
    """Each pair is joined with probability ``p``; by default 2 log(n)/n, twice the threshold."""
    enough("erdos_renyi", n, 2)
    p = min(1.0, 2 * math.log(n) / n) if p is None else real("graph.p", p, 0, 1)
    params = {"p": p, "seed": whole("graph.seed", seed, 0)}

    def draw(derived: int) -> "nx.Graph[Any]":
        graph: nx.Graph[int] = nx.fast_gnp_random_graph(n, p, seed=derived)
        return graph

    return _first_connected("erdos_renyi", n, draw, params, "use a larger graph.p")


def random_regular(n: int, degree: int = 4, seed: int = 0) -> Topology:
    """Every node has ``degree`` neighbours, otherwise uniform."""
    enough("random_regular", n, 2)
    degree = whole("graph.degree", degree, 1, n - 1)
    if n * degree % 2:
        raise InputError(f"graph.degree={degree} and nodes={n} are both odd; make one of them even")
    params = {"degree": degree, "seed": whole("graph.seed", seed, 0)}

    def draw(derived: int) -> "nx.Graph[Any]":
        graph: nx.Graph[int] = nx.random_regular_graph(degree, n, seed=derived)
        return graph

    return _first_connected("random_regular", n, draw, params, "use a larger graph.degree")


def geometric(n: int, radius: float | None = None, seed: int = 0) -> Topology:
    """Nodes at uniform points of the unit square, joined within ``radius``.

    By default the radius gives 2 log(n) expected neighbours, twice the threshold of connectivity.
    """
    enough("geometric", n, 2)
    radius = math.sqrt(2 * math.log(n) / (math.pi * n)) if radius is None else real("graph.radius", radius, 0, 2**0.5)
    params = {"radius": radius, "seed": whole("graph.seed", seed, 0)}

    def draw(derived: int) -> "nx.Graph[Any]":
        return nx.random_geometric_graph(n, radius, seed=derived)

    return _first_connected("geometric", n, draw, params, "use a larger graph.radius")


def directed_random(n: int, degree: int = 3, seed: int = 0) -> Topology:
    """Every node sends to ``degree`` others: the next on a random cycle, and random ones."""
    enough("directed_random", n, 2)
    degree = whole("graph.degree", degree, 1, n - 1) if n > 3 else min(degree, n - 1)
    rng = np.random.default_rng(whole("graph.seed", seed, 0))
    cycle = rng.permutation(n)
    successor = np.empty(n, dtype=np.int64)
    successor[cycle] = np.roll(cycle, -1)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    for node in range(n):
        # Numbers 0..n-3 stand for the nodes that are neither this one nor its successor.
        low, high = sorted((node, int(successor[node])))
        others = rng.choice(n - 2, degree - 1, replace=False) if degree > 1 else np.empty(0, dtype=np.int64)
        others = others + (others >= low)
        others = others + (others >= high)
        graph.add_edges_from((node, other) for other in (int(successor[node]), *others.tolist()))
    return Topology("directed_random", n, True, (adjacency_of(graph),), params={"degree": degree, "seed": int(seed)})


def _first_connected(
    kind: str, n: int, draw: Callable[[int], "nx.Graph[Any]"], params: dict[str, Any], remedy: str
) -> Topology:
    """Draw until connected, with seeds derived from ``params["seed"]``."""
    fewest = n
    for attempt in range(TRIES):
        derived = int(np.random.SeedSequence([params["seed"], attempt]).generate_state(1)[0])
        topology = Topology(kind, n, False, (adjacency_of(draw(derived)),), params=params)
        fewest = min(fewest, topology.components())
        if fewest == 1:
            return topology
    raise InputError(
        f"{topology.name} was not connected in any of {TRIES} draws (at best {fewest} components); {remedy}"
    )
