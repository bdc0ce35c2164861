"""GT-SAGA, gradient tracking with SAGA at every node (Xin, Khan, Kar 2020, Algorithm 1).

    x^{t+1} = (I + W) / 2 x^t - s y^t,      W = I - Lap / lambda_max
    v_i     = s_i u a_ij + mean_i + sigma x_i,      u = phi'(a_ij^T x_i) - g_ij,      at x^{t+1}, j drawn uniformly
    mean_i <- mean_i + u a_ij / m_i,      g_ij <- g_ij + u
    y^{t+1} = (I + W) / 2 y^t + v^{t+1} - v^t

with x^0 = 0, g_ij = phi'(0), mean_i = grad f_i(0) and y^0 = v^0 = grad F_i(0). s_i is the share of the node's rows that
are not empty, which are those that are drawn. It is DIGing with the gradient of one row in the place of a full one.

    s = step / (3 L_max),      L_max = max_ij c ||a_ij||^2 + sigma,

SAGA's own step size (Defazio, Bach, Lacoste-Julien 2014). The theorem of Xin, Khan and Kar is for shorter steps, which
depend on the graph. A round costs one gradient at every node, a message along each edge in each direction, which
carries x and y, and the ideal time tau_comp + tau_comm. The table is made before the first round, and its m_i gradients
a node are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtoken.algorithms.base import NO_MARGINS
from dtoken.algorithms.contract import Facts, Models, Vector, require_rows
from dtoken.algorithms.diging import Messages, visit
from dtoken.algorithms.synchronous import Messaging, neighbour_round
from dtoken.algorithms.table import SlopeTable, fill_table
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.rounds import SampledRounds
from dtoken.schedule.stream import Schedule
from dtoken.theory.gossip import network
from dtoken.theory.promise import Promise


class SampledTracking(NamedTuple):
    """Constants of GT-SAGA."""

    n: int
    sigma: float
    L_max: float  # smoothness of the loss of a single row, with the regulariser
    step: float  # s
    gap: float  # gamma, of W
    own: Vector  # (n,) diagonal of (I + W) / 2
    other: float  # its other entries, for neighbours
    share: Vector  # (n,) s_i


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) x^t
    y: Vector  # (hosted, d) y^t
    v: Vector  # (hosted, d) v^t
    mean: Vector  # (hosted, d) sum_j g_ij a_ij / m_i
    mixed_x: Vector  # (hosted, d) what has come of (I + W) / 2 x^t
    mixed_y: Vector  # (hosted, d) what has come of (I + W) / 2 y^t
    g: Vector  # (rows,) slopes g_ij


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i moves on, and uses its row r there."""
    start, stop, x = rows.start[r], rows.stop[r], nodes.x[i]
    for s in range(rows.d):
        x[s] = nodes.mixed_x[i, s] - c.step * nodes.y[i, s]
        nodes.y[i, s] = nodes.mixed_y[i, s] - nodes.v[i, s]
        nodes.v[i, s] = nodes.mean[i, s] + c.sigma * x[s]
        nodes.mixed_x[i, s] = 0.0
        nodes.mixed_y[i, s] = 0.0
    u = derivative(rows.loss, row_dot(rows.data, rows.indices, start, stop, x), rows.y[r]) - nodes.g[r]
    add_row(rows.data, rows.indices, start, stop, c.share[i] * u, nodes.v[i])
    add_row(rows.data, rows.indices, start, stop, rows.w[i] * u, nodes.mean[i])
    nodes.g[r] += u
    for s in range(rows.d):
        nodes.y[i, s] += nodes.v[i, s]


@dataclass(frozen=True)
class GTSAGA(Messaging, SlopeTable):
    """Gradient tracking with SAGA.

    Parameters
    ----------
    step
        Step size, in units of 1 / (3 L_max), L_max that of a single row.
    """

    step: float = 1.0

    name = "gt_saga"
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **NO_MARGINS,
            "block_rows": "its samples are single rows",
            "sampling": "its samples are drawn uniformly",
            "smoothness": "its step size is that of single rows",
        }
    )
    local = staticmethod(local)
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        if not 0 < self.step < np.inf:
            raise InputError(f"algorithm.step={self.step} must be positive; 1 stands for 1 / (3 L_max)")

    def constants(self, facts: Facts) -> SampledTracking:
        """Step size and weights."""
        require_rows(facts, self.name)
        net = network(facts.walk.topology, self.name)
        largest = facts.rows * facts.largest_L  # L_ij has the weight 1 / m_i in it
        L_max = float(largest.max()) + facts.sigma
        return SampledTracking(
            n=facts.n,
            sigma=facts.sigma,
            L_max=L_max,
            step=self.step / (3 * L_max),
            gap=net.gap,
            own=1 - net.degree / (2 * net.lambda_max),
            other=1 / (2 * net.lambda_max),
            share=facts.samples / facts.rows,
        )

    def schedule(self, c: SampledTracking, facts: Facts, seed: int) -> Schedule:
        """Messages to all neighbours, then a local step everywhere, with one row."""
        return SampledRounds(neighbour_round(facts.walk.topology, self.name), seed)

    def promise(self, c: SampledTracking, facts: Facts) -> Promise:
        """min(s sigma, 1 / (3 m), gamma / 2), as SAGA on one machine, and an average."""
        rate = min(c.step * c.sigma, 1 / (3 * int(facts.rows.max())), c.gap / 2)
        return Promise(rate, "observed; linear convergence is proved for shorter steps, without this rate")

    def states(self, c: SampledTracking, rows: HostedRows) -> tuple[Nodes, Messages]:
        """All models are zero: x^0 = 0."""
        x, y, v, mean, mixed_x, mixed_y = (np.zeros((len(rows.w), rows.d)) for _ in range(6))
        nodes = Nodes(x, y, v, mean, mixed_x, mixed_y, np.zeros(len(rows.y)))
        return nodes, Messages(np.zeros((c.n, rows.d)), np.zeros((c.n, rows.d)))

    def begin(self, c: SampledTracking, rows: HostedRows, nodes: Nodes) -> None:
        """The table, its mean, and y^0 = v^0."""
        fill_table(rows, nodes.g, nodes.mean)
        nodes.v[:] = nodes.y[:] = nodes.mean

    def models(self, c: SampledTracking, nodes: Nodes, tokens: Messages, t: float) -> Models:
        """The models of the nodes; there are no tokens."""
        return Models(nodes.x.copy(), nodes.x.copy())
