"""EXTRA, an exact first-order algorithm for decentralised consensus (Shi, Ling, Wu, Yin 2015).

    x^1     = W x^0 - s g^0,      W = I - Lap / lambda_max,      s = step / (L_b + sigma)
    x^{t+2} = (I + W) / 2 (2 x^{t+1} - x^t) - s (g^{t+1} - g^t),      g^t_i = grad F_i(x^t_i)

with x^0 = 0, so that the first step is the second formula with x^{-1} = g^{-1} = 0. A node sends 2 x^t - x^{t-1} to its
neighbours. A round costs one full gradient at every node, a message along each edge in each direction, and the ideal
time m tau_comp + tau_comm. The guarantee of the paper is s < 2 lambda_min((I + W) / 2) / L = 1 / L: the default is its
boundary.

With ``chebyshev`` a polynomial P(Lap) of degree K stands for Lap (Scaman et al. 2017; ``theory.chebyshev``), and its
largest eigenvalue 1 + delta for lambda_max: a round has K exchanges, of 2 |E| messages and tau_comm each.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import InBlocks
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.polynomial import ChebyshevAverages, Polynomial, begin_round, exchanges, no_rounds, receive
from dtoken.algorithms.synchronous import Averaging, AveragingMethod, Messages
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows, add_gradient
from dtoken.schedule.events import LOADING, concatenate
from dtoken.schedule.rounds import Rounds, local_steps
from dtoken.schedule.stream import Schedule
from dtoken.theory.gossip import network
from dtoken.theory.promise import Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) x^t
    before: Vector  # (hosted, d) x^{t-1}
    g: Vector  # (hosted, d) g^{t-1}
    mixed: Vector  # (hosted, d) what has come of (I + W) / 2 (2 x^t - x^{t-1})


class AcceleratedNodes(NamedTuple):
    """State of the hosted nodes, with that of the polynomial."""

    x: Vector
    before: Vector
    g: Vector
    mixed: Vector
    current: Vector  # (hosted, d)
    before_last: Vector  # (hosted, d)
    arriving: Vector  # (hosted, d)
    weight: Vector  # (hosted,)
    stage: NDArray[np.int64]  # (hosted,)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or gets that of a neighbour."""
    if r == LOADING:
        tokens.message[k] = 2.0 * nodes.x[i] - nodes.before[i]
        nodes.mixed[i] += c.own[i] * tokens.message[k]
    else:
        nodes.mixed[i] += c.other * tokens.message[k]


@compiled
def accelerated_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The same, in the rounds of the polynomial."""
    if r == LOADING:
        start = 2.0 * nodes.x[i] - nodes.before[i]
        if begin_round(c, nodes, tokens.message[k], i, start):
            nodes.mixed[i] = start - c.half * (start - nodes.current[i])
    else:
        receive(c, nodes, tokens.message[k], i)


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
class EXTRA(ChebyshevAverages, InBlocks, AveragingMethod):
    """EXTRA.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma); guaranteed below 1.
    block_rows
        As for Token GD.
    chebyshev
        Whether nodes average by a Chebyshev polynomial of the graph, ``true``: in 1 / sqrt(gap) exchanges; or in how
        many exchanges.
    """

    chebyshev: bool | int = False

    name = "extra"
    local = staticmethod(local)
    plain_visit, accelerated_visit = staticmethod(visit), staticmethod(accelerated_visit)
    phases = (move_on,)

    def constants(self, facts: Facts) -> Averaging | Polynomial:  # type: ignore[override]
        """Step size and weights."""
        c = super().constants(facts)
        if not self.chebyshev:
            return c
        found, net = self.accelerated(network(facts.walk.topology, self.name))
        return Polynomial(*c[:5], net.gap, found.rounds, found.own, found.unit, found.quarter, 0.5 / (1 + found.delta))

    def schedule(self, c: Averaging | Polynomial, facts: Facts, seed: int) -> Schedule:
        """Messages to all neighbours, once or K times, then a local step everywhere."""
        if isinstance(c, Averaging):
            return super().schedule(c, facts, seed)
        averaging = exchanges(network(facts.walk.topology, self.name).neighbours, c.rounds)
        return Rounds(concatenate([averaging, local_steps(c.n)]))

    def promise(self, c: Averaging | Polynomial, facts: Facts) -> Promise:
        """As NIDS, with s L at most 1."""
        basis = "observed; linear convergence, without this rate, is proved for s < 1 / L"
        return self.promised(min(c.step * c.sigma, c.gap / 2), basis)

    def states(self, c: Averaging | Polynomial, rows: HostedRows) -> tuple[Nodes | AcceleratedNodes, Messages]:
        """Models and gradients, all zero."""
        x, before, g, mixed = (np.zeros((len(rows.w), rows.d)) for _ in range(4))
        messages = Messages(np.zeros((c.n, rows.d)))
        if self.chebyshev:
            return AcceleratedNodes(x, before, g, mixed, *no_rounds(rows)), messages
        return Nodes(x, before, g, mixed), messages

    def models(self, c: Averaging | Polynomial, nodes: Nodes | AcceleratedNodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.x.copy(), nodes.x.copy())
