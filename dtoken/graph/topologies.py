"""All topologies by name: ``build(kind, n, **params)``, what a config group ``graph/<kind>.yaml`` describes.

Adding one is a function of ``n`` and its parameters and a line in ``REGISTRY``; the signature is the only
list of its parameters and defaults.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtoken.errors import InputError
from dtoken.graph.checks import enough, whole
from dtoken.graph.edge_list import edge_list
from dtoken.graph.fixed import barbell, complete, directed_cycle, grid, hypercube, path, ring, star, torus
from dtoken.graph.random_graphs import (
    directed_random,
    erdos_renyi,
    geometric,
    power_law,
    random_regular,
    small_world,
)
from dtoken.graph.topology import Topology, connected, from_edges, written_out
from dtoken.text import did_you_mean, use_one_of

MOST_PHASES = 100_000  # jumps until a sequence of graphs begins again: the walk has a law for each of them
PERIOD = 10  # random rings of a time-varying graph unless said otherwise


def time_varying(
    n: int,
    graphs: str | Sequence[str | Mapping[str, Any]] = "random_ring",
    period: int | None = None,
    hold: int = 1,
    seed: int = 0,
) -> Topology:
    """Cyclic sequence of graphs, each for ``hold`` jumps of a token; together they must be connected.

    ``graphs`` is ``random_ring`` (``period`` rings in random order, from ``seed``) or a list of kinds, each
    a name or a mapping such as ``{"kind": "grid", "shape": [2, 3]}``.
    """
    enough("time_varying", n, 3)
    params: dict[str, Any] = {"hold": whole("graph.hold", hold, 1)}
    if isinstance(graphs, str):
        if graphs != "random_ring":
            raise InputError(f"graph.graphs={graphs!r} must be random_ring or a list of kinds such as [ring,star]")
        period = PERIOD if period is None else whole("graph.period", period, 1)
        rng = np.random.default_rng(whole("graph.seed", seed, 0))
        adjacency = tuple(_random_ring(n, rng) for _ in range(period))
        params |= {"graphs": graphs, "period": period, "seed": int(seed)}
        return _cyclic(n, False, adjacency, params)
    parts = [_part(n, item) for item in graphs]
    if not parts or period not in (None, len(parts)):
        raise InputError(f"graph.period={period} but graph.graphs lists {len(parts)} graphs; leave graph.period out")
    purpose = "graph=complete inside graph=time_varying"
    adjacency = tuple(written_out(n, purpose) if part.complete else part.adjacency[0] for part in parts)
    params |= {"graphs": [{"kind": part.kind, **part.params} for part in parts]}
    directed = any(part.directed for part in parts)
    return _cyclic(n, directed, adjacency, params)


def _cyclic(n: int, directed: bool, adjacency: tuple[Any, ...], params: dict[str, Any]) -> Topology:
    hold = whole("graph.hold", params["hold"], 1, max(1, MOST_PHASES // len(adjacency)))
    return Topology("time_varying", n, directed, adjacency, hold, params)


def _random_ring(n: int, rng: np.random.Generator) -> Any:
    cycle = rng.permutation(n)
    return from_edges(n, cycle, np.roll(cycle, -1))


def _part(n: int, item: str | Mapping[str, Any]) -> Topology:
    settings: dict[str, Any] = {"kind": item} if isinstance(item, str) else {**item}
    kind = settings.pop("kind", None)
    if kind == "time_varying":
        raise InputError("graph.graphs contains time_varying; list the graphs themselves")
    return _unchecked(str(kind), n, settings)  # a part may be disconnected; the union may not


REGISTRY: dict[str, Callable[..., Topology]] = {
    "complete": complete,
    "ring": ring,
    "path": path,
    "grid": grid,
    "torus": torus,
    "star": star,
    "hypercube": hypercube,
    "erdos_renyi": erdos_renyi,
    "random_regular": random_regular,
    "small_world": small_world,
    "power_law": power_law,
    "geometric": geometric,
    "barbell": barbell,
    "directed_cycle": directed_cycle,
    "directed_random": directed_random,
    "time_varying": time_varying,
    "edge_list": edge_list,
}


def parameters(kind: str) -> dict[str, Any]:
    """Return the parameters of a topology with their defaults; ``...`` marks one that must be given.

    Examples
    --------
    >>> parameters("random_regular")
    {'degree': 4, 'seed': 0}
    """
    if kind not in REGISTRY:
        raise InputError(f"graph={kind} is not known; {use_one_of(kind, REGISTRY)}")
    found = list(inspect.signature(REGISTRY[kind]).parameters.values())[1:]  # the first is n
    return {p.name: ... if p.default is p.empty else p.default for p in found}


def build(kind: str, n: int, **params: Any) -> Topology:
    """Build a connected topology over ``n`` nodes.

    Parameters
    ----------
    kind : str
        A name in ``REGISTRY``.
    n : int
        Number of nodes.
    **params
        The topology's own parameters; ``parameters(kind)`` lists them.

    Returns
    -------
    Topology
        Strongly connected (a sequence: over its period).

    Raises
    ------
    InputError
        For an unknown kind or parameter, a value out of range or a graph that is not connected.

    Examples
    --------
    >>> build("grid", 6).params
    {'shape': [2, 3]}
    >>> build("hypercube", 7)
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: nodes=7 but graph=hypercube needs a power of two; use nodes=8
    """
    remedy = "add a graph that joins them" if kind == "time_varying" else "add the missing edges"
    return connected(_unchecked(kind, n, params), remedy)


def _unchecked(kind: str, n: int, params: Mapping[str, Any]) -> Topology:
    allowed = parameters(kind)
    for name in params:
        if name not in allowed:
            listed = f"Keys: {', '.join(allowed)}" if allowed else "It has none"
            hint = did_you_mean(name, allowed, "graph.")
            raise InputError(f"graph.{name} is not a key of graph={kind}. {hint}{listed}")
    missing = [name for name, default in allowed.items() if default is ... and params.get(name) is None]
    if missing:
        raise InputError(f"graph={kind} needs graph.{missing[0]}; give graph.{missing[0]}=VALUE")
    return REGISTRY[kind](whole("nodes", n, 1), **params)
