"""Metropolis-Hastings to any law: pi_i proportional to w_i.

From i, a neighbour j is proposed uniformly and taken with probability min(1, w_j d_i / (w_i d_j)). With w_i = L_i nodes
that are harder are visited more often ("importance sampling" of nodes, as in Needell, Srebro, Ward 2014 for samples).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from dtoken.errors import InputError
from dtoken.graph.topology import Topology
from dtoken.schedule.walks.contract import OwnWalk, one_graph

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse

WORDS = ("uniform", "smoothness")


@dataclass(frozen=True)
class Weighted(OwnWalk):
    """Metropolis-Hastings with a law that is given.

    Parameters
    ----------
    weights
        One positive number a node; ``smoothness``: the sum of the node's L_ij; ``uniform``: all alike.
    """

    weights: str | Sequence[float] = "smoothness"

    name = "weighted"
    reversible = True

    def __post_init__(self) -> None:
        if isinstance(self.weights, str):
            if self.weights not in WORDS:
                raise InputError(
                    f"graph.weights={self.weights} is not known; use {' or '.join(WORDS)}, or a number for each node"
                )
            return
        given = np.asarray(self.weights, dtype=np.float64)
        if given.ndim != 1 or not (np.isfinite(given).all() and (given > 0).all()):
            wrong = next((value for value in self.weights if not 0 < float(value) < np.inf), self.weights)
            raise InputError(
                f"graph.weights has {wrong}, but each node needs a positive number: one with 0 is never reached"
            )

    @property
    def uses_smoothness(self) -> bool:  # type: ignore[override]
        """Whether the weights are still to come."""
        return isinstance(self.weights, str) and self.weights == "smoothness"

    def with_smoothness(self, L: NDArray[np.float64]) -> OwnWalk:
        """Weights by the smoothness of the nodes."""
        return replace(self, weights=tuple(L.tolist()))

    def stationary(self, topology: Topology) -> NDArray[np.float64]:
        """The weights, as shares."""
        if isinstance(self.weights, str):
            return np.full(topology.n, 1 / topology.n)
        if len(self.weights) != topology.n:
            raise InputError(f"graph.weights has {len(self.weights)} numbers, but there are {topology.n} nodes")
        given = np.asarray(self.weights, dtype=np.float64)
        return np.asarray(given / given.sum(), dtype=np.float64)

    def transition(self, topology: Topology) -> "Sparse":
        """By Metropolis and Hastings."""
        return metropolis(one_graph(topology, self.name), self.stationary(topology), topology, self.name)


def metropolis(graph: "Sparse", pi: NDArray[np.float64], topology: Topology, walk: str) -> "Sparse":
    """The chain with uniform proposals among neighbours, and the stationary law ``pi``."""
    if topology.directed:
        raise InputError(f"graph.walk={walk} needs an undirected graph, not {topology.name}; use simple or lazy")
    degree = np.diff(graph.indptr)
    rows = np.repeat(np.arange(len(degree)), degree)
    proposed = 1 / degree[rows]
    there = pi[graph.indices] * degree[rows] / (pi[rows] * degree[graph.indices])
    accepted = proposed * np.minimum(1.0, there)
    # Summed refusals, not one minus the rest: zero must be exactly zero, or a periodic walk looks aperiodic.
    refused = np.bincount(rows, proposed - accepted, minlength=len(degree))
    chain = csr_array(csr_array((accepted, graph.indices, graph.indptr), shape=graph.shape) + diags_array(refused))
    chain.eliminate_zeros()
    return chain
