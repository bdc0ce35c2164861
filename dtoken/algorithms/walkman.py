"""Walkman, a random-walk method from an augmented Lagrangian (Mao, Yuan, Hu, Gu, Sayed, Yin 2020).

One token carries x; each node keeps (y_i, z_i). At a visit of node i, with F_i = f_i + sigma / 2 ||.||^2,

    gradient:  y+ = x + (z_i - grad F_i(y_i)) / beta
    proximal:  y+ = argmin_y F_i(y) + beta / 2 ||y - x - z_i / beta||^2
    then       z+ = z_i + beta (x - y+),      x <- x + [(y+ - z+ / beta) - (y_i - z_i / beta)] / n,

and (y_i, z_i) <- (y+, z+). All start at 0. Nothing runs in parallel: a visit costs tau_comm and all gradients of the
node (inner steps of the proximal form are not counted, as in the paper).

With x held still, the gradient form moves along a direction of curvature H by the roots of
l^2 + (H / beta) l - H / beta = 0: stable only if beta > 2 H. So beta = L ("step size 1 / L" in Hendrikx 2022) is not
safe; beta = 2 (L_b + sigma) is.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import VisitMethod
from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.algorithms.newton import node_prox
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows, node_gradient
from dtoken.theory.promise import Promise

MODES = ("gradient", "proximal")
BETAS = ("safe", "paper")


class Lagrangian(NamedTuple):
    """Constants of Walkman."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    beta: float
    proximal: bool
    inner: int  # Newton steps that a proximal update may take


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    y: Vector  # (hosted, d)
    z: Vector  # (hosted, d)
    failed: NDArray[np.int64]  # (hosted,) proximal updates that could not be solved


class Tokens(NamedTuple):
    """State of the token."""

    x: Vector  # (1, d)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The token arrives at node i."""
    x, y, z = tokens.x[k], nodes.y[i], nodes.z[i]
    y_new = np.empty(len(x))
    if c.proximal:
        y_new[:] = y
        if not node_prox(rows, i, c.sigma, c.beta, x + z / c.beta, c.inner, y_new):
            nodes.failed[i] += 1
    else:
        node_gradient(rows, i, c.sigma, y, y_new)
        y_new = x + (z - y_new) / c.beta
    # (y+ - z+ / beta) - (y - z / beta) with z+ - z = beta (x - y+)
    change = (y_new - y) - (x - y_new)
    z += c.beta * (x - y_new)
    y[:] = y_new
    x += change / c.n


@dataclass(frozen=True)
class Walkman(VisitMethod):
    """Walkman.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    mode
        ``gradient``: one gradient of the node a visit; ``proximal``: the node's problem is solved.
    beta
        ``safe``: 2 (L_b + sigma); ``paper``: L_b + sigma, not safe in gradient mode; or a positive number.
    inner
        Newton steps that a proximal update may take before the run is given up.
    """

    mode: str = "gradient"
    beta: float | str = "safe"
    inner: int = 50

    name = "walkman"
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mode", self.mode, MODES)
        if isinstance(self.beta, str):
            check_choice("beta", self.beta, (*BETAS, "a positive number"))
        elif not 0 < self.beta < math.inf:
            raise InputError(f"algorithm.beta={self.beta} must be positive; use safe for 2 (L_b + sigma)")
        if self.inner < 1:
            raise InputError(f"algorithm.inner={self.inner}, but a proximal update needs at least one Newton step")

    def constants(self, facts: Facts) -> Lagrangian:
        """The penalty beta."""
        L_b = self.batch_smoothness(facts)
        beta = {"safe": 2.0, "paper": 1.0}[self.beta] * (L_b + facts.sigma) if isinstance(self.beta, str) else self.beta
        return Lagrangian(facts.n, facts.sigma, L_b, beta, self.mode == "proximal", self.inner)

    def promise(self, c: Lagrangian, facts: Facts) -> Promise:
        """Convergence is proved without a rate."""
        return Promise(None, "no rate: linear convergence is proved for least squares only")

    def notes(self, c: Lagrangian, facts: Facts) -> tuple[str, ...]:
        """Whether beta is large enough for the curvature of the nodes."""
        H = float(facts.batch_L().max()) + c.sigma
        if c.proximal or c.beta >= 2 * H:
            return super().notes(c, facts)
        return (
            *super().notes(c, facts),
            f"walkman with beta={c.beta:.3g} may diverge or stall: its gradient form is stable only where beta > 2 H, "
            f"and the curvature H of a node is up to {H:.3g}; use algorithm.beta=safe",
        )

    def states(self, c: Lagrangian, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """Models, multipliers and the token, all zero."""
        hosted = len(rows.w)
        nodes = Nodes(np.zeros((hosted, rows.d)), np.zeros((hosted, rows.d)), np.zeros(hosted, np.int64))
        return nodes, Tokens(np.zeros((1, rows.d)))

    def models(self, c: Lagrangian, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The model y_i of each node, and x of the token."""
        failure = None
        if nodes.failed.any():
            failure = (
                f"the inner solve of walkman did not converge in {c.inner} Newton steps at node "
                f"{int(np.argmax(nodes.failed > 0))}; raise algorithm.inner or algorithm.beta, or use mode=gradient"
            )
        return Models(nodes.y.copy(), tokens.x.copy(), failure)
