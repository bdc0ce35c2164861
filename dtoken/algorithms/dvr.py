"""DVR, dual-free stochastic decentralised optimisation with variance reduction (Hendrikx, Bach, Massoulié 2020,
Algorithm 1), with the constants of the authors' code.

With probability p_comm a step is a round of messages along all edges,

    theta <- theta - (eta / (p_comm sigma)) Lap theta,

else every node takes a local step with one of its samples j, drawn with probability p_j|i,

    z_ij    <- (1 - rho_ij) z_ij + rho_ij a_ij^T theta_i,      rho_ij = alpha eta / (p_comp p_j|i)
    theta_i <- theta_i - (phi_ij'(z_ij) - g_ij) a_ij / sigma,      g_ij <- phi_ij'(z_ij).

It is TVR without tokens: nodes average with their neighbours instead. Constants, with kappa = 1 + L_b / sigma, the
smallest and largest non-zero eigenvalues of Lap, gamma = lambda_min / lambda_max, N_c = max (1 + L_ij / sigma) / p_j|i:

    alpha = 2 lambda_min / (sigma kappa),      p_comm / p_comp = kappa / (2 gamma N_c),
    eta = min(p_comm sigma / lambda_max, p_comp / (alpha N_c)),      p_j|i proportional to 1 + L_ij / sigma.

Contraction per step: eta r alpha, r about 1/3, or eta alpha / 2 as in the paper; per factor e this makes kappa / gamma
exchanges and 2 N_c samples a node. An exchange takes tau_comm and a message along each edge in each direction, a local
step tau_comp.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.base import SamplingMethod
from dtoken.algorithms.contract import Facts, Models, Vector
from dtoken.algorithms.starts import Dual, Starting
from dtoken.algorithms.synchronous import Messenger
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.events import LOADING
from dtoken.schedule.rounds import RandomRounds, exchange
from dtoken.schedule.stream import Schedule
from dtoken.theory.dual_descent import NodeSampling
from dtoken.theory.dual_gossip import DualGossip, dual_gossip
from dtoken.theory.gossip import network
from dtoken.theory.promise import Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d)
    sent: Vector  # (hosted, d) theta before the exchange
    z: Vector  # (rows,) margins z_ij
    g: Vector  # (rows,) slopes phi_ij'(z_ij)


class Messages(NamedTuple):
    """State of the tokens: what the nodes send."""

    theta: Vector  # (n, d)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """A node loads its message, or moves towards that of a neighbour."""
    if r == LOADING:
        nodes.sent[i] = nodes.theta[i]
        tokens.theta[k] = nodes.theta[i]
    else:
        for s in range(rows.d):
            nodes.theta[i, s] -= c.rho_comm * (nodes.sent[i, s] - tokens.theta[k, s])


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses its sample in row r."""
    start, stop, theta, w = rows.start[r], rows.stop[r], nodes.theta[i], rows.w[i]
    rho = c.rho_comp[i] / (1.0 + c.importance * rows.c * w * rows.q[r] / c.sigma)
    nodes.z[r] += rho * (row_dot(rows.data, rows.indices, start, stop, theta) - nodes.z[r])
    g = w * derivative(rows.loss, nodes.z[r], rows.y[r])
    add_row(rows.data, rows.indices, start, stop, -(g - nodes.g[r]) / c.sigma, theta)
    nodes.g[r] = g


@dataclass(frozen=True)
class DVR(Starting, SamplingMethod, Messenger):
    """Dual-free decentralised variance reduction.

    Parameters
    ----------
    smoothness, factor, start, start_margin, start_from
        As for Token GD; sigma is in the place of sigma~.
    sampling
        ``importance``: samples are drawn with probability proportional to 1 + L_ij / sigma; ``uniform``: all alike;
        ``permuted``: every node goes through its samples in a fresh random order each epoch.
    bucket_rows
        As for TVR.
    """

    start: str = "local"  # as for tvr

    name = "dvr"
    local = staticmethod(local)
    visit = staticmethod(visit)

    def constants(self, facts: Facts) -> DualGossip:
        """Step sizes by the theory."""
        if not facts.samples.all():
            raise InputError(
                f"node {int(np.argmin(facts.samples))} has only empty rows, and dvr draws one at every step"
            )
        sigma, L_b = facts.sigma, self.batch_smoothness(facts)
        if self.importance:
            total = bound = facts.samples + facts.sum_L / sigma
        else:
            total = facts.samples.astype(np.float64)
            bound = total * (1 + facts.of_samples(lambda L: float(L.max())) / sigma)
        sampling = NodeSampling(total, bound, float(self.importance))
        return dual_gossip(sigma, L_b, sampling, network(facts.walk.topology, self.name))

    def promise(self, c: DualGossip, facts: Facts) -> Promise:
        """eta r alpha; eta alpha / 2 in the paper."""
        return self.promised(c.rate, "by the argument for tvr, observed", c.paper_rate)

    def schedule(self, c: DualGossip, facts: Facts, seed: int) -> Schedule:
        """Exchanges and local steps in random order."""
        pattern = exchange(network(facts.walk.topology, self.name).neighbours)
        return RandomRounds(seed, c.p_comm, pattern, facts.n, self.order(facts))

    def weights(self, c: DualGossip, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return 1 + L / c.sigma if c.importance else None

    def states(self, c: DualGossip, rows: HostedRows) -> tuple[Nodes, Messages]:
        """All zero; `begin` fills in margins, slopes and nodes."""
        theta, sent = np.zeros((len(rows.w), rows.d)), np.zeros((len(rows.w), rows.d))
        nodes = Nodes(theta, sent, np.zeros(len(rows.y)), np.zeros(len(rows.y)))
        return nodes, Messages(np.zeros((c.n, rows.d)))

    def dual(self, c: DualGossip, nodes: Nodes) -> Dual:
        """As for tokens, without their share of the regulariser."""
        return Dual(nodes.theta, nodes.z, nodes.g, c.sigma)

    def put_tokens(self, c: DualGossip, tokens: Messages, models: Vector) -> None:
        """Messages are written before they are read."""

    def models(self, c: DualGossip, nodes: Nodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.theta.copy(), nodes.theta.copy())
