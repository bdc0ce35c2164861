"""Constants and rate of TAVR, accelerated proximal coordinate gradient on the dual (Hendrikx 2022, Theorem 4).

The paper states the method by reference to ADFS (Hendrikx, Bach, Massoulié 2019) with constants that do not converge
as printed: here R = (n + K - 1) / (n K) instead of 1 / K, alpha = K / (sigma~ kappa), and p_comm balances the two
bounds on rho exactly.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.theory.dual_descent import Sampling, convexity_ratio


class Accelerated(NamedTuple):
    """Constants of TAVR, in the paper's names."""

    sigma_t: float  # sigma~
    L_b: float  # smoothness that kappa is made of
    kappa: float  # 1 + L_b / sigma~
    alpha: float  # K / (sigma~ kappa)
    sigma_A: float  # r alpha: strong convexity of the dual
    R: float  # effective resistance of a node-token edge
    rho: float  # contraction per step, proved
    p_comm: float  # probability that a step is a visit
    p_comp: float  # probability that a step is local
    balanced: float  # the p_comm for which rho is largest
    s_comm: NDArray[np.float64]  # (n,) step size of a visit at each node
    b_comm: NDArray[np.float64]  # (n,) how much of it goes to x
    total: float  # p_ij = weight / total
    importance: float  # weight of a sample is sqrt(1 + importance * L_ij / sigma~)
    rate: float  # rho


def sampling_total(samples: int, root_sum: float, root_max: float, importance: bool) -> Sampling:
    """Sampling with weights sqrt(1 + L_ij / sigma~), whose sum is ``root_sum``, or all alike."""
    if importance:
        return Sampling(root_sum, root_sum, 1.0)
    return Sampling(samples, samples * root_max, 0.0)


def accelerated(
    n: int,
    K: int,
    sigma_t: float,
    L_b: float,
    sampling: Sampling,
    pi: NDArray[np.float64],
    p_comm: float | None = None,
) -> Accelerated:
    """The constants for given smoothness, sampling and law ``pi`` of the visits.

    ``sampling.bound`` is S = sum_ij sqrt(1 + L_ij / sigma~), or samples * max sqrt(.) for uniform sampling. If
    ``p_comm`` is not given, it balances the two bounds on rho, for which rho is largest.
    """
    kappa = 1 + L_b / sigma_t
    alpha = K / (sigma_t * kappa)
    sigma_A = alpha * convexity_ratio(1, kappa)
    R = (n + K - 1) / (n * K)
    c_comm = float(pi.min()) / K * math.sqrt(sigma_A * sigma_t / (2 * R))
    c_comp = math.sqrt(sigma_A / alpha) / sampling.bound
    balanced = c_comp / (c_comm + c_comp)
    if p_comm is None:
        p_comm, p_comp = balanced, c_comm / (c_comm + c_comp)
        rho = c_comm * c_comp / (c_comm + c_comp)
    else:
        p_comp = 1 - p_comm
        rho = min(p_comm * c_comm, p_comp * c_comp)
    p_edge = p_comm * pi / K
    return Accelerated(
        sigma_t=sigma_t,
        L_b=L_b,
        kappa=kappa,
        alpha=alpha,
        sigma_A=sigma_A,
        R=R,
        rho=rho,
        p_comm=p_comm,
        p_comp=p_comp,
        balanced=balanced,
        s_comm=rho / (p_edge * sigma_A),
        b_comm=rho * R / p_edge,
        total=sampling.total,
        importance=sampling.importance,
        rate=rho,
    )
