"""What Token GD and TVR share: hyper-parameters, state, and the meeting of two tokens.

Both descend on the dual of the conceptual graph. With margins z_ij = a_ij^T z_i and slopes g_ij = phi_ij'(z_ij), one
number per sample each, both keep sigma~ (sum_i theta_i + sum_k theta_k) + sum_ij g_ij a_ij = 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import TokenMethod
from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.algorithms.distance import of_start
from dtoken.algorithms.starts import Dual, Starting
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.clock import Costs
from dtoken.theory.bounds import allowed_deviation, dual_bound
from dtoken.theory.dual_descent import DualDescent, visits_in_a_row
from dtoken.theory.promise import Promise


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    theta: Vector  # (hosted, d) theta_i
    z: Vector  # (rows,) margins z_ij
    g: Vector  # (rows,) slopes phi_ij'(z_ij)


class Tokens(NamedTuple):
    """State of the tokens."""

    theta: Vector  # (K, d) theta_k


COMPUTE = ("independent", "on_arrival")
EDGES = ("equal", "weighted")


@dataclass(frozen=True)
class DualMethod(Starting, TokenMethod):
    """A token method whose state is the model itself.

    Parameters
    ----------
    tokens, smoothness, factor, jumps, mixing, p_comm, start, start_margin, start_from
        As for all token methods.
    compute
        ``independent``: nodes compute all the time; ``on_arrival``: when a token arrives, and only then.
    interactions
        Probability that a token that arrives where other tokens are mixes with one of them.
    interactions_anywhere
        Probability that a step is a meeting of two tokens wherever they are; one comes the shortest way and goes back.
    continuized
        Steps ring at the points of a Poisson process: the same steps at other times.
    edges
        Weights of a node's visits: ``equal``, or ``weighted`` by the smoothness of its own loss.
    """

    compute: str = "independent"
    interactions: float = 0.0
    interactions_anywhere: float = 0.0
    continuized: bool = False
    edges: str = "equal"

    loses_tokens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("compute", self.compute, COMPUTE)
        check_choice("edges", self.edges, EDGES)
        self._check_interactions()
        if self.weighted and (self.on_arrival or self.interactions or self.interactions_anywhere):
            raise InputError(
                "algorithm.edges=weighted has no theory for compute=on_arrival or interactions; use edges=equal"
            )
        if self.on_arrival and self.p_comm != "balanced":
            raise InputError(
                f"algorithm.p_comm={self.p_comm}, but with compute=on_arrival every step is a visit; use "
                "compute=independent"
            )
        if self.interactions_anywhere + (self.given_p_comm or 0.0) >= 1:
            raise InputError(
                f"algorithm.p_comm={self.p_comm} and interactions_anywhere={self.interactions_anywhere} leave no local "
                "steps; their sum must be below 1"
            )

    def _check_interactions(self) -> None:
        here, anywhere = self.interactions, self.interactions_anywhere
        if not 0 <= here <= 1:
            raise InputError(f"algorithm.interactions={here} is a probability; it must lie in [0, 1]")
        if not 0 <= anywhere < 1:
            raise InputError(f"algorithm.interactions_anywhere={anywhere} is a probability; it must lie in [0, 1)")
        for name, value in (("interactions", here), ("interactions_anywhere", anywhere)):
            if value > 0 and self.tokens == 1:
                raise InputError(f"algorithm.{name}={value}, but one token cannot meet another; use tokens>=2")
        if here > 0 and anywhere > 0:
            raise InputError(
                f"algorithm.interactions={here} and interactions_anywhere={anywhere} are two ways to meet; use one"
            )

    @property
    def on_arrival(self) -> bool:
        """Whether nodes compute only when a token arrives."""
        return self.compute == "on_arrival"

    @property
    def weighted(self) -> bool:
        """Whether nodes with a larger smoothness of their own have heavier edges."""
        return self.edges == "weighted"

    @property
    def meet(self) -> Callable[..., None] | None:
        """Tokens only meet if they are asked to."""
        return meet if self.interactions > 0 or self.interactions_anywhere > 0 else None

    def step_costs(self, gradients: NDArray[np.int64], facts: Facts) -> Costs:
        """So many gradients at each node, when it computes; so many hops of tokens that meet from afar."""
        none = np.zeros_like(gradients)
        costs = Costs(none, gradients) if self.on_arrival else Costs(gradients, none)
        return costs._replace(hops=facts.walk.hops) if self.interactions_anywhere > 0 else costs

    def check_samples(self, facts: Facts) -> None:
        """Refuse nodes that have nothing to draw from when a token arrives."""
        if not facts.samples.all():
            raise InputError(
                f"node {int(np.argmin(facts.samples))} has only empty rows, but algorithm.compute=on_arrival uses a "
                "sample at every visit; use compute=independent or fewer nodes"
            )

    def promise(self, c: DualDescent, facts: Facts) -> Promise:
        """eta r alpha for independent visits; slower where the same nodes are visited again and again."""
        paper = None if math.isnan(c.paper_rate) else c.paper_rate
        found = self.mixed_promise(c.rate, facts, paper) or self._slow_promise(c, facts, paper)
        if found.rate is None or self.heuristic or self.interactions == 0:
            return found
        return found._replace(
            basis="not proved with interactions: meetings only descend on the dual, the rate is that without them"
        )

    def _slow_promise(self, c: DualDescent, facts: Facts, paper_rate: float | None) -> Promise:
        reason = "visits of this walk are not independent; stability is proved, speed is not"
        correlation = facts.walk.correlation(self.jumps_per_visit(c, facts))
        if correlation is None:
            return Promise(None, f"no rate: {reason}", paper_rate)
        slowed = c.rate * visits_in_a_row(correlation, float(c.rho_comm.max()))
        return self.promised(slowed, f"observed: {reason}", paper_rate)

    def states(self, c: DualDescent, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero; `begin` fills in margins, slopes and nodes."""
        nodes = Nodes(np.zeros((len(rows.w), rows.d)), np.zeros(len(rows.y)), np.zeros(len(rows.y)))
        return nodes, Tokens(np.zeros((self.tokens, rows.d)))

    def dual(self, c: DualDescent, nodes: Nodes) -> Dual:
        """The states are the models."""
        return Dual(nodes.theta, nodes.z, nodes.g, c.sigma_t)

    def put_tokens(self, c: DualDescent, tokens: Tokens, models: Vector) -> None:
        """The states are the models."""
        tokens.theta[...] = models

    def covered(self, facts: Facts) -> bool:
        """Meetings where tokens happen to be are in no theorem."""
        return super().covered(facts) and self.interactions == 0

    def bound(self, c: DualDescent, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """By the theorem, if visits are independent or as good as that."""
        if not self.covered(facts):
            return None
        distance = of_start(self, c, problem, best)
        deviation = 0.0 if facts.walk.iid else allowed_deviation(c.rate)
        return dual_bound(c, self.tokens, distance, self.objective_smoothness(facts), deviation)

    def models(self, c: DualDescent, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The states are the models."""
        return Models(nodes.theta, tokens.theta)


@compiled
def move_margins(rho: float, rows: Any, nodes: Any, i: int, first: int, last: int) -> None:
    """z_r <- (1 - rho) z_r + rho a_r^T theta_i, for the rows from ``first`` to before ``last``."""
    theta = nodes.theta[i]
    for r in range(first, last):
        margin = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], theta)
        nodes.z[r] += rho * (margin - nodes.z[r])


@compiled
def follow_margins(c: Any, rows: Any, nodes: Any, i: int, first: int, last: int) -> None:
    """theta_i <- theta_i - sum_r (phi_r'(z_r) - g_r) a_r / sigma~, g_r <- phi_r'(z_r)."""
    theta, w = nodes.theta[i], rows.w[i]
    for r in range(first, last):
        g = w * derivative(rows.loss, nodes.z[r], rows.y[r])
        add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], -(g - nodes.g[r]) / c.sigma_t, theta)
        nodes.g[r] = g


@compiled
def mix(rho: float, a: Vector, b: Vector) -> None:
    """Move a and b towards each other by the fraction rho of their difference."""
    for s in range(len(a)):
        delta = rho * (a[s] - b[s])
        a[s] -= delta
        b[s] += delta


@compiled
def meet(c: Any, tokens: Any, k: int, other: int, t: float) -> None:
    """Two tokens move towards each other."""
    mix(c.rho_meet, tokens.theta[k], tokens.theta[other])
