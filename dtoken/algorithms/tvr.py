"""TVR, Token Variance Reduction (Hendrikx 2022, Algorithm 2).

A step is local with probability p_comp: node i uses one of its samples j,

    z_ij    <- (1 - rho_ij) z_ij + rho_ij a_ij^T theta_i
    theta_i <- theta_i - (phi_ij'(z_ij) - g_ij) a_ij / sigma~,      g_ij <- phi_ij'(z_ij),

or else token k jumps to a node i and both move towards each other,

    theta_k <- theta_k - rho_comm (theta_k - theta_i),      theta_i <- theta_i + rho_comm (theta_k - theta_i).

The paper draws samples uniformly; with p_ij proportional to 1 + L_ij / sigma~ and rho_ij to its inverse the step size
depends on the mean of the L_ij instead of the largest. With ``block_rows=B`` a sample is a block of B consecutive rows:
the sum of their losses is f_ij, L_ij its smoothness, and a step uses all rows of the block, each with its own margin,
from the old theta_i. With one block a node this is Token GD. With ``compute=on_arrival`` every step is a visit, at
which the node also uses a sample; both changes are made from the old theta_i, with smaller weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoken.algorithms.base import SamplingMethod
from dtoken.algorithms.contract import Facts, Vector
from dtoken.algorithms.dual import DualMethod, follow_margins, mix, move_margins
from dtoken.compiled import compiled
from dtoken.problem.blocks import Blocks
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.dual_descent import (
    DualDescent,
    arrival_descent,
    dual_descent,
    importance_sampling,
    node_importance,
    node_uniform,
    shared_sigma,
    uniform_sampling,
    weighted_descent,
)


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses its sample that begins in row r."""
    L, last = rows.c * rows.w[i] * rows.q[r], min(r + rows.block, rows.first[i + 1])
    move_margins(c.rho_comp / (1.0 + c.importance * L / c.sigma_t), rows, nodes, i, r, last)
    follow_margins(c, rows, nodes, i, r, last)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i."""
    mix(c.rho_comm[i], tokens.theta[k], nodes.theta[i])


@compiled
def arrive(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i, which uses its sample that begins in row r."""
    L, last = rows.c * rows.w[i] * rows.q[r], min(r + rows.block, rows.first[i + 1])
    move_margins(c.rho_arrival[i] / (1.0 + c.importance * L / c.sigma_t), rows, nodes, i, r, last)
    mix(c.rho_comm[i], tokens.theta[k], nodes.theta[i])
    follow_margins(c, rows, nodes, i, r, last)


@dataclass(frozen=True)
class TVR(SamplingMethod, DualMethod):
    """Token Variance Reduction.

    Parameters
    ----------
    tokens, smoothness, factor, jumps, mixing, p_comm, start, start_margin, start_from
        As for Token GD.
    compute, interactions, interactions_anywhere, continuized, edges
        As for Token GD.
    sampling
        ``importance``: samples are drawn with probability proportional to 1 + L_ij / sigma~; ``uniform``: all alike;
        ``permuted``: every node goes through its samples in a fresh random order each epoch.
    bucket_rows
        Of ``permuted``: so many consecutive rows are a bucket; buckets come in random order, four at a time, in turns.
        At most a 16th of a node. Of blocks as many as have so many rows, at least one.
    block_rows
        Rows of a sample: a block of consecutive rows of a node is one f_ij.
    """

    start: str = "local"  # from zero its nodes begin far away, and sample by sample they forget it slowly
    block_rows: int = 1

    name = "tvr"
    local = staticmethod(local)

    @property
    def visit(self) -> Callable[..., None]:
        """With or without a sample."""
        return arrive if self.on_arrival else visit

    def __post_init__(self) -> None:
        super().__post_init__()
        Blocks(self.block_rows)  # refuses numbers that make no sense

    @property
    def blocks(self) -> Blocks:
        """With the smoothness of blocks by the rule for nodes: eigenvalues, or sums."""
        return Blocks(self.block_rows, exact=self.smoothness == "batch")

    def constants(self, facts: Facts) -> DualDescent:
        """Step sizes by the theory."""
        sigma_t = shared_sigma(facts.n, self.tokens, facts.sigma)
        L_b, pi = self.batch_smoothness(facts), self.visit_law(facts)
        if self.on_arrival:
            self.check_samples(facts)
            if self.importance:
                at_node = node_importance(facts.samples, facts.sum_L, sigma_t)
            else:
                at_node = node_uniform(facts.samples, facts.largest_L, sigma_t)
            return arrival_descent(self.tokens, sigma_t, L_b, at_node, pi, self.interactions_anywhere)
        samples = int(facts.samples.sum())
        if self.importance:
            sampling = importance_sampling(samples, float(facts.sum_L.sum()), sigma_t)
        else:
            sampling = uniform_sampling(samples, facts.max_L, sigma_t)
        if self.weighted:
            return weighted_descent(self.tokens, sigma_t, self.node_smoothness(facts), sampling, pi, self.given_p_comm)
        return dual_descent(self.tokens, sigma_t, L_b, sampling, pi, self.interactions_anywhere, self.given_p_comm)

    def law(self, c: DualDescent, facts: Facts) -> Law:
        """A local step picks a node, then a sample of it, so that p_ij comes out."""
        weights = facts.samples + c.importance * facts.sum_L / c.sigma_t
        nodes, jumps = weights / weights.sum(), self.jumps_per_visit(c, facts)
        return Law(
            self.tokens,
            c.p_comm,
            c.p_meet,
            nodes,
            jumps,
            self.on_arrival,
            self.continuized,
            p_here=self.interactions,
            order=self.order(facts),
        )

    def costs(self, facts: Facts) -> Costs:
        """A gradient for each row of a sample, a step that computes."""
        return self.step_costs(np.minimum(facts.rows, self.block_rows), facts)

    def weights(self, c: DualDescent, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return 1 + c.importance * L / c.sigma_t if c.importance else None
