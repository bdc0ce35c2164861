"""Nesterov's accelerated gradient descent with an all-reduce (Nesterov 2004, section 2.2, constant scheme III).

    theta^{t+1} = y^t - (s / n) sum_i grad F_i(y^t),      s = step / (L_b + sigma),      step <= 1
    y^{t+1}     = theta^{t+1} + beta (theta^{t+1} - theta^t),      beta = (1 - sqrt(s sigma)) / (1 + sqrt(s sigma))

with theta^0 = y^0 = 0. Everything else, all-reduces and costs, is as for gradient descent (`gd`), which is beta = 0.
F - F* falls by 1 - sqrt(s sigma) a round, from F(0) - F* + (n sigma / 2) ||theta*||^2.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.allreduce import AllReduceMethod, Tokens
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows, add_gradient
from dtoken.problem.kernels import squared_norm
from dtoken.theory.promise import PROVED, Promise


class Momentum(NamedTuple):
    """Constants of accelerated gradient descent."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    kappa: float  # 1 + L_b / sigma
    step: float  # s
    beta: float


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) the same everywhere between rounds
    y: Vector  # (hosted, d) where the gradient is taken
    g: Vector  # (hosted, d) grad F_i(y)
    total: Vector  # (hosted, d) what has come of the sum of all gradients
    sent: NDArray[np.int64]  # (hosted,) whether the node's own gradient was sent; server: how many have come


@compiled
def descend(c: Any, rows: Any, nodes: Any, i: int, first: int, stop: int, scratch: Vector) -> None:
    """Node i has the sum of all gradients: it takes the step, and its gradient at the new y, row by row."""
    if first == rows.first[i]:
        step, theta, y, total, g = c.step / c.n, nodes.theta[i], nodes.y[i], nodes.total[i], nodes.g[i]
        for s in range(len(theta)):
            new = y[s] - step * total[s]
            y[s] = new + c.beta * (new - theta[s])
            theta[s] = new
            total[s] = 0.0
            g[s] = c.sigma * y[s]
        nodes.sent[i] = 0
    add_gradient(rows, i, first, stop, nodes.y[i], nodes.g[i])


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i takes a step with all its rows."""
    descend(c, rows, nodes, i, rows.first[i], rows.first[i + 1], rows.w)


@dataclass(frozen=True)
class AGD(AllReduceMethod):
    """Accelerated gradient descent.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); at most 1.
    allreduce
        How nodes add up their gradients: ``all_to_all``, ``ring`` or ``centralized``.
    block_rows
        As for Token GD.
    """

    name = "agd"
    local = staticmethod(local)
    phases = (descend,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step > 1:
            raise InputError(f"algorithm.step={self.step} is too long: agd needs a step of at most 1 / (L_b + sigma)")

    def constants(self, facts: Facts) -> Momentum:
        """Step size and momentum."""
        c = self.descent(facts)
        root = math.sqrt(c.step * c.sigma)
        return Momentum(*c, beta=(1 - root) / (1 + root))

    def promise(self, c: Momentum, facts: Facts) -> Promise:
        """sqrt(s sigma) a round."""
        return self.promised(math.sqrt(c.step * c.sigma), PROVED)

    def bound(self, c: Momentum, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """F(0) - F* + n sigma / 2 ||theta*||^2, of which the first is at most L_F / 2 ||theta*||^2."""
        if self.heuristic:
            return None
        return 0.5 * (self.objective_smoothness(facts) + facts.n * facts.sigma) * squared_norm(best)

    def states(self, c: Momentum, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """The model that all nodes share, at zero."""
        total, sent, tokens = self.sums(c, rows)
        theta, y, g = (np.zeros_like(total) for _ in range(3))
        return Nodes(theta, y, g, total, sent), tokens

    def models(self, c: Momentum, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.theta.copy(), nodes.theta.copy())
