"""What a communication graph is to the rest of dtoken: who may send a token to whom, and when.

In the paper ("General graphs") the conceptual graph never changes; the communication graph only rules where a
token may jump next. So a topology holds neighbours and nothing else: no weights, no positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csgraph, csr_array

from dtoken.errors import InputError

if TYPE_CHECKING:
    Sparse: TypeAlias = csr_array[Any, tuple[int, int]]
    Ends: TypeAlias = np.ndarray[Any, np.dtype[Any]]

COMPLETE_TABLE_LIMIT = 2_000  # nodes up to which a complete graph may be written out (n^2 entries)


@dataclass(frozen=True, eq=False)
class Topology:
    """A communication graph over nodes 0..n-1, or a cyclic sequence of graphs.

    Jump t of a token follows graph ``(t // hold) % len(adjacency)``.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> ring = build("ring", 5)
    >>> ring.neighbours(0).tolist()
    [1, 4]
    """

    kind: str
    n: int
    directed: bool
    adjacency: "tuple[Sparse, ...]"  # boolean CSR, sorted indices; empty: complete, never written out
    hold: int = 1  # jumps that follow one graph of the sequence before the next
    params: Mapping[str, Any] = field(default_factory=dict)  # as resolved, for messages and provenance

    @property
    def complete(self) -> bool:
        """Whether every node may jump to every node; the adjacency is then implicit."""
        return not self.adjacency

    @property
    def name(self) -> str:
        """The topology as a user would write it, for messages."""
        given = "".join(f" graph.{key}={value}" for key, value in self.params.items())
        return f"graph={self.kind} nodes={self.n}{given}"

    def neighbours(self, node: int, index: int = 0) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
        """Return the nodes to which a token at ``node`` may jump in graph ``index`` of the sequence."""
        if self.complete:
            return np.arange(self.n)
        graph = self.adjacency[index]
        return graph.indices[graph.indptr[node] : graph.indptr[node + 1]]

    def components(self) -> int:
        """Count the (strongly) connected components of the union of all graphs of the sequence."""
        if self.complete:
            return 1
        union = self.adjacency[0]
        for graph in self.adjacency[1:]:
            union = csr_array(union + graph)
        count, _ = csgraph.connected_components(union, self.directed, "strong")
        return int(count)


def from_edges(n: int, u: "Ends", v: "Ends", *, directed: bool = False) -> "Sparse":
    """Boolean CSR adjacency from the ends of edges; edges that are given twice count once.

    Examples
    --------
    >>> from_edges(3, np.array([0, 1]), np.array([1, 2])).indices.tolist()
    [1, 0, 2, 1]
    """
    start, end = (u, v) if directed else (np.concatenate([u, v]), np.concatenate([v, u]))
    ends = start.astype(np.int32, copy=False), end.astype(np.int32, copy=False)
    matrix = csr_array(coo_array((np.ones(len(start), np.bool_), ends), shape=(n, n)))
    matrix.sum_duplicates()
    return matrix


def written_out(n: int, purpose: str) -> "Sparse":
    """Adjacency of the complete graph with loops, for the few uses that need it as a table."""
    if n > COMPLETE_TABLE_LIMIT:
        raise InputError(
            f"{purpose} needs a table of nodes*nodes transitions, too many for nodes={n}; "
            f"use graph=complete with graph.walk=simple, or nodes<={COMPLETE_TABLE_LIMIT}"
        )
    return csr_array(np.ones((n, n), dtype=np.bool_))


def connected(topology: Topology, remedy: str) -> Topology:
    """Return the topology, or refuse it when a token could not reach every node from every node."""
    count = topology.components()
    if count > 1:
        word = "strongly connected" if topology.directed else "connected"
        scope = ", even over its whole period," if len(topology.adjacency) > 1 else ""
        raise InputError(
            f"{topology.name} is not {word}{scope} but falls into {count} components, "
            f"so that a token cannot reach every node; {remedy}"
        )
    return topology
