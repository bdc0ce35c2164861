"""SDCA, dual coordinate ascent along a walk: Shalev-Shwartz and Zhang (2013) with the model on one token.

The token carries theta, nodes keep the dual variables g_ij of their rows, all 0 at the start. Every step keeps
theta = -(1 / (n sigma)) sum_ij g_ij a_ij. At a visit of node i, for a share of its rows, one after the other,

    u solves  u = a_ij^T theta - (q_ij / (n sigma)) (w_i phi'(u) - g_ij),      w_i = 1 / m_i,  q_ij = ||a_ij||^2
    delta = w_i phi'(u) - g_ij,      g_ij <- g_ij + delta,      theta <- theta - delta a_ij / (n sigma).

Each step maximises the dual

    D(g) = -sum_ij w_i phi*(g_ij / w_i) - (1 / (2 n sigma)) ||sum_ij g_ij a_ij||^2

over one variable, so D never decreases, whatever the order of visits and rows. There are no step sizes. The rate for
independent visits and rows is in ``theory.dual_ascent``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import NO_MARGINS, OneToken
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.shares import SharedRows
from dtoken.compiled import compiled
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative, prox_root
from dtoken.problem.prefetch import AHEAD, fetch_row
from dtoken.schedule.permuted import order_key, window_at, window_room
from dtoken.schedule.random import below, event_key
from dtoken.theory.dual_ascent import DualAscent, ascent_rate
from dtoken.theory.promise import PROVED, Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) the token's, when it left
    g: Vector  # (rows,) dual variables
    used: NDArray[np.int64]  # (hosted,) rows that the node has used so far


class Tokens(NamedTuple):
    """State of the token."""

    theta: Vector  # (1, d)


@compiled
def ascend(c: Any, rows: Any, nodes: Any, theta: Vector, i: int, r: int) -> None:
    """Maximise the dual over the variable of row r."""
    start, stop, w, y, unit = rows.start[r], rows.stop[r], rows.w[i], rows.y[r], 1.0 / (c.n * c.sigma)
    t0, before = row_dot(rows.data, rows.indices, start, stop, theta), nodes.g[r]
    u = prox_root(rows.loss, y, w, t0, rows.q[r] * unit, before, t0)
    g = w * derivative(rows.loss, u, y)
    add_row(rows.data, rows.indices, start, stop, -(g - before) * unit, theta)
    nodes.g[r] = g


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The token arrives at node i, which uses the next of its rows, or some that the event draws."""
    theta, first, size = tokens.theta[k], rows.first[i], rows.first[i + 1] - rows.first[i]
    used, last = nodes.used[i], nodes.used[i] + c.visited[i]
    if c.bucket > 0:
        window = np.empty(window_room(size, c.bucket), np.int64)
        while used < last:
            at, end = window_at(order_key(c.seed), c.node[i], size, c.bucket, used, window)
            for place in range(at, min(end, at + last - used)):
                fetch_row(rows, first + window[min(place + AHEAD, end - 1)])
                ascend(c, rows, nodes, theta, i, first + window[place])
            used += end - at
    else:
        key = event_key(c.seed, t)
        for draw in range(c.visited[i]):
            ascend(c, rows, nodes, theta, i, first + below(key, draw, size))
    nodes.used[i], nodes.theta[i] = last, theta


@dataclass(frozen=True)
class SDCA(SharedRows, OneToken):
    """Dual coordinate ascent along a walk.

    Parameters
    ----------
    share
        Share of a node's rows that a visit uses, at least one row; smaller: fewer passes, more jumps.
    sampling
        ``permuted``: every node goes through its rows in a fresh random order each epoch; ``uniform``: rows are drawn
        independently.
    bucket_rows
        Of ``permuted``: so many consecutive rows are a bucket; buckets come in random order, four at a time, in turns.
        At most a 16th of a node.
    """

    name = "sdca"
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **NO_MARGINS,
            "tokens": "each of its steps needs the newest theta, so that there is one token",
            "block_rows": "its steps solve an equation in one unknown, and a block would need one for each row",
            "smoothness": "its steps are exact and have no size",
        }
    )
    visit = staticmethod(visit)

    def constants(self, facts: Facts) -> DualAscent:
        """How many rows a visit uses, and the rate."""
        n, sigma, visited, bucket = facts.n, facts.sigma, self.visited(facts), self.bucket_rows * self.permuted
        largest = facts.largest_L
        rate = ascent_rate(facts.walk.visit_law(1), visited / facts.rows, largest, n * sigma)
        return DualAscent(n, sigma, np.uint64(facts.seed), np.arange(n), visited, bucket, rate)

    def proved(self, facts: Facts) -> bool:
        """Whether visits and rows are independent, and a visit uses one row."""
        return facts.walk.iid and not self.permuted and bool((self.visited(facts) == 1).all())

    def promise(self, c: DualAscent, facts: Facts) -> Promise:
        """r for independent visits."""
        if not facts.walk.iid:
            return Promise(None, "no rate: visits of this walk are not independent; the dual rises, how fast is open")
        return Promise(c.rate, PROVED if self.proved(facts) else "observed: proved for one independent row a visit")

    def bound(self, c: DualAscent, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """F* / r, where the rate is proved."""
        return problem.objective(best) / c.rate if self.proved(facts) else None

    def states(self, c: DualAscent, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero."""
        hosted = len(rows.w)
        nodes = Nodes(np.zeros((hosted, rows.d)), np.zeros(len(rows.y)), np.zeros(hosted, np.int64))
        return nodes, Tokens(np.zeros((1, rows.d)))

    def models(self, c: DualAscent, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The states are the models."""
        return Models(nodes.theta, tokens.theta)
