"""Communication graphs, the walks of tokens over them, and the conceptual graph of the paper.

``build`` makes a topology by name, ``walk`` the tables by which tokens move over it. Names are loaded when
first used: networkx, scipy and numba take a second to import, and most commands need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtoken.graph.conceptual import (
        effective_resistances,
        incidence,
        smallest_eigenvalue,
        strong_convexity,
    )
    from dtoken.graph.sampler import step
    from dtoken.graph.topologies import REGISTRY, build, parameters
    from dtoken.graph.topology import Topology
    from dtoken.graph.walks import KINDS, Walk, walk

__all__ = [
    "KINDS",
    "REGISTRY",
    "Topology",
    "Walk",
    "build",
    "effective_resistances",
    "incidence",
    "parameters",
    "smallest_eigenvalue",
    "step",
    "strong_convexity",
    "walk",
]

_HOME = {
    "KINDS": "walks",
    "REGISTRY": "topologies",
    "Topology": "topology",
    "Walk": "walks",
    "build": "topologies",
    "effective_resistances": "conceptual",
    "incidence": "conceptual",
    "parameters": "topologies",
    "smallest_eigenvalue": "conceptual",
    "step": "sampler",
    "strong_convexity": "conceptual",
    "walk": "walks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
