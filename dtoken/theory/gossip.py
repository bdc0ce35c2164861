"""What methods that average over neighbours know of their graph: its Laplacian, W = I - Lap / lambda_max, the gap."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh

from dtoken.errors import InputError
from dtoken.graph.topology import Topology, written_out

DENSE = 1_000  # nodes up to which all eigenvalues are computed at once


class Network(NamedTuple):
    """A connected undirected graph, as methods that average see it."""

    neighbours: list[NDArray[np.int32]]
    degree: NDArray[np.float64]  # (n,)
    lambda_max: float  # largest eigenvalue of the Laplacian
    lambda_min: float  # smallest one that is not 0

    @property
    def gap(self) -> float:
        """gamma = lambda_min / lambda_max, the gap of W."""
        return self.lambda_min / self.lambda_max


@lru_cache(maxsize=8)
def network(topology: Topology, method: str) -> Network:
    """The graph of a method, or why the method cannot use it.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> round(network(build("ring", 4), "extra").gap, 12)
    0.5
    """
    if topology.directed:
        raise InputError(f"{method} averages over neighbours in both directions, but {topology.name} is directed")
    if len(topology.adjacency) > 1:
        raise InputError(f"{method} needs a graph that does not change, and {topology.name} does")
    graph = written_out(topology.n, f"{method} on graph=complete") if topology.complete else topology.adjacency[0]
    adjacency = csr_array(graph.astype(np.float64))
    adjacency.setdiag(0.0)
    adjacency.eliminate_zeros()
    adjacency.sort_indices()
    neighbours = [part.astype(np.int32) for part in np.split(adjacency.indices, adjacency.indptr[1:-1])]
    degree = np.diff(adjacency.indptr).astype(np.float64)
    if topology.n == 1:
        return Network(neighbours, degree, 1.0, 1.0)
    if topology.complete:
        return Network(neighbours, degree, float(topology.n), float(topology.n))
    laplacian = csr_array(diags_array(degree) - adjacency)
    if topology.n <= DENSE:
        eigenvalues = np.linalg.eigvalsh(laplacian.toarray())
        return Network(neighbours, degree, float(eigenvalues[-1]), float(eigenvalues[1]))
    start = np.random.default_rng(0).standard_normal(topology.n)
    largest = float(eigsh(laplacian, k=1, which="LA", v0=start, return_eigenvectors=False)[0])
    near_zero = eigsh(laplacian, k=2, sigma=-1e-3, which="LM", v0=start, return_eigenvectors=False)
    return Network(neighbours, degree, largest, float(near_zero.max()))


def edges(net: Network) -> NDArray[np.int32]:
    """(E, 2) the edges, the smaller node first.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> edges(network(build("path", 3), "adfs")).tolist()
    [[0, 1], [1, 2]]
    """
    pairs = [(i, int(j)) for i, others in enumerate(net.neighbours) for j in others if i < j]
    return np.array(pairs, np.int32).reshape(-1, 2)


def largest_resistance(net: Network) -> float:
    """The largest effective resistance of an edge, if every edge is a resistor of 1.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> round(largest_resistance(network(build("ring", 5), "adfs")), 12)  # 1 and 4 resistors side by side
    0.8
    """
    n, pairs = len(net.neighbours), edges(net)
    laplacian = np.diag(net.degree)
    laplacian[pairs[:, 0], pairs[:, 1]] = laplacian[pairs[:, 1], pairs[:, 0]] = -1.0
    inverse = np.linalg.inv(laplacian + 1 / n)
    diagonal = np.diag(inverse)
    return float((diagonal[pairs[:, 0]] + diagonal[pairs[:, 1]] - 2 * inverse[pairs[:, 0], pairs[:, 1]]).max())
