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

With ``chebyshev`` a polynomial P(Lap) of degree K stands for Lap (Scaman et al. 2017; ``theory.chebyshev``), with the
eigenvalues 1 - delta and 1 + delta: a round of messages is then K exchanges.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import SamplingMethod
from dtoken.algorithms.contract import Facts, Models, Vector, require_rows
from dtoken.algorithms.polynomial import ChebyshevAverages, begin_round, exchanges, no_rounds, receive
from dtoken.algorithms.starts import Dual, Starting
from dtoken.algorithms.synchronous import Messenger
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.events import LOADING
from dtoken.schedule.rounds import RandomRounds, exchange
from dtoken.schedule.stream import Schedule
from dtoken.theory.dual_descent import NodeSampling
from dtoken.theory.dual_gossip import DualGossip, DualPolynomial, dual_gossip
from dtoken.theory.gossip import network
from dtoken.theory.promise import Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d)
    sent: Vector  # (hosted, d) theta before the exchange
    z: Vector  # (rows,) margins z_ij
    g: Vector  # (rows,) slopes phi_ij'(z_ij)


class AcceleratedNodes(NamedTuple):
    """State of the hosted nodes, with that of the polynomial."""

    theta: Vector
    z: Vector
    g: Vector
    current: Vector  # (hosted, d)
    before_last: Vector  # (hosted, d)
    arriving: Vector  # (hosted, d)
    weight: Vector  # (hosted,)
    stage: NDArray[np.int64]  # (hosted,)


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
def accelerated_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The same, in the rounds of the polynomial; theta moves when they are over."""
    if r == LOADING:
        if begin_round(c, nodes, tokens.theta[k], i, nodes.theta[i]):
            for s in range(rows.d):
                nodes.theta[i, s] -= c.rho_comm * (nodes.theta[i, s] - nodes.current[i, s])
    else:
        receive(c, nodes, tokens.theta[k], i)


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
class DVR(ChebyshevAverages, Starting, SamplingMethod, Messenger):
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
    chebyshev
        As for EXTRA.
    """

    start: str = "local"  # as for tvr
    chebyshev: bool | int = False

    name = "dvr"
    local = staticmethod(local)
    plain_visit, accelerated_visit = staticmethod(visit), staticmethod(accelerated_visit)

    def constants(self, facts: Facts) -> DualGossip | DualPolynomial:
        """Step sizes by the theory."""
        require_rows(facts, self.name)
        sigma, L_b = facts.sigma, self.batch_smoothness(facts)
        total = facts.samples + self.importance * facts.sum_L / sigma
        bound = total if self.importance else total * (1 + facts.largest_L / sigma)
        sampling = NodeSampling(total, bound, float(self.importance))
        net = network(facts.walk.topology, self.name)
        if not self.chebyshev:
            return dual_gossip(sigma, L_b, sampling, net)
        found, net = self.accelerated(net)
        plain = dual_gossip(sigma, L_b, sampling, net)
        return DualPolynomial(*plain, found.rounds, found.own, found.unit, found.quarter)

    def promise(self, c: DualGossip | DualPolynomial, facts: Facts) -> Promise:
        """eta r alpha; eta alpha / 2 in the paper."""
        return self.promised(c.rate, "by the argument for tvr, observed", c.paper_rate)

    def schedule(self, c: DualGossip | DualPolynomial, facts: Facts, seed: int) -> Schedule:
        """Exchanges and local steps in random order."""
        neighbours = network(facts.walk.topology, self.name).neighbours
        pattern = exchanges(neighbours, c.rounds) if isinstance(c, DualPolynomial) else exchange(neighbours)
        return RandomRounds(seed, c.p_comm, pattern, facts.n, self.order(facts))

    def weights(self, c: DualGossip | DualPolynomial, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return 1 + L / c.sigma if c.importance else None

    def states(self, c: DualGossip | DualPolynomial, rows: HostedRows) -> tuple[Nodes | AcceleratedNodes, Messages]:
        """All zero; `begin` fills in margins, slopes and nodes."""
        theta, z, g = np.zeros((len(rows.w), rows.d)), np.zeros(len(rows.y)), np.zeros(len(rows.y))
        messages = Messages(np.zeros((c.n, rows.d)))
        if self.chebyshev:
            return AcceleratedNodes(theta, z, g, *no_rounds(rows)), messages
        return Nodes(theta, np.zeros_like(theta), z, g), messages

    def dual(self, c: DualGossip | DualPolynomial, nodes: Nodes | AcceleratedNodes) -> Dual:
        """As for tokens, without their share of the regulariser."""
        return Dual(nodes.theta, nodes.z, nodes.g, c.sigma)

    def put_tokens(self, c: DualGossip | DualPolynomial, tokens: Messages, models: Vector) -> None:
        """Messages are written before they are read."""

    def models(self, c: DualGossip, nodes: Nodes | AcceleratedNodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.theta.copy(), nodes.theta.copy())
