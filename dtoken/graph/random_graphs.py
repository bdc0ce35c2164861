"""Random topologies: a pure function of their parameters and ``seed``, made as arrays, up to tens of millions of edges.

A draw that is not connected is drawn again with the next seed derived from ``seed``; when that does not help,
the parameters are refused, because a run would need luck.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.graph import drawing
from dtoken.graph.checks import enough, real, whole
from dtoken.graph.topology import Topology, from_edges

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse

    Draw = Callable[[np.random.Generator], Sparse | None]

TRIES = 20  # draws before a random graph is refused


def erdos_renyi(n: int, p: float | None = None, seed: int = 0) -> Topology:
    """Each pair is joined with probability ``p``; by default 2 log(n)/n, twice the threshold."""
    enough("erdos_renyi", n, 2)
    p = min(1.0, 2 * math.log(n) / n) if p is None else real("graph.p", p, 0, 1)
    params = {"p": p, "seed": whole("graph.seed", seed, 0)}

    def draw(rng: np.random.Generator) -> "Sparse":
        return from_edges(n, *_pairs(_chosen(n * (n - 1) // 2, p, rng)))

    return _first_connected("erdos_renyi", n, draw, params, "use a larger graph.p")


def _chosen(count: int, p: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which of 0, ..., count - 1 are there, each with probability p: the ways from one to the next are geometric."""
    most = int(count * p + 6 * math.sqrt(count * p) + 6)
    found = np.cumsum(rng.geometric(p, most)) - 1
    while found[-1] < count:
        found = np.concatenate([found, found[-1] + np.cumsum(rng.geometric(p, most))])
    return np.asarray(found[found < count])


def _pairs(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair v (v - 1) / 2 + u of the pairs u < v."""
    v = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
    v -= v * (v - 1) // 2 > number  # rounding
    v += v * (v + 1) // 2 <= number
    return number - v * (v - 1) // 2, v


def random_regular(n: int, degree: int = 4, seed: int = 0) -> Topology:
    """Every node has ``degree`` neighbours, otherwise uniform."""
    enough("random_regular", n, 2)
    degree = whole("graph.degree", degree, 1, n - 1)
    if n * degree % 2:
        raise InputError(f"graph.degree={degree} and nodes={n} are both odd; make one of them even")
    params = {"degree": degree, "seed": whole("graph.seed", seed, 0)}

    def draw(rng: np.random.Generator) -> "Sparse | None":
        if degree <= (n - 1) // 2:
            return _regular(n, degree, rng)
        others = _regular(n, n - 1 - degree, rng) if degree < n - 1 else from_edges(n, np.empty(0), np.empty(0))
        if others is None:
            return None
        return from_edges(n, *np.nonzero(~others.toarray() & ~np.eye(n, dtype=bool)), directed=True)

    return _first_connected("random_regular", n, draw, params, "use a larger graph.degree")


def _regular(n: int, degree: int, rng: np.random.Generator) -> "Sparse | None":
    ends = rng.permutation(n * degree)
    mate = np.empty(n * degree, np.int64)
    mate[ends[::2]], mate[ends[1::2]] = ends[1::2], ends[::2]
    if not drawing.make_simple(mate, degree, rng):
        return None
    del ends
    u, v = np.repeat(np.arange(n, dtype=np.int32), degree), (mate // degree).astype(np.int32)
    del mate
    return from_edges(n, u, v, directed=True)


def small_world(n: int, degree: int = 4, rewired: float = 0.1, seed: int = 0) -> Topology:
    """Ring in which all within ``degree`` / 2 are joined, but a share ``rewired`` of edges leads anywhere.

    The model of Watts and Strogatz: an edge keeps one of its ends.
    """
    enough("small_world", n, 4)
    degree = whole("graph.degree", degree, 2, n - 2)
    if degree % 2:
        raise InputError(f"graph.degree={degree} is odd, but a node of graph=small_world has as many on either side")
    if rewired != 0:
        rewired = real("graph.rewired", rewired, 0, 1)
    params = {"degree": degree, "rewired": rewired, "seed": whole("graph.seed", seed, 0)}

    def draw(rng: np.random.Generator) -> "Sparse":
        target = (np.arange(n)[:, None] + np.arange(1, degree // 2 + 1)) % n
        drawing.rewire(target, rewired, rng)
        return from_edges(n, np.repeat(np.arange(n), degree // 2), target.ravel())

    return _first_connected("small_world", n, draw, params, "use a larger graph.degree or a smaller graph.rewired")


def power_law(n: int, edges: int = 3, seed: int = 0) -> Topology:
    """Each node joins ``edges`` of those before it, by their degrees; degrees have a power law (Barabasi, Albert)."""
    enough("power_law", n, 3)
    edges = whole("graph.edges", edges, 1, n - 1)
    params = {"edges": edges, "seed": whole("graph.seed", seed, 0)}
    target = drawing.attach(n, edges, _generator(params["seed"], 0))
    star = np.zeros(edges, np.int64), np.arange(1, edges + 1)
    u = np.concatenate([star[0], np.repeat(np.arange(edges + 1, n), edges)])
    return Topology("power_law", n, False, (from_edges(n, u, np.concatenate([star[1], target])),), params=params)


def geometric(n: int, radius: float | None = None, seed: int = 0) -> Topology:
    """Nodes at uniform points of the unit square, joined within ``radius``; numbered so that neighbours are close.

    By default the radius gives 2 log(n) expected neighbours, twice the threshold of connectivity.
    """
    enough("geometric", n, 2)
    radius = math.sqrt(2 * math.log(n) / (math.pi * n)) if radius is None else real("graph.radius", radius, 0, 2**0.5)
    params = {"radius": radius, "seed": whole("graph.seed", seed, 0)}

    def draw(rng: np.random.Generator) -> "Sparse":
        from scipy.spatial import KDTree

        points = rng.random((n, 2))
        points = points[np.lexsort((points[:, 1], (points[:, 0] / radius).astype(np.int64)))]  # strip by strip
        found = KDTree(points).query_pairs(radius, output_type="ndarray")
        return from_edges(n, found[:, 0], found[:, 1])

    return _first_connected("geometric", n, draw, params, "use a larger graph.radius")


def directed_random(n: int, degree: int = 3, seed: int = 0) -> Topology:
    """Every node sends to ``degree`` others: the next on a random cycle, and random ones."""
    enough("directed_random", n, 2)
    degree = whole("graph.degree", degree, 1, n - 1) if n > 3 else min(degree, n - 1)
    rng = np.random.default_rng(whole("graph.seed", seed, 0))
    cycle = rng.permutation(n)
    target = np.empty((n, degree), np.int64)
    target[cycle, 0] = np.roll(cycle, -1)
    drawing.choose_others(target, rng)
    graph = from_edges(n, np.repeat(np.arange(n), degree), target.ravel(), directed=True)
    return Topology("directed_random", n, True, (graph,), params={"degree": degree, "seed": int(seed)})


def _generator(seed: int, attempt: int) -> np.random.Generator:
    return np.random.default_rng([seed, attempt])


def _first_connected(kind: str, n: int, draw: "Draw", params: dict[str, Any], remedy: str) -> Topology:
    """Draw until connected, with seeds derived from ``params["seed"]``."""
    fewest = n
    for attempt in range(TRIES):
        if (graph := draw(_generator(params["seed"], attempt))) is None:
            continue
        topology = Topology(kind, n, False, (graph,), params=params)
        fewest = min(fewest, topology.components())
        if fewest == 1:
            return topology
    name = Topology(kind, n, False, (), params=params).name
    raise InputError(f"{name} was not connected in any of {TRIES} draws (at best {fewest} components); {remedy}")
