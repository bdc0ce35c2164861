"""Token Gradient Descent (Hendrikx 2022, Algorithm 1), for any number of tokens.

A step is local with probability p_comp: node i uses all its data,

    z_i     <- (1 - rho_comp) z_i + rho_comp theta_i
    theta_i <- theta_i - (grad f_i(z_i) - g_i) / sigma~,      g_i <- grad f_i(z_i),

or else token k jumps to a node i and both move towards each other as in TVR. Of z_i only the margins a_ij^T z_i are
kept: they follow the same recursion and are all that the gradient needs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoken.algorithms.contract import Facts, Vector
from dtoken.algorithms.dual import DualMethod
from dtoken.algorithms.tvr import visit
from dtoken.compiled import compiled
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.dual_descent import DualDescent, Sampling, dual_descent, shared_sigma


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses all its rows: first all margins at the old theta_i, then the update."""
    theta, w = nodes.theta[i], rows.w[i]
    for j in range(rows.first[i], rows.first[i + 1]):
        margin = row_dot(rows.data, rows.indices, rows.start[j], rows.start[j + 1], theta)
        nodes.z[j] += c.rho_comp * (margin - nodes.z[j])
    for j in range(rows.first[i], rows.first[i + 1]):
        g = w * derivative(rows.loss, nodes.z[j], rows.y[j])
        add_row(rows.data, rows.indices, rows.start[j], rows.start[j + 1], -(g - nodes.g[j]) / c.sigma_t, theta)
        nodes.g[j] = g


@dataclass(frozen=True)
class Token(DualMethod):
    """Token Gradient Descent.

    Parameters
    ----------
    tokens
        Number of tokens, K.
    smoothness
        What kappa is made of: ``theory``, the sum of a node's L_ij; ``batch``, the true smoothness of the node's loss;
        ``factor``, the paper's heuristic, ``factor`` times the sum.
    factor
        The heuristic factor; 0.02 in the paper, safe or not depending on the data.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed.
    mixing
        How close ``auto`` brings the walk to its stationary law, relative to the smallest probability.
    """

    draws_samples = False
    local = staticmethod(local)
    visit = staticmethod(visit)
    meet = None

    def constants(self, facts: Facts) -> DualDescent:
        """Step sizes by the theory, with one function per node."""
        sigma_t = shared_sigma(facts.n, self.tokens, facts.sigma)
        L_b = self.batch_smoothness(facts)
        sampling = Sampling(total=facts.n, bound=facts.n * (1 + L_b / sigma_t), importance=0.0)
        return dual_descent(self.tokens, sigma_t, L_b, sampling, facts.walk.stationary)

    def law(self, c: DualDescent, facts: Facts) -> Law:
        """All nodes compute equally often."""
        return Law(self.tokens, c.p_comm, 0.0, np.full(facts.n, 1 / facts.n), self.jumps_per_visit(facts))

    def costs(self, facts: Facts) -> Costs:
        """A full gradient a local step."""
        return Costs(facts.rows, np.zeros(facts.n, np.int64))

    def weights(self, c: DualDescent, L: Vector) -> Vector | None:
        """A local step uses all samples: none is drawn."""
        return None
