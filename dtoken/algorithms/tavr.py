"""TAVR, Token Accelerated Variance Reduction (Hendrikx 2022, Theorem 4), and its continuized form.

Accelerated proximal coordinate gradient on the dual. Nodes, tokens and samples have pairs (x, v) that relax towards
each other all the time, dx/dt = rho (v - x), dv/dt = rho (x - v), and are changed by events. Token k at node i:

    D = s_comm (x_i - x_k) / sigma~;    v_i -= D, v_k += D;    x_i -= b D, x_k += b D,    b = rho R / p_e.

Node i with its sample j, slopes (gx, gv), where u solves (u - t0) + beta (phi'(u) - gv) = 0:

    t0 = a^T x_i / sigma~ - (gx - gv) / c_ij,    beta = q (1 / s_ij - 1 / L_ij),    delta = phi'(u) - gv
    gv += delta, gx += b delta;    v_i -= delta a, x_i -= b delta a,    b = rho / (p_comp p_ij).

The model is x / sigma~. Steps at times (t + 1) atanh(rho) / rho give the discrete method, steps at the points of a
Poisson process the continuized one. Pairs relax when they are next used (``pairs``); a step costs O(non-zeros).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from dtoken.algorithms.base import SamplingMethod, TokenMethod
from dtoken.algorithms.contract import Facts, Vector
from dtoken.algorithms.distance import of_start
from dtoken.algorithms.paired import Paired
from dtoken.algorithms.pairs import decay_until, row_dot_x, share, subtract_row
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import derivative, prox_root
from dtoken.schedule.stream import Law
from dtoken.theory.accelerated import Accelerated, accelerated, importance_roots, uniform_roots
from dtoken.theory.bounds import accelerated_bound
from dtoken.theory.dual_descent import shared_sigma
from dtoken.theory.promise import PROVED_AT_A_TIME, UNSTABLE, Promise


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """Node i uses its sample in row r."""
    pair, sample, w = nodes.pair[i], nodes.sample[r], rows.w[i]
    decay = decay_until(c.rho, nodes, i, t)
    f = share(c.rho, t - sample[2]) * (sample[1] - sample[0])
    gx, gv = sample[0] + f, sample[1] - f

    p = math.sqrt(1.0 + c.importance * rows.c * w * rows.q[r] / c.sigma_t) / c.total
    b = c.rho / (c.p_comp * p)
    t0 = row_dot_x(rows, r, pair, decay) / c.sigma_t - (gx - gv) / (rows.c * w)
    beta = (c.sigma_A / (b * c.alpha) - 1.0) / (rows.c * w)
    u = prox_root(rows.loss, rows.y[r], w, t0, beta, gv, sample[3])
    delta = w * derivative(rows.loss, u, rows.y[r]) - gv

    subtract_row(rows, r, delta, b, pair, decay)
    sample[0], sample[1], sample[2], sample[3] = gx + b * delta, gv + delta, t, u


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i."""
    pair, x, v = nodes.pair[i].reshape(-1), tokens.x[k], tokens.v[k]  # flat, or the loop is not vectorised
    decay = nodes.decay[i] * math.exp(-2.0 * c.rho * (t - nodes.time[i]))
    f, s_comm, b = share(c.rho, t - tokens.time[k]), c.s_comm[i] / c.sigma_t, c.b_comm[i]
    for s in range(len(x)):
        relaxation = f * (v[s] - x[s])
        difference = decay * pair[2 * s + 1]
        D = s_comm * (0.5 * (pair[2 * s] - difference) - (x[s] + relaxation))
        x[s] += relaxation + b * D
        v[s] += D - relaxation
        pair[2 * s] -= (1.0 + b) * D
        pair[2 * s + 1] = difference - (1.0 - b) * D
    nodes.decay[i] = 1.0
    nodes.time[i] = t
    tokens.time[k] = t


@dataclass(frozen=True)
class TAVR(Paired, SamplingMethod, TokenMethod):
    """Token Accelerated Variance Reduction.

    Parameters
    ----------
    tokens, smoothness, factor, mixing, p_comm, start_margin, start_from
        As for Token GD.
    start
        As for Token GD, but ``zero`` means slopes of 0, to which models of 0 belong; labels with ``start_margin=0`` are
        margins of 0.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed, which TAVR needs.
    sampling
        ``importance``: p_ij proportional to sqrt(1 + L_ij / sigma~); ``uniform``: all alike; ``permuted``: every node
        goes through its samples in a fresh random order each epoch.
    bucket_rows
        As for TVR.
    continuized
        Steps ring at the points of a Poisson process instead of a step counter.
    unsafe
        Allow one jump per visit on walks where the method is known to diverge.
    """

    jumps: int | str = "auto"
    continuized: bool = False
    unsafe: bool = False

    name = "tavr"
    loses_tokens: ClassVar[bool] = True
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"block_rows": "its local step solves an equation in one unknown, and a block would need one for each row"}
    )
    local = staticmethod(local)
    visit = staticmethod(visit)
    meet = None

    def constants(self, facts: Facts) -> Accelerated:
        """Step sizes by the theory."""
        if self.jumps == 1 and not self.unsafe and self.jumps_until_mixed(facts) > 1:
            raise InputError(
                f"tavr needs nearly independent visits, and with algorithm.jumps=1 {facts.walk.name} may diverge; use "
                f"algorithm.jumps=auto (N={self.jumps_until_mixed(facts)}), or algorithm.unsafe=true to try"
            )
        self.refuse_proved_jumps(facts)
        sigma_t = shared_sigma(facts.n, self.tokens, facts.sigma)
        if self.importance:
            sampling = importance_roots(facts.over_samples(lambda L: np.sqrt(1 + L / sigma_t)))
        else:
            sampling = uniform_roots(facts.samples, facts.max_L, sigma_t)
        L_b, pi = self.batch_smoothness(facts), self.visit_law(facts)
        return accelerated(self.tokens, sigma_t, L_b, sampling, pi, self.given_p_comm)

    def promise(self, c: Accelerated, facts: Facts) -> Promise:
        """rho for independent visits; continuized, the same at each unit of time."""
        if facts.walk.iid and self.continuized:
            return self.promised(-math.expm1(-c.rate), PROVED_AT_A_TIME)
        return self.mixed_promise(c.rate, facts) or Promise(None, UNSTABLE)

    def bound(self, c: Accelerated, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """By the theorem, if visits are independent."""
        if not self.covered(facts):
            return None
        return accelerated_bound(c, self.tokens, of_start(self, c, problem, best), self.objective_smoothness(facts))

    def notes(self, c: Accelerated, facts: Facts) -> tuple[str, ...]:
        """Whether visits are nearly independent."""
        needed = 1 if self.unsafe else self.jumps_until_mixed(facts)
        if self.jumps_per_visit(c, facts) >= needed:
            return super().notes(c, facts)
        return (
            *super().notes(c, facts),
            f"tavr needs nearly independent visits, and algorithm.jumps={self.jumps} is less than the {needed} after "
            f"which {facts.walk.name} has mixed: the run may diverge; use algorithm.jumps=auto",
        )

    def law(self, c: Accelerated, facts: Facts) -> Law:
        """Steps at regular times, or at the points of a Poisson process."""
        jumps, unit, order = self.jumps_per_visit(c, facts), math.atanh(c.rho) / c.rho, self.order(facts)
        return Law(self.tokens, c.p_comm, 0.0, c.p_node, jumps, continuized=self.continuized, unit=unit, order=order)

    def weights(self, c: Accelerated, L: Vector) -> Vector | None:
        """Sampling weights of a node's samples."""
        return np.sqrt(1 + L / c.sigma_t) if c.importance else None
