"""EXTRA, an exact first-order algorithm for decentralised consensus (Shi, Ling, Wu, Yin 2015).

    x^1     = W x^0 - s g^0,      W = I - Lap / lambda_max,      s = step / (L_b + sigma)
    x^{t+2} = (I + W) / 2 (2 x^{t+1} - x^t) - s (g^{t+1} - g^t),      g^t_i = grad F_i(x^t_i)

with x^0 = 0, so that the first step is the second formula with x^{-1} = g^{-1} = 0. A node sends 2 x^t - x^{t-1} to its
neighbours. A round costs one full gradient at every node, a message along each edge in each direction, and the ideal
time m tau_comp + tau_comm. The guarantee of the paper is s < 2 lambda_min((I + W) / 2) / L = 1 / L: the default is its
boundary.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.base import InBlocks
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.synchronous import Averaging, AveragingMethod, Messages
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows, add_gradient
from dtoken.schedule.events import LOADING
from dtoken.theory.promise import Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) x^t
    before: Vector  # (hosted, d) x^{t-1}
    g: Vector  # (hosted, d) g^{t-1}
    mixed: Vector  # (hosted, d) what has come of (I + W) / 2 (2 x^t - x^{t-1})


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or gets that of a neighbour."""
    if r == LOADING:
        tokens.message[k] = 2.0 * nodes.x[i] - nodes.before[i]
        nodes.mixed[i] += c.own[i] * tokens.message[k]
    else:
        nodes.mixed[i] += c.other * tokens.message[k]


@compiled
def move_on(c: Any, rows: Any, nodes: Any, i: int, first: int, stop: int, g: Vector) -> None:
    """Node i takes its gradient, row by row, and moves on."""
    if first == rows.first[i]:
        g[:] = c.sigma * nodes.x[i]
    add_gradient(rows, i, first, stop, nodes.x[i], g)
    if stop == rows.first[i + 1]:
        nodes.before[i] = nodes.x[i]
        nodes.x[i] = nodes.mixed[i] - c.step * (g - nodes.g[i])
        nodes.g[i] = g
        nodes.mixed[i] = 0.0


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i takes a step with all its rows."""
    move_on(c, rows, nodes, i, rows.first[i], rows.first[i + 1], np.empty(rows.d))


@dataclass(frozen=True)
class EXTRA(InBlocks, AveragingMethod):
    """EXTRA.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); guaranteed below 1.
    block_rows
        As for Token GD.
    """

    name = "extra"
    local = staticmethod(local)
    phases = (move_on,)
    visit = staticmethod(visit)

    def promise(self, c: Averaging, facts: Facts) -> Promise:
        """As NIDS, with s L at most 1."""
        basis = "observed; linear convergence, without this rate, is proved for s < 1 / L"
        return self.promised(min(c.step * c.sigma, c.gap / 2), basis)

    def states(self, c: Averaging, rows: HostedRows) -> tuple[Nodes, Messages]:
        """Models and gradients, all zero."""
        x, before, g, mixed = (np.zeros((len(rows.w), rows.d)) for _ in range(4))
        return Nodes(x, before, g, mixed), Messages(np.zeros((c.n, rows.d)))

    def models(self, c: Averaging, nodes: Nodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.x.copy(), nodes.x.copy())
