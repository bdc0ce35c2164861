"""The compiled loops of random graphs. Their chance comes from a generator of numpy, so graphs depend on it alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled

SWITCHES = 1000  # other places to try for an edge that must go


@compiled
def _below(rng: Any, size: int) -> Any:
    """Uniform among 0, ..., size - 1."""
    return np.int64(rng.random() * size)


@compiled
def make_simple(mate: NDArray[np.int64], degree: int, rng: Any) -> bool:
    """Turn a random pairing of the ends of edges into a simple graph with the same degrees, if that is possible.

    End e belongs to node e // degree and is joined to end mate[e]. An edge that is a loop, or there twice, exchanges an
    end with a random other edge (McKay, Wormald 1990). Then every edge does so once more where the graph stays simple:
    such steps have the uniform law over all regular graphs as their limit, and the repaired graph is near it already.
    """
    for end in range(len(mate)):
        tries = 0
        while not _is_simple(mate, degree, end):
            tries += 1
            if tries > SWITCHES:
                return False
            _switch(mate, degree, end, _below(rng, len(mate)))
    for end in range(len(mate)):
        if end < mate[end]:
            _switch(mate, degree, end, _below(rng, len(mate)))
    return True


@compiled
def _is_simple(mate: NDArray[np.int64], degree: int, end: int) -> bool:
    """Whether the edge at this end is no loop and joins two nodes that nothing else joins."""
    node, there = end // degree, mate[end] // degree
    return node != there and _edges(mate, degree, node, there) == 1


@compiled
def _edges(mate: NDArray[np.int64], degree: int, node: int, there: int) -> int:
    count = 0
    for end in range(node * degree, (node + 1) * degree):
        count += mate[end] // degree == there
    return count


@compiled
def _switch(mate: NDArray[np.int64], degree: int, s: int, r: int) -> None:
    """Join s to r, and their mates to each other, unless that would make a loop or an edge that is there."""
    t, q = mate[s], mate[r]
    a, b, c, d = s // degree, r // degree, t // degree, q // degree
    if s == r or t == r or a == b or c == d or (a == d and b == c) or (a == c and b == d):
        return
    if _edges(mate, degree, a, b) == 0 and _edges(mate, degree, c, d) == 0:
        mate[s], mate[r], mate[t], mate[q] = r, s, q, t


@compiled
def rewire(target: NDArray[np.int64], share: float, rng: Any) -> None:
    """Let edges (i, target[i, j]), each with probability ``share``, lead to a node that i is not joined to yet."""
    n, owned = target.shape
    for j in range(owned):
        for i in range(n):
            if rng.random() < share:
                for _ in range(SWITCHES):  # a node may be joined to all others
                    other = _below(rng, n)
                    if other != i and not _has(target[i], other) and not _has(target[other], i):
                        target[i, j] = other
                        break


@compiled
def _has(row: NDArray[np.int64], node: int) -> Any:
    return (row == node).any()


@compiled
def attach(n: int, edges: int, rng: Any) -> NDArray[np.int64]:
    """Whom the nodes after the first edges + 1, which are a star around 0, join: an end of a random edge."""
    ends = np.empty(2 * edges * (n - edges), np.int64)
    for j in range(edges):
        ends[2 * j], ends[2 * j + 1] = 0, j + 1
    filled = 2 * edges
    target = np.empty(edges * (n - edges - 1), np.int64)
    for i in range(edges + 1, n):
        own = target[(i - edges - 1) * edges : (i - edges) * edges]
        for j in range(edges):
            other = ends[_below(rng, filled)]
            while _has(own[:j], other):
                other = ends[_below(rng, filled)]
            own[j] = other
        for j in range(edges):
            ends[filled + 2 * j], ends[filled + 2 * j + 1] = i, own[j]
        filled += 2 * edges
    return target


@compiled
def choose_others(target: NDArray[np.int64], rng: Any) -> None:
    """Fill all but the first column: every node of a row once, and not its own number."""
    n, degree = target.shape
    for i in range(n):
        for j in range(1, degree):
            other = _below(rng, n)
            while other == i or _has(target[i, :j], other):
                other = _below(rng, n)
            target[i, j] = other
