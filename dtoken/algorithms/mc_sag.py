"""MC-SAG, stochastic averaged gradients along a walk (Even 2023, after Schmidt, Le Roux, Bach 2017).

One token carries x and the mean of all nodes' last gradients. At node i, with F_i = f_i + sigma / 2 ||.||^2,

    mean <- mean + (grad F_i(x) - g_i) / n,      g_i <- grad F_i(x),      x <- x - s mean.

All begin at 0. Every node has the weight 1 / n in the mean, whatever the law of the visits, so that nothing has to be
corrected on walks whose law is not uniform. Gradients are as old as the walk takes to come back:

    s = step / ((L_b + sigma) tau_hit),      tau_hit = max_ij E[jumps from i to j].

The theorem of the paper has this step up to a constant and a logarithm of n. A visit costs tau_comm and all gradients
of the node; nothing runs in parallel.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.base import VisitMethod
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows, node_gradient
from dtoken.theory.promise import Promise


class Averaged(NamedTuple):
    """Constants of MC-SAG."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    kappa: float  # 1 + L_b / sigma
    hitting: float  # tau_hit
    step: float  # s


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) the token's, when it left
    g: Vector  # (hosted, d) the node's last gradient


class Tokens(NamedTuple):
    """State of the token."""

    x: Vector  # (1, d)
    mean: Vector  # (1, d) sum_i g_i / n


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The token arrives at node i."""
    x, mean, g = tokens.x[k], tokens.mean[k], np.empty(rows.d)
    node_gradient(rows, i, c.sigma, x, g)
    for s in range(rows.d):
        mean[s] += (g[s] - nodes.g[i, s]) / c.n
        nodes.g[i, s] = g[s]
        x[s] -= c.step * mean[s]
        nodes.x[i, s] = x[s]


@dataclass(frozen=True)
class MCSAG(VisitMethod):
    """Stochastic averaged gradients along a walk.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / ((L_b + sigma) tau_hit), tau_hit the hitting time of the walk.
    """

    step: float = 1.0

    name = "mc_sag"
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step < np.inf:
            raise InputError(f"algorithm.step={self.step} must be positive; 1 stands for 1 / ((L_b + sigma) tau_hit)")

    def constants(self, facts: Facts) -> Averaged:
        """The step size."""
        L_b, hitting = self.batch_smoothness(facts), facts.walk.hitting_time
        step = self.step / ((L_b + facts.sigma) * hitting)
        return Averaged(facts.n, facts.sigma, L_b, 1 + L_b / facts.sigma, hitting, step)

    def promise(self, c: Averaged, facts: Facts) -> Promise:
        """s sigma a visit."""
        if facts.walk.remembers:
            return Promise(None, "no rate: of this walk, which is no Markov chain, no theorem is known")
        basis = "observed; proved up to constants and a logarithm of n for steps of this form"
        return self.promised(min(1.0, c.step * c.sigma), basis)

    def states(self, c: Averaged, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero."""
        nodes = Nodes(np.zeros((len(rows.w), rows.d)), np.zeros((len(rows.w), rows.d)))
        return nodes, Tokens(np.zeros((1, rows.d)), np.zeros((1, rows.d)))

    def models(self, c: Averaged, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """What the token left at each node, and what it carries."""
        return Models(nodes.x.copy(), tokens.x.copy())
