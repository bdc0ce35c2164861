"""Token Gradient Descent (Hendrikx 2022, Algorithm 1), for any number of tokens.

A step is local with probability p_comp: node i uses all its data,

    z_i     <- (1 - rho_comp) z_i + rho_comp theta_i
    theta_i <- theta_i - (grad f_i(z_i) - g_i) / sigma~,      g_i <- grad f_i(z_i),

or else token k jumps to a node i and both move towards each other as in TVR. Of z_i only the margins a_ij^T z_i are
kept: they follow the same recursion and are all that the gradient needs. With ``compute=on_arrival`` every step is a
visit, at which the node also computes; both changes are made from the old theta_i, with smaller weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoken.algorithms.base import InBlocks
from dtoken.algorithms.contract import Facts, Vector
from dtoken.algorithms.dual import DualMethod, follow_margins, mix, move_margins
from dtoken.algorithms.tvr import visit
from dtoken.compiled import compiled
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.dual_descent import (
    DualDescent,
    NodeSampling,
    Sampling,
    arrival_descent,
    dual_descent,
    shared_sigma,
    weighted_descent,
)


@compiled
def look(c: Any, rows: Any, nodes: Any, i: int, first: int, stop: int, scratch: Vector) -> None:
    """The margins move, at the old theta_i."""
    move_margins(c.rho_comp, rows, nodes, i, first, stop)


@compiled
def follow(c: Any, rows: Any, nodes: Any, i: int, first: int, stop: int, scratch: Vector) -> None:
    """theta_i follows."""
    follow_margins(c, rows, nodes, i, first, stop)


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses all its rows: first all margins at the old theta_i, then the update."""
    look(c, rows, nodes, i, rows.first[i], rows.first[i + 1], rows.w)
    follow(c, rows, nodes, i, rows.first[i], rows.first[i + 1], rows.w)


@compiled
def arrive(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i, which uses all its rows."""
    move_margins(c.rho_arrival[i], rows, nodes, i, rows.first[i], rows.first[i + 1])
    mix(c.rho_comm[i], tokens.theta[k], nodes.theta[i])
    follow_margins(c, rows, nodes, i, rows.first[i], rows.first[i + 1])


@dataclass(frozen=True)
class Token(InBlocks, DualMethod):
    """Token Gradient Descent.

    Parameters
    ----------
    tokens
        Number of tokens, K.
    smoothness
        What kappa is made of: ``theory``, the sum of a node's L_ij; ``batch``, the true smoothness of the node's loss;
        ``factor``, the paper's heuristic, ``factor`` times the sum.
    factor
        The heuristic factor; 0.02 in the paper, safe or not depending on the data.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed; ``proved``: until it has mixed
        so well that the theorem on general graphs holds.
    mixing
        How close ``auto`` brings the walk to its stationary law, relative to the smallest probability.
    p_comm
        Probability that a step is a visit: ``balanced``, the theory's choice; a smaller number for more local steps
        between visits; ``auto``: by measured times, as long as the theory promises no longer run.
    start
        First margins: ``zero``; ``labels``, ``start_margin`` times the labels; ``local``, from one pass of dual
        coordinate ascent at each node, whose gradients and time are counted; ``warm``, those of an earlier run.
    start_margin
        The factor of ``labels``.
    start_from
        Directory of the finished run from which ``warm`` goes on: the same data; sigma, tokens and graph may differ.
    compute
        ``independent``: nodes compute all the time; ``on_arrival``: when a token arrives, and only then.
    interactions
        Probability that a token that arrives where other tokens are mixes with one of them.
    interactions_anywhere
        Probability that a step is a meeting of two tokens wherever they are; one comes the shortest way and goes back.
    continuized
        Steps ring at the points of a Poisson process instead of a step counter: the same steps at other times.
    edges
        Weights of a node's visits: ``equal``, or ``weighted`` by the smoothness of its own loss, so that nodes that are
        rarely visited cost nothing if they are smoother.
    block_rows
        Rows that are read together where memory does not hold all of them; results do not depend on it.
    """

    name = "token"
    draws_samples = False
    local = staticmethod(local)

    @property
    def phases(self) -> tuple[Callable[..., None], ...]:
        """Two passes over the rows; on arrival they belong to a visit, which is not divided."""
        return () if self.on_arrival else (look, follow)

    @property
    def visit(self) -> Callable[..., None]:
        """With or without a gradient."""
        return arrive if self.on_arrival else visit

    def constants(self, facts: Facts) -> DualDescent:
        """Step sizes by the theory, with one function per node."""
        sigma_t = shared_sigma(facts.n, self.tokens, facts.sigma)
        L_b, pi = self.batch_smoothness(facts), self.visit_law(facts)
        if self.on_arrival:
            at_node = NodeSampling(np.ones(facts.n), np.full(facts.n, 1 + 2 * L_b / sigma_t), importance=0.0)
            return arrival_descent(self.tokens, sigma_t, L_b, at_node, pi, self.interactions_anywhere)
        sampling = Sampling(total=facts.n, bound=facts.n * (1 + L_b / sigma_t), importance=0.0)
        if self.weighted:
            return weighted_descent(self.tokens, sigma_t, self.node_smoothness(facts), sampling, pi, self.given_p_comm)
        return dual_descent(self.tokens, sigma_t, L_b, sampling, pi, self.interactions_anywhere, self.given_p_comm)

    def law(self, c: DualDescent, facts: Facts) -> Law:
        """All nodes compute equally often."""
        nodes, jumps = np.full(facts.n, 1 / facts.n), self.jumps_per_visit(c, facts)
        return Law(
            self.tokens, c.p_comm, c.p_meet, nodes, jumps, continuized=self.continuized, p_here=self.interactions
        )

    def costs(self, facts: Facts) -> Costs:
        """A full gradient a step that computes."""
        return self.step_costs(facts.rows, facts)

    def weights(self, c: DualDescent, L: Vector) -> Vector | None:
        """A local step uses all samples: none is drawn."""
        return None
