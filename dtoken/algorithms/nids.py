"""NIDS, a proximal-gradient method for decentralised optimisation with step sizes that do not depend on the network
(Li, Shi, Yan 2019, Algorithm 1, without the non-smooth term).

    x^1     = x^0 - s g^0,      g^t_i = grad F_i(x^t_i),      s = step / (L_b + sigma)
    x^{t+1} = (I + W) / 2 (2 x^t - x^{t-1} - s (g^t - g^{t-1})),      W = I - Lap / lambda_max

In contrast to EXTRA the gradients are averaged, too, and every s < 2 / L is safe: a round contracts the squared error,
with a dual term, by max(1 - s sigma (2 - s L), 1 - gamma / 2), gamma the gap of W. A node sends the vector in
parentheses. A round costs one full gradient at every node, a message along each edge in each direction, and the ideal
time m tau_comp + tau_comm. A run starts at x^1, which takes no messages; the gradients until there are not counted.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.synchronous import Averaging, AveragingMethod, Messages
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows, node_gradient
from dtoken.problem.kernels import squared_distances
from dtoken.schedule.events import LOADING
from dtoken.theory.bounds import averaging_bound
from dtoken.theory.promise import PROVED, Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) x^t
    before: Vector  # (hosted, d) x^{t-1}
    g: Vector  # (hosted, d) g^t
    g_before: Vector  # (hosted, d) g^{t-1}
    mixed: Vector  # (hosted, d) what has come of x^{t+1}


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or gets that of a neighbour."""
    if r == LOADING:
        tokens.message[k] = 2.0 * nodes.x[i] - nodes.before[i] - c.step * (nodes.g[i] - nodes.g_before[i])
        nodes.mixed[i] += c.own[i] * tokens.message[k]
    else:
        nodes.mixed[i] += c.other * tokens.message[k]


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i moves on and takes its gradient there."""
    nodes.before[i] = nodes.x[i]
    nodes.g_before[i] = nodes.g[i]
    nodes.x[i] = nodes.mixed[i]
    nodes.mixed[i] = 0.0
    node_gradient(rows, i, c.sigma, nodes.x[i], nodes.g[i])


@dataclass(frozen=True)
class NIDS(AveragingMethod):
    """NIDS.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); below 2.
    """

    name = "nids"
    local = staticmethod(local)
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step >= 2:
            raise InputError(f"algorithm.step={self.step} is too long: nids needs a step below 2 / (L_b + sigma)")

    def promise(self, c: Averaging, facts: Facts) -> Promise:
        """min(s sigma (2 - s L), gamma / 2) a round, L = L_b + sigma (Li, Shi, Yan 2019)."""
        s_L = c.step * (c.L_b + c.sigma)
        return self.promised(min(c.step * c.sigma * (2 - s_L), c.gap / 2), PROVED)

    def bound(self, c: Averaging, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """Distance of x^1, and the dual term, which begins at 0."""
        if self.heuristic:
            return None
        first = problem.node_gradients(np.zeros(problem.d))
        start = sum(float(squared_distances(-c.step * each, best).sum()) for each in first)
        gradients = sum(float(np.square(each).sum()) for each in problem.node_gradients(best))
        return averaging_bound(facts.n, c.step, c.gap, start, gradients, self.objective_smoothness(facts))

    def states(self, c: Averaging, rows: HostedRows) -> tuple[Nodes, Messages]:
        """All models are zero: x^0 = 0."""
        nodes = Nodes(*(np.zeros((len(rows.w), rows.d)) for _ in range(5)))
        return nodes, Messages(np.zeros((c.n, rows.d)))

    def begin(self, c: Averaging, rows: HostedRows, nodes: Nodes) -> None:
        """The first gradient step: x^1."""
        for i in np.flatnonzero(np.diff(rows.first)).tolist():
            node_gradient(rows, i, c.sigma, nodes.before[i], nodes.g_before[i])
            nodes.x[i] = -c.step * nodes.g_before[i]
            node_gradient(rows, i, c.sigma, nodes.x[i], nodes.g[i])

    def models(self, c: Averaging, nodes: Nodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.x.copy(), nodes.x.copy())
