"""What Token GD and TVR share: hyper-parameters, state, initial values. Both descend on the dual of the conceptual graph.

With margins z_ij = a_ij^T z_i and slopes g_ij = phi_ij'(z_ij), one number per sample each, both keep
sigma~ (sum_i theta_i + sum_k theta_k) + sum_ij g_ij a_ij = 0.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row
from dtoken.problem.losses import derivative
from dtoken.theory.dual_descent import DualDescent

SMOOTHNESS = ("theory", "batch", "factor")


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) theta_i
    z: Vector  # (rows,) margins z_ij
    g: Vector  # (rows,) slopes phi_ij'(z_ij)


class Tokens(NamedTuple):
    """State of the tokens."""

    theta: Vector  # (K, d) theta_k


@dataclass(frozen=True)
class DualMethod:
    """Hyper-parameters of the methods that descend on the dual.

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

    tokens: int = 1
    smoothness: str = "batch"
    factor: float = 0.02
    jumps: int | str = 1
    mixing: float = 0.25

    def __post_init__(self) -> None:
        check_choice("smoothness", self.smoothness, SMOOTHNESS)
        if self.tokens < 1:
            raise InputError(f"algorithm.tokens={self.tokens}, but a token method needs at least one")
        if not 0 < self.factor <= 1:
            raise InputError(f"algorithm.factor={self.factor} must lie in (0, 1]")
        if not 0 < self.mixing < 1:
            raise InputError(f"algorithm.mixing={self.mixing} must lie in (0, 1)")
        if self.jumps != "auto" and not (isinstance(self.jumps, int) and self.jumps >= 1):
            raise InputError(f"algorithm.jumps={self.jumps} is neither a positive integer nor auto")

    def batch_smoothness(self, facts: Facts) -> float:
        """L_b by the chosen rule."""
        largest_sum = float(facts.sum_L.max())
        match self.smoothness:
            case "theory":
                return largest_sum
            case "batch":
                return float(facts.batch_L().max())
            case _:
                return self.factor * largest_sum

    def jumps_per_visit(self, facts: Facts) -> int:
        """N."""
        if self.jumps == "auto":
            return facts.walk.mixing(self.mixing * float(facts.walk.stationary.min()))
        return int(self.jumps)

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
