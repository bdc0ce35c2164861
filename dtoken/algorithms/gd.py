"""Gradient descent with an all-reduce, the centralised baseline (Hendrikx 2022, section Experiments).

    theta <- theta - (s / n) sum_i grad F_i(theta),      s = step / (L_b + sigma),      F_i = f_i + sigma / 2 ||.||^2

Every node has a copy of theta and its gradient there. How the sum comes to all nodes is ``allreduce``; the graph plays
no role, as in the paper. A round costs one full gradient at every node, and

=============  ========================================================  ==========  ==========================
allreduce      messages                                                  jumps       ideal time
=============  ========================================================  ==========  ==========================
all_to_all     from every node to all others                             n (n - 1)   m tau_comp + tau_comm
ring           one token, a lap to add up and a lap to hand out          2 n         m tau_comp + 2 n tau_comm
centralized    to node 0, the server, and back (also for node 0 itself)  2 n         m tau_comp + 2 tau_comm
=============  ========================================================  ==========  ==========================

The gradients at the starting point belong to the start and are not counted.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.allreduce import AllReduceMethod, Descent, Tokens
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows, add_gradient
from dtoken.problem.kernels import squared_norm
from dtoken.theory.promise import PROVED, Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) the same everywhere between rounds
    g: Vector  # (hosted, d) grad F_i(theta)
    total: Vector  # (hosted, d) what has come of the sum of all gradients
    sent: NDArray[np.int64]  # (hosted,) whether the node's own gradient was sent; server: how many have come


@compiled
def descend(c: Any, rows: Any, nodes: Any, i: int, first: int, stop: int, scratch: Vector) -> None:
    """Node i has the sum of all gradients: it takes the step, and its gradient at the new point, row by row."""
    if first == rows.first[i]:
        step, theta, total, g = c.step / c.n, nodes.theta[i], nodes.total[i], nodes.g[i]
        for s in range(len(theta)):
            theta[s] -= step * total[s]
            total[s] = 0.0
            g[s] = c.sigma * theta[s]
        nodes.sent[i] = 0
    add_gradient(rows, i, first, stop, nodes.theta[i], nodes.g[i])


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i takes a step with all its rows."""
    descend(c, rows, nodes, i, rows.first[i], rows.first[i + 1], rows.w)


@dataclass(frozen=True)
class GD(AllReduceMethod):
    """Gradient descent.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); below 2.
    allreduce
        How nodes add up their gradients: ``all_to_all``, ``ring`` or ``centralized``.
    block_rows
        As for Token GD.
    """

    name = "gd"
    local = staticmethod(local)
    phases = (descend,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step >= 2:
            raise InputError(f"algorithm.step={self.step} diverges: gd needs a step below 2 / (L_b + sigma)")

    def constants(self, facts: Facts) -> Descent:
        """The step size."""
        return self.descent(facts)

    def promise(self, c: Descent, facts: Facts) -> Promise:
        """1 - max(1 - s sigma, s L - 1)^2 a round, L = L_b + sigma."""
        s_L = c.step * (c.L_b + c.sigma)
        return self.promised(1 - max(1 - c.step * c.sigma, s_L - 1) ** 2, PROVED)

    def bound(self, c: Descent, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """A step contracts the distance, from theta = 0 on."""
        return None if self.heuristic else 0.5 * self.objective_smoothness(facts) * squared_norm(best)

    def states(self, c: Descent, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """The model that all nodes share, at zero."""
        total, sent, tokens = self.sums(c, rows)
        return Nodes(np.zeros_like(total), np.zeros_like(total), total, sent), tokens

    def models(self, c: Descent, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.theta.copy(), nodes.theta.copy())
