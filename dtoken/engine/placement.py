"""Which host gets which nodes: neighbours together, about the same work everywhere."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dtoken.graph.topology import Topology


def place(topology: Topology, work: Sequence[int], hosts: int) -> NDArray[np.int64]:
    """Host of each node.

    Nodes are lined up so that neighbours are close (reverse Cuthill-McKee), and the line is cut into pieces of about
    the same work. There are never more hosts than nodes, and each has at least one node.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> place(build("ring", 6), [1] * 6, 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    line = _line(topology)
    pieces = balanced_groups([work[node] for node in line], min(hosts, len(work)))
    placement = np.empty(len(work), np.int64)
    placement[line] = pieces
    return placement


def _line(topology: Topology) -> NDArray[np.int64]:
    """The nodes in an order in which neighbours are close; their own order where that is good already."""
    order = np.arange(topology.n)
    if not topology.adjacency:
        return order
    graph = topology.adjacency[0].astype(np.float64)
    for other in topology.adjacency[1:]:
        graph = graph + other.astype(np.float64)
    better = np.asarray(reverse_cuthill_mckee(graph.tocsr()), np.int64)
    return better if _stretch(graph, better) < _stretch(graph, order) else order


def _stretch(graph: object, order: NDArray[np.int64]) -> float:
    """Sum over edges of how far apart their ends are in the line."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start, end = graph.nonzero()  # type: ignore[attr-defined]
    return float(np.abs(place[start] - place[end]).sum())


def balanced_groups(work: Sequence[int], groups: int) -> NDArray[np.int64]:
    """Group of each item of a line: consecutive items together, about the same work in each, none empty.

    Examples
    --------
    >>> balanced_groups([1, 1, 2, 4], 2).tolist()
    [0, 0, 0, 1]
    """
    count = len(work)
    ends = np.cumsum(np.asarray(work, np.float64) + 1e-9)
    middles = ends - np.diff(ends, prepend=0.0) / 2
    wanted = np.minimum((middles / ends[-1] * groups).astype(np.int64), groups - 1)
    starts = np.searchsorted(wanted, np.arange(groups))
    for group in range(1, groups):  # at least one item each, from the left and from the right
        starts[group] = max(starts[group], starts[group - 1] + 1)
    for group in range(groups - 1, 0, -1):
        starts[group] = min(starts[group], count - (groups - group))
    return np.searchsorted(starts, np.arange(count), side="right") - 1
