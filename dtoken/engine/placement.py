"""Which thread of which host gets which nodes: neighbours together, about the same work everywhere."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dtoken.graph.topology import Topology

THREADS, SHARED, NETWORK = 1.0, 2.0, 20.0  # what a hop costs, about: between threads, processes, machines
MOST_EXCHANGED = 500  # nodes, for all pairs are compared
TOO_LITTLE = 1e-9


class Placement(NamedTuple):
    """Where nodes are."""

    thread: NDArray[np.int64]  # (n,) thread of each node; those of all hosts are counted
    host: NDArray[np.int64]  # (threads,) host of each thread, in order

    @property
    def hosts(self) -> NDArray[np.int64]:
        """(n,) host of each node."""
        return self.host[self.thread]

    @property
    def host_count(self) -> int:
        """How many hosts there are."""
        return int(self.host[-1]) + 1


def place(
    topology: Topology, work: NDArray[np.int64], threads: Sequence[int], machines: Sequence[str] | None = None
) -> Placement:
    """Thread and host of each node.

    Nodes are lined up so that neighbours are close (reverse Cuthill-McKee), and the line is cut into pieces of about
    the same work, one for each thread: so the threads of a host, and hosts that stand together, have neighbours. Then
    nodes change places as long as that makes hops cheaper. Each host has at least one node, and no thread is without;
    there are fewer threads than asked for where nodes are few.

    Parameters
    ----------
    topology
        Who is whose neighbour.
    work
        What a pass over each node costs.
    threads
        Of each host; there are at most as many hosts as nodes.
    machines
        The machine of each host; None: they are all on one.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> place(build("ring", 6), [1] * 6, [1, 2]).hosts.tolist()
    [0, 0, 1, 1, 1, 1]
    """
    used = list(threads)
    while sum(used) > len(work):
        used[used.index(max(used))] -= 1
    line = _line(topology)
    thread = np.empty(len(work), np.int64)
    thread[line] = balanced_groups(np.asarray(work)[line], sum(used))
    host = np.repeat(np.arange(len(used)), used)
    if topology.adjacency and sum(used) > 1 and len(work) <= MOST_EXCHANGED:
        where = np.unique(machines or [""] * len(used), return_inverse=True)[1]
        _exchange(thread, _graph(topology).toarray(), _prices(host, where), np.asarray(work, np.float64))
    return Placement(thread, host)


def _prices(host: NDArray[np.int64], machine: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a hop from thread to thread costs."""
    same_host, same_machine = host[:, None] == host, machine[host][:, None] == machine[host]
    prices = np.where(same_host, THREADS, np.where(same_machine, SHARED, NETWORK))
    np.fill_diagonal(prices, 0.0)
    return prices


def _exchange(
    thread: NDArray[np.int64], talk: NDArray[np.float64], prices: NDArray[np.float64], work: NDArray[np.float64]
) -> None:
    """Exchange the two nodes that save most, again and again; no thread gets more work than the busiest had."""
    nodes = np.arange(len(thread))
    most = np.bincount(thread, work).max()
    for _ in range(2 * len(thread)):
        at = talk @ prices[thread]  # (n, threads) what a node would cost on each
        leaving = at[nodes, thread][:, None] - at[:, thread]  # what node i saves if it goes to the thread of node j
        saved = leaving + leaving.T - 2 * talk * prices[np.ix_(thread, thread)]
        grown = np.bincount(thread, work)[thread] + work[:, None] - work  # of the thread of node j, with i in its place
        saved[np.maximum(grown, grown.T) > most] = 0.0
        i, j = np.unravel_index(int(saved.argmax()), saved.shape)
        if saved[i, j] <= TOO_LITTLE:
            return
        thread[i], thread[j] = thread[j], thread[i]


def _line(topology: Topology) -> NDArray[np.int64]:
    """The nodes in an order in which neighbours are close; their own order where that is good already."""
    order = np.arange(topology.n)
    if not topology.adjacency:
        return order
    graph = _graph(topology)
    better = np.asarray(reverse_cuthill_mckee(graph.tocsr()), np.int64)
    return better if _stretch(graph, better) < _stretch(graph, order) else order


def _graph(topology: Topology) -> Any:
    """How often each edge is there: the walks of tokens use all of them equally."""
    graph = topology.adjacency[0].astype(np.float64)
    for other in topology.adjacency[1:]:
        graph = graph + other.astype(np.float64)
    return graph


def _stretch(graph: object, order: NDArray[np.int64]) -> float:
    """Sum over edges of how far apart their ends are in the line."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start, end = graph.nonzero()  # type: ignore[attr-defined]
    return float(np.abs(place[start] - place[end]).sum())


def balanced_groups(work: ArrayLike, groups: int) -> NDArray[np.int64]:
    """Group of each item of a line: consecutive items together, about the same work in each, none empty.

    Examples
    --------
    >>> balanced_groups([1, 1, 2, 4], 2).tolist()
    [0, 0, 0, 1]
    """
    ends = np.cumsum(np.asarray(work, np.float64) + 1e-9)
    count = len(ends)
    middles = ends - np.diff(ends, prepend=0.0) / 2
    wanted = np.minimum((middles / ends[-1] * groups).astype(np.int64), groups - 1)
    starts = np.searchsorted(wanted, np.arange(groups))
    for group in range(1, groups):  # at least one item each, from the left and from the right
        starts[group] = max(starts[group], starts[group - 1] + 1)
    for group in range(groups - 1, 0, -1):
        starts[group] = min(starts[group], count - (groups - group))
    return np.searchsorted(starts, np.arange(count), side="right") - 1
