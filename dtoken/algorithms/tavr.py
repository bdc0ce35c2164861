"""TAVR, Token Accelerated Variance Reduction (Hendrikx 2022, Theorem 4), and its continuized form.

Accelerated proximal coordinate gradient on the dual. Nodes, tokens and samples have pairs (x, v) that relax towards
each other all the time, dx/dt = rho (v - x), dv/dt = rho (x - v), and are changed by events. Token k at node i:

    D = s_comm (x_i - x_k) / sigma~;    v_i -= D, v_k += D;    x_i -= b D, x_k += b D,    b = rho R / p_e.

Node i with its sample j, slopes (gx, gv), where u solves (u - t0) + beta (phi'(u) - gv) = 0:

    t0 = a^T x_i / sigma~ - (gx - gv) / c_ij,    beta = q (1 / s_ij - 1 / L_ij),    delta = phi'(u) - gv
    gv += delta, gx += b delta;    v_i -= delta a, x_i -= b delta a,    b = rho / (p_comp p_ij).

The model is x / sigma~. Steps at times (t + 1) atanh(rho) / rho give the discrete method, steps at the points of a
Poisson process the continuized one. A step costs O(non-zeros): x + v does not relax, and v - x decays by one factor for
the whole node, which is multiplied in at a visit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtoken.algorithms.base import SAMPLING, TokenMethod
from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.losses import derivative, prox_root
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.accelerated import Accelerated, accelerated, sampling_total
from dtoken.theory.dual_descent import shared_sigma

SMALLEST_DECAY = 2.0**-40  # below, a node's decay is multiplied in early: dividing by it would lose digits


class Nodes(NamedTuple):
    """State of the hosted nodes; v - x = decay * difference."""

    pair: Vector  # (hosted, d, 2) x + v and difference, side by side because steps read both
    decay: Vector  # (hosted,)
    time: Vector  # (hosted,) until when the node has relaxed
    sample: Vector  # (rows, 4) gx, gv, time, and the last root u, where the next search begins


class Tokens(NamedTuple):
    """State of the tokens."""

    x: Vector  # (K, d)
    v: Vector  # (K, d)
    time: Vector  # (K,) until when the token has relaxed


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses its sample in row r."""
    pair, w, sample = nodes.pair[i], rows.w[i], nodes.sample[r]
    nodes.decay[i] *= math.exp(-2.0 * c.rho * (t - nodes.time[i]))
    nodes.time[i] = t
    if nodes.decay[i] < SMALLEST_DECAY:
        pair[:, 1] *= nodes.decay[i]
        nodes.decay[i] = 1.0
    decay = nodes.decay[i]
    f = -0.5 * math.expm1(-2.0 * c.rho * (t - sample[2])) * (sample[1] - sample[0])
    gx, gv = sample[0] + f, sample[1] - f

    total = difference = 0.0
    for e in range(rows.start[r], rows.start[r + 1]):
        total += rows.data[e] * pair[rows.indices[e], 0]
        difference += rows.data[e] * pair[rows.indices[e], 1]
    p = math.sqrt(1.0 + c.importance * rows.c * w * rows.q[r] / c.sigma_t) / c.total
    b = c.rho / (c.p_comp * p)
    t0 = 0.5 * (total - decay * difference) / c.sigma_t - (gx - gv) / (rows.c * w)
    beta = (c.sigma_A / (b * c.alpha) - 1.0) / (rows.c * w)
    u = prox_root(rows.loss, rows.y[r], w, t0, beta, gv, sample[3])
    delta = w * derivative(rows.loss, u, rows.y[r]) - gv

    for e in range(rows.start[r], rows.start[r + 1]):
        pair[rows.indices[e], 0] -= (1.0 + b) * delta * rows.data[e]
        pair[rows.indices[e], 1] -= (1.0 - b) * delta / decay * rows.data[e]
    sample[0], sample[1], sample[2], sample[3] = gx + b * delta, gv + delta, t, u


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i."""
    pair, x, v = nodes.pair[i], tokens.x[k], tokens.v[k]
    decay = nodes.decay[i] * math.exp(-2.0 * c.rho * (t - nodes.time[i]))
    f = -0.5 * math.expm1(-2.0 * c.rho * (t - tokens.time[k]))
    b = c.b_comm[i]
    for s in range(len(x)):
        relaxation = f * (v[s] - x[s])
        difference = decay * pair[s, 1]
        D = c.s_comm[i] * (0.5 * (pair[s, 0] - difference) - (x[s] + relaxation)) / c.sigma_t
        x[s] += relaxation + b * D
        v[s] += D - relaxation
        pair[s, 0] -= (1.0 + b) * D
        pair[s, 1] = difference - (1.0 - b) * D
    nodes.decay[i] = 1.0
    nodes.time[i] = t
    tokens.time[k] = t


@dataclass(frozen=True)
class TAVR(TokenMethod):
    """Token Accelerated Variance Reduction.

    Parameters
    ----------
    tokens, smoothness, factor, mixing, p_comm
        As for Token GD.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed, which TAVR needs.
    sampling
        ``importance``: p_ij proportional to sqrt(1 + L_ij / sigma~); ``uniform``: all alike.
    continuized
        Steps ring at the points of a Poisson process instead of a step counter.
    unsafe
        Allow one jump per visit on walks where the method is known to diverge.
    """

    jumps: int | str = "auto"
    sampling: str = "importance"
    continuized: bool = False
    unsafe: bool = False

    draws_samples = True
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"block_rows": "its local step solves an equation in one unknown, and a block would need one for each row"}
    )
    local = staticmethod(local)
    visit = staticmethod(visit)
    meet = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("sampling", self.sampling, SAMPLING)

    def constants(self, facts: Facts) -> Accelerated:
        """Step sizes by the theory."""
        self._check_walk(facts)
        sigma_t = shared_sigma(facts.n, self.tokens, facts.sigma)
        root_sum = float(facts.of_samples(lambda L: float(np.sqrt(1 + L / sigma_t).sum())).sum())
        root_max = math.sqrt(1 + facts.max_L / sigma_t)
        sampling = sampling_total(int(facts.samples.sum()), root_sum, root_max, self.sampling == "importance")
        L_b = self.batch_smoothness(facts)
        return accelerated(facts.n, self.tokens, sigma_t, L_b, sampling, facts.walk.stationary, self.given_p_comm)

    def notes(self, c: Accelerated, facts: Facts) -> tuple[str, ...]:
        """Whether visits are nearly independent."""
        needed = 1 if self.jumps == "auto" or self.unsafe else self._needed_jumps(facts)
        if self.jumps_per_visit(facts) >= needed:
            return ()
        return (
            f"tavr needs nearly independent visits, and algorithm.jumps={self.jumps} is less than the {needed} after "
            f"which {facts.walk.name} has mixed: the run may diverge; use algorithm.jumps=auto",
        )

    def _needed_jumps(self, facts: Facts) -> int:
        return TAVR(tokens=self.tokens, mixing=self.mixing).jumps_per_visit(facts)

    def _check_walk(self, facts: Facts) -> None:
        if self.jumps == 1 and not facts.walk.iid and not self.unsafe:
            needed = self._needed_jumps(facts)
            if needed > 1:
                raise InputError(
                    f"tavr needs nearly independent visits, and with algorithm.jumps=1 {facts.walk.name} may diverge; "
                    f"use algorithm.jumps=auto (N={needed}), or algorithm.unsafe=true to try"
                )

    def law(self, c: Accelerated, facts: Facts) -> Law:
        """A local step picks a node, then a sample of it, so that p_ij comes out."""
        weights = facts.samples.astype(np.float64)
        if c.importance:
            weights = facts.of_samples(lambda L: float(np.sqrt(1 + L / c.sigma_t).sum()))
        return Law(
            self.tokens,
            c.p_comm,
            0.0,
            weights / weights.sum(),
            self.jumps_per_visit(facts),
            continuized=self.continuized,
            unit=math.atanh(c.rho) / c.rho,
        )

    def costs(self, facts: Facts) -> Costs:
        """One gradient a local step."""
        return Costs(np.ones(facts.n, np.int64), np.zeros(facts.n, np.int64))

    def weights(self, c: Accelerated, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return np.sqrt(1 + L / c.sigma_t) if c.importance else None

    def start(self, c: Accelerated, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero: x = v = 0 belongs to slopes of 0, and nodes do not begin far away as those of TVR do."""
        hosted, K = len(rows.w), self.tokens
        nodes = Nodes(np.zeros((hosted, rows.d, 2)), np.ones(hosted), np.zeros(hosted), np.zeros((len(rows.y), 4)))
        return nodes, Tokens(np.zeros((K, rows.d)), np.zeros((K, rows.d)), np.zeros(K))

    def models(self, c: Accelerated, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """x / sigma~, relaxed until now on copies."""
        decay = nodes.decay * np.exp(-2.0 * c.rho * (t - nodes.time))
        x_nodes = 0.5 * (nodes.pair[:, :, 0] - decay[:, None] * nodes.pair[:, :, 1])
        f = -0.5 * np.expm1(-2.0 * c.rho * (t - tokens.time))
        x_tokens = tokens.x + f[:, None] * (tokens.v - tokens.x)
        return Models(x_nodes / c.sigma_t, x_tokens / c.sigma_t)
