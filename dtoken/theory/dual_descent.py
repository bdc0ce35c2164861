"""Constants and rates of token methods that descend on the dual: Token GD and TVR (Hendrikx 2022, Theorem 8).

The paper's formulas have slips, corrected here: alpha is 2 K / (sigma~ kappa), not 2 sigma~ K / kappa; the step sizes
depend on pi through its smallest entry; and the strong convexity that holds for every loss is r alpha with r about
1/3, not alpha / 2 (docs/algorithms.md lists all differences).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def shared_sigma(n: int, K: int, sigma: float) -> float:
    """sigma~ = n sigma / (n + K): the regulariser is shared by n nodes and K tokens."""
    return n * sigma / (n + K)


def convexity_ratio(c: float, kappa: float) -> float:
    """r, the smallest root of c r^2 - (c + 1) kappa r + kappa = 0; strong convexity is r alpha.

    Examples
    --------
    >>> round(convexity_ratio(2, 1e9), 6), round(convexity_ratio(1, 1e9), 6)
    (0.333333, 0.5)
    """
    b = (c + 1) * kappa
    return 2 * kappa / (b + math.sqrt(b * b - 4 * c * kappa))


class DualDescent(NamedTuple):
    """Constants of Token GD and TVR, in the paper's names."""

    sigma_t: float  # sigma~
    L_b: float  # smoothness that kappa is made of
    kappa: float  # 1 + L_b / sigma~
    alpha: float  # 2 K / (sigma~ kappa)
    p_comm: float  # probability that a step is a visit
    p_comp: float  # probability that a step is local
    eta: float
    rho_comm: NDArray[np.float64]  # (n,) weight of a visit at each node, at most 1/2
    rho_comp: float  # weight of a local step with a sample of weight 1: rho_ij = rho_comp / weight
    importance: float  # weight of a sample is 1 + importance * L_ij / sigma~
    rate: float  # eta r alpha: contraction per step, proved
    paper_rate: float  # eta alpha / 2: contraction per step of the paper, observed


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn: p_ij = weight / total with weight = 1 + importance * L_ij / sigma~."""

    total: float  # sum of all weights
    bound: float  # N_c: the largest (1 + L_ij / sigma~) / p_ij
    importance: float  # 1 or 0


def importance_sampling(samples: int, sum_L: float, sigma_t: float) -> Sampling:
    """p_ij proportional to 1 + L_ij / sigma~, for which N_c is smallest."""
    total = samples + sum_L / sigma_t
    return Sampling(total, total, 1.0)


def uniform_sampling(samples: int, max_L: float, sigma_t: float) -> Sampling:
    """All samples alike; the largest L_ij decides."""
    return Sampling(samples, samples * (1 + max_L / sigma_t), 0.0)


def dual_descent(
    K: int,
    sigma_t: float,
    L_b: float,
    sampling: Sampling,
    pi: NDArray[np.float64],
) -> DualDescent:
    """The constants for given smoothness, sampling and law ``pi`` of the visits; p_comm balances the bounds on eta.

    Examples
    --------
    >>> c = dual_descent(1, 0.8, 0.4, Sampling(4, 4 * 1.5, 0.0), np.full(4, 0.25))
    >>> c.kappa, c.p_comm, c.rho_comm.max()
    (1.5, 0.5, 0.5)
    """
    kappa = 1 + L_b / sigma_t
    alpha = 2 * K / (sigma_t * kappa)
    pi_min = float(pi.min())
    p_comp = 1 / (1 + kappa / (sampling.bound * pi_min))
    p_comm = 1 - p_comp
    eta = min(p_comm * pi_min * sigma_t / (2 * K), p_comp / (alpha * sampling.bound))
    return DualDescent(
        sigma_t=sigma_t,
        L_b=L_b,
        kappa=kappa,
        alpha=alpha,
        p_comm=p_comm,
        p_comp=p_comp,
        eta=eta,
        rho_comm=eta * K / (p_comm * pi * sigma_t),
        rho_comp=alpha * eta * sampling.total / p_comp,
        importance=sampling.importance,
        rate=eta * alpha * convexity_ratio(2, kappa),
        paper_rate=eta * alpha / 2,
    )
