"""What Token GD and TVR share: hyper-parameters, state, initial values.

Both descend on the dual of the conceptual graph. With margins z_ij = a_ij^T z_i and slopes g_ij = phi_ij'(z_ij), one
number per sample each, both keep sigma~ (sum_i theta_i + sum_k theta_k) + sum_ij g_ij a_ij = 0.
"""

from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.base import TokenMethod
from dtoken.algorithms.contract import Models, Vector
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row
from dtoken.problem.losses import derivative
from dtoken.theory.dual_descent import DualDescent


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) theta_i
    z: Vector  # (rows,) margins z_ij
    g: Vector  # (rows,) slopes phi_ij'(z_ij)


class Tokens(NamedTuple):
    """State of the tokens."""

    theta: Vector  # (K, d) theta_k


class DualMethod(TokenMethod):
    """A token method whose state is the model itself."""

    def start(self, c: DualDescent, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """Margins 0, nodes at minus their gradient, tokens 0."""
        nodes = Nodes(np.zeros((len(rows.w), rows.d)), np.zeros(len(rows.y)), np.zeros(len(rows.y)))
        _start(c, rows, nodes)
        return nodes, Tokens(np.zeros((self.tokens, rows.d)))

    def models(self, c: DualDescent, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The states are the models."""
        return Models(nodes.theta, tokens.theta)


@compiled
def _start(c: Any, rows: Any, nodes: Any) -> None:
    """z = 0 is arbitrary; theta_i = -sum_j g_ij a_ij / sigma~ follows from it."""
    for i in range(len(rows.w)):
        for r in range(rows.first[i], rows.first[i + 1]):
            nodes.g[r] = rows.w[i] * derivative(rows.loss, 0.0, rows.y[r])
            add_row(rows.data, rows.indices, rows.start[r], rows.start[r + 1], -nodes.g[r] / c.sigma_t, nodes.theta[i])


@compiled
def mix(rho: float, a: Vector, b: Vector) -> None:
    """Move a and b towards each other by the fraction rho of their difference."""
    for s in range(len(a)):
        delta = rho * (a[s] - b[s])
        a[s] -= delta
        b[s] += delta
