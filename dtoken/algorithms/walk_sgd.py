"""Gradient descent along a random walk (Ram, Nedic, Veeravalli 2009; Johansson, Rabi, Johansson 2010), private or not.

One token carries x. At visit t of node i,

    x <- x - gamma_t (g_i(x) + sigma x + s C xi),      xi standard normal, made from the event,

where g_i is the gradient of f_i, with ``privacy.clip`` = C the mean of row gradients cut to norm C, and s =
``privacy.noise``. Step sizes are ``constant``, gamma_t = gamma_0 = step / (L_b + sigma); ``sqrt``, gamma_0 / sqrt(1 +
(t - 1) / n); or ``inverse``, 1 / (1 / gamma_0 + sigma t / 2), with which F - F* falls like 1 / t.

The gradient of a row is phi'(a^T x) a. Cutting it to norm C cuts phi' to [-C / ||a||, C / ||a||]: the gradient of
another convex loss that is as smooth. So with step <= 1 every step is a contraction, which is what the accounts of
`dtoken.theory.privacy` rest on. Cutting the mean instead would not have that property.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtoken.algorithms.base import VisitMethod
from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot, row_square
from dtoken.problem.losses import derivative
from dtoken.schedule.random import event_key, normal
from dtoken.theory.promise import Promise

DECAYS = ("constant", "sqrt", "inverse")


class Descent(NamedTuple):
    """Constants of the method."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    step: float  # gamma_0
    decay: int  # place among DECAYS
    clip: float  # C; 0: none
    noise: float  # s C, standard deviation of a coordinate
    seed: np.uint64


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d) the token's, when it left


class Tokens(NamedTuple):
    """State of the token."""

    x: Vector  # (1, d)


@compiled
def step_size(c: Any, t: float) -> float:
    """gamma_t of the visit at time t, counted from 1."""
    if c.decay == 0:
        return float(c.step)
    return float(c.step / math.sqrt(1.0 + (t - 1.0) / c.n) if c.decay == 1 else 1.0 / (1.0 / c.step + c.sigma * t / 2))


@compiled
def step_sizes(c: Any, times: Vector) -> Vector:
    """The same of several."""
    found = np.empty(len(times))
    for place in range(len(times)):
        found[place] = step_size(c, times[place])
    return found


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """The token arrives at node i."""
    x, g, key = tokens.x[k], np.zeros(rows.d), event_key(c.seed, t)
    for row in range(rows.first[i], rows.first[i + 1]):
        start, stop = rows.start[row], rows.stop[row]
        slope = derivative(rows.loss, row_dot(rows.data, rows.indices, start, stop, x), rows.y[row])
        length = abs(slope) * math.sqrt(row_square(rows.data, start, stop))
        if length > c.clip > 0.0:
            slope *= c.clip / length
        add_row(rows.data, rows.indices, start, stop, rows.w[i] * slope, g)
    gamma = step_size(c, t)
    for s in range(len(x)):
        noise = c.noise * normal(key, s) if c.noise > 0.0 else 0.0
        x[s] -= gamma * (g[s] + c.sigma * x[s] + noise)
    nodes.x[i] = x


@dataclass(frozen=True)
class WalkSGD(VisitMethod):
    """Gradient descent along a random walk.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        The first step size, in units of 1 / (L_b + sigma).
    decay
        How step sizes fall: ``constant``, ``sqrt`` or ``inverse``.
    """

    step: float = 1.0
    decay: str = "inverse"

    name = "walk_sgd"
    private: ClassVar[bool] = True
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("decay", self.decay, DECAYS)
        if not 0 < self.step < math.inf:
            raise InputError(f"algorithm.step={self.step} must be positive; 1 is safe")

    def constants(self, facts: Facts) -> Descent:
        """Step sizes, and the noise."""
        L_b, privacy = self.batch_smoothness(facts), facts.privacy
        clip, gamma = privacy.clip or 0.0, self.step / (L_b + facts.sigma)
        decay, noise = DECAYS.index(self.decay), privacy.noise * clip
        return Descent(facts.n, facts.sigma, L_b, gamma, decay, clip, noise, np.uint64(facts.seed))

    def contracts(self) -> bool:
        """Whether every step is a contraction: as long as steps are no longer than the true smoothness allows."""
        return self.step <= 1 and not self.heuristic

    def step_sizes(self, c: Descent, times: Vector) -> Vector:
        """gamma_t of the visits at these times."""
        return step_sizes(c, times)

    def promise(self, c: Descent, facts: Facts) -> Promise:
        """It does not converge linearly."""
        return Promise(None, "no rate: with decay=inverse F - F* falls like 1 / t; constant steps stop at a distance")

    def notes(self, c: Descent, facts: Facts) -> tuple[str, ...]:
        """Where visits are not uniform, the run goes elsewhere."""
        told, pi = super().notes(c, facts), facts.walk.visit_law(1)
        if np.ptp(pi) > 1e-9:
            told = (
                *told,
                f"{facts.walk.name} visits some nodes more often than others, and walk_sgd minimises the sum of losses "
                "with these weights, not F; use graph.walk=metropolis",
            )
        return told

    def states(self, c: Descent, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero."""
        return Nodes(np.zeros((len(rows.w), rows.d))), Tokens(np.zeros((1, rows.d)))

    def models(self, c: Descent, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The states are the models."""
        return Models(nodes.x, tokens.x)
