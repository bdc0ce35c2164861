"""ADFS, accelerated decentralised stochastic descent with exchanges of two nodes (Hendrikx, Bach, Massoulié 2019).

TAVR's parent: the same method with the edges of the graph in the place of visits. Nodes and samples have pairs (x, v)
that relax towards each other, dx/dt = rho (v - x), dv/dt = rho (x - v). With probability p_comm a step is an exchange
of the two nodes i and j of an edge that is drawn uniformly,

    D = s_comm (x_i - x_j) / sigma;    v_i -= D, v_j += D;    x_i -= b D, x_j += b D,    b = rho R |E| / p_comm,

else node i uses its sample j as in TAVR, with sigma in the place of sigma~. R is the largest effective resistance of an
edge, alpha = lambda_min / (sigma kappa), and p_comm balances both bounds on rho.

This is the form of the paper with one edge, of the graph or to a sample, at each step; its other form lets many edges
of a step communicate at once. An exchange is two messages and takes tau_comm, a local step tau_comp.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtoken.algorithms.base import SamplingMethod
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.paired import Paired
from dtoken.algorithms.pairs import Nodes, Tokens, relaxed, zero_pairs
from dtoken.algorithms.synchronous import Messaging
from dtoken.algorithms.tavr import local
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.events import LOADING
from dtoken.schedule.exchanges import Exchanges
from dtoken.schedule.stream import Law, Schedule
from dtoken.theory.accelerated import Accelerated, gossip_accelerated, importance_roots, uniform_roots
from dtoken.theory.gossip import edges, largest_resistance, network
from dtoken.theory.promise import Promise


class Messages(NamedTuple):
    """State of the tokens: what the nodes send."""

    x: Vector  # (n, d)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or moves towards that of its neighbour."""
    pair, message = nodes.pair[i].reshape(-1), tokens.x[k]
    decay, s_comm, b = (
        nodes.decay[i] * math.exp(-2.0 * c.rho * (t - nodes.time[i])),
        c.s_comm[i] / c.sigma_t,
        c.b_comm[i],
    )
    if r == LOADING:
        for s in range(len(message)):
            message[s] = 0.5 * (pair[2 * s] - decay * pair[2 * s + 1])
    else:
        for s in range(len(message)):
            difference = decay * pair[2 * s + 1]
            D = s_comm * (0.5 * (pair[2 * s] - difference) - message[s])
            pair[2 * s] -= (1.0 + b) * D
            pair[2 * s + 1] = difference - (1.0 - b) * D
        nodes.decay[i] = 1.0
        nodes.time[i] = t


@dataclass(frozen=True)
class ADFS(Messaging, Paired, SamplingMethod):
    """Accelerated decentralised stochastic descent.

    Parameters
    ----------
    smoothness, factor, start, start_margin, start_from
        As for Token GD; sigma is in the place of sigma~.
    sampling
        ``importance``: p_ij proportional to sqrt(1 + L_ij / sigma); ``uniform``: all alike; ``permuted``: every node
        goes through its samples in a fresh random order each epoch.
    bucket_rows
        As for TVR.
    """

    name = "adfs"
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"block_rows": "its local step solves an equation in one unknown, and a block would need one for each row"}
    )
    local = staticmethod(local)
    visit = staticmethod(visit)

    def constants(self, facts: Facts) -> Accelerated:
        """Step sizes by the theory."""
        sigma, net = facts.sigma, network(facts.walk.topology, self.name)
        if self.importance:
            sampling = importance_roots(facts.over_samples(lambda L: np.sqrt(1 + L / sigma)))
        else:
            sampling = uniform_roots(facts.samples, facts.max_L, sigma)
        return gossip_accelerated(
            net.lambda_min, largest_resistance(net), len(edges(net)), sigma, self.batch_smoothness(facts), sampling
        )

    def law(self, c: Accelerated, facts: Facts) -> Law:
        """Of the local steps; the log has the time of each event, as the four of an exchange happen at once."""
        return Law(facts.n, 0.0, 0.0, c.p_node, continuized=True)

    def schedule(self, c: Accelerated, facts: Facts, seed: int) -> Schedule:
        """Exchanges and local steps in random order."""
        pairs = edges(network(facts.walk.topology, self.name))
        return Exchanges(seed, c.p_comm, pairs, c.p_node, math.atanh(c.rho) / c.rho, self.order(facts))

    def promise(self, c: Accelerated, facts: Facts) -> Promise:
        """rho."""
        return self.promised(c.rate, "observed, by the argument for tavr: the paper's own constants differ")

    def weights(self, c: Accelerated, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return np.sqrt(1 + L / c.sigma_t) if c.importance else None

    def states(self, c: Accelerated, rows: HostedRows) -> tuple[Nodes, Messages]:  # type: ignore[override]
        """All zero: x = v = 0 belongs to slopes of 0."""
        return zero_pairs(rows, 0)[0], Messages(np.zeros((c.n, rows.d)))

    def put_tokens(self, c: Accelerated, tokens: Messages, models: Vector) -> None:  # type: ignore[override]
        """Messages are written before they are read."""

    def models(self, c: Accelerated, nodes: Nodes, tokens: Messages, t: float) -> Models:  # type: ignore[override]
        """The primal models that belong to the dual ones, x / sigma; there are no tokens."""
        none = Tokens(np.empty((0, nodes.pair.shape[1])), np.empty((0, nodes.pair.shape[1])), np.empty(0))
        x = relaxed(c.rho, nodes, none, t)[0] / c.sigma_t
        return Models(x, x.copy())
