"""DIGing, gradient tracking (Nedic, Olshevsky, Shi 2017, Algorithm 1; Qu, Li 2018).

    x^{t+1} = (I + W) / 2 x^t - s y^t,      W = I - Lap / lambda_max,      s = step / (L_b + sigma)
    y^{t+1} = (I + W) / 2 y^t + g^{t+1} - g^t,      g^t_i = grad F_i(x^t_i),      x^0 = 0,  y^0 = g^0

y_i follows the mean of all gradients: sum_i y_i = sum_i g_i at all times. A node sends x and y in one message, of twice
the length of those of EXTRA, which the clock does not see. A round costs one full gradient at every node, a message
along each edge in each direction, and the ideal time m tau_comp + tau_comm. The first gradients belong to the start and
are not counted.

For nodes with equal quadratics, a mode of (I + W) / 2 with eigenvalue w is stable only if s L < (1 + w)^2 / 2, so
s < 1 / (2 L) is necessary. The default is half of that. What is proved needs far shorter steps: ``theory.tracking``.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.synchronous import Averaging, AveragingMethod
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows, node_gradient
from dtoken.schedule.events import LOADING
from dtoken.theory.promise import PROVED, Promise
from dtoken.theory.tracking import longest_proved, tracking_radius


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) x^t
    y: Vector  # (hosted, d) y^t
    g: Vector  # (hosted, d) g^t
    mixed_x: Vector  # (hosted, d) what has come of (I + W) / 2 x^t
    mixed_y: Vector  # (hosted, d) what has come of (I + W) / 2 y^t


class Messages(NamedTuple):
    """State of the tokens: what the nodes send."""

    x: Vector  # (n, d)
    y: Vector  # (n, d)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or gets that of a neighbour."""
    if r == LOADING:
        tokens.x[k], tokens.y[k] = nodes.x[i], nodes.y[i]
        nodes.mixed_x[i] += c.own[i] * nodes.x[i]
        nodes.mixed_y[i] += c.own[i] * nodes.y[i]
    else:
        nodes.mixed_x[i] += c.other * tokens.x[k]
        nodes.mixed_y[i] += c.other * tokens.y[k]


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i moves on and takes its gradient there."""
    before = nodes.g[i].copy()
    nodes.x[i] = nodes.mixed_x[i] - c.step * nodes.y[i]
    node_gradient(rows, i, c.sigma, nodes.x[i], nodes.g[i])
    nodes.y[i] = nodes.mixed_y[i] + nodes.g[i] - before
    nodes.mixed_x[i] = 0.0
    nodes.mixed_y[i] = 0.0


@dataclass(frozen=True)
class DIGing(AveragingMethod):
    """DIGing.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); below 1/2.
    """

    step: float = 0.25

    name = "diging"
    local = staticmethod(local)
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step >= 0.5:
            raise InputError(f"algorithm.step={self.step} diverges: diging needs a step below 1 / (2 (L_b + sigma))")

    def promise(self, c: Averaging, facts: Facts) -> Promise:
        """1 - radius^2 a round for steps that are short enough."""
        L, delta = c.L_b + c.sigma, 1 - c.gap / 2
        radius = tracking_radius(c.step, L, c.sigma, delta)
        if radius < 1:
            return self.promised(1 - radius**2, PROVED)
        longest = longest_proved(L, c.sigma, delta) * L
        return Promise(None, f"no rate: linear convergence is proved for algorithm.step={longest:.1g} and below")

    def states(self, c: Averaging, rows: HostedRows) -> tuple[Nodes, Messages]:
        """All models are zero: x^0 = 0."""
        nodes = Nodes(*(np.zeros((len(rows.w), rows.d)) for _ in range(5)))
        return nodes, Messages(np.zeros((c.n, rows.d)), np.zeros((c.n, rows.d)))

    def begin(self, c: Averaging, rows: HostedRows, nodes: Nodes) -> None:
        """The first gradients: y^0 = g^0."""
        for i in np.flatnonzero(np.diff(rows.first)).tolist():
            node_gradient(rows, i, c.sigma, nodes.x[i], nodes.g[i])
            nodes.y[i] = nodes.g[i]

    def models(self, c: Averaging, nodes: Nodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.x.copy(), nodes.x.copy())
