"""Constants and rate of TAVR, accelerated proximal coordinate gradient on the dual (Hendrikx 2022, Theorem 4).

The paper states the method by reference to ADFS (Hendrikx, Bach, Massoulié 2019) with constants that do not converge
as printed: here R = (n + K - 1) / (n K) instead of 1 / K, alpha = K / (sigma~ kappa), and p_comm balances the two
bounds on rho exactly.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.theory.dual_descent import convexity_ratio


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
    p_node: NDArray[np.float64]  # (n,) probability that a local step is one of each node: the sum of its p_ij
    total: float  # p_ij = weight / total
    importance: float  # weight of a sample is sqrt(1 + importance * L_ij / sigma~)
    rate: float  # rho
    n: int  # nodes


@dataclass(frozen=True)
class RootSampling:
    """How samples are drawn: p_ij = weight / total with weight = sqrt(1 + importance * L_ij / sigma~)."""

    node: NDArray[np.float64]  # (n,) sum of the weights of each node
    bound: float  # S: the largest sqrt(1 + L_ij / sigma~) / p_ij
    importance: float  # 1 or 0


def importance_roots(root_sums: NDArray[np.float64]) -> RootSampling:
    """p_ij proportional to sqrt(1 + L_ij / sigma~), whose sums over each node are given."""
    return RootSampling(root_sums, float(root_sums.sum()), 1.0)


def uniform_roots(samples: NDArray[np.int64], max_L: float, sigma_t: float) -> RootSampling:
    """All samples alike; the largest L_ij decides."""
    return RootSampling(samples.astype(np.float64), int(samples.sum()) * math.sqrt(1 + max_L / sigma_t), 0.0)


def accelerated(
    K: int, sigma_t: float, L_b: float, sampling: RootSampling, pi: NDArray[np.float64], p_comm: float | None = None
) -> Accelerated:
    """The constants for given smoothness, sampling and law ``pi`` of the visits.

    If ``p_comm`` is not given, it balances the two bounds on rho, for which rho is largest.
    """
    n = len(pi)
    return _constants(K, (n + K - 1) / (n * K), pi, K, sigma_t, L_b, sampling, p_comm)


def gossip_accelerated(
    lambda_min: float, R: float, edges: int, sigma: float, L_b: float, sampling: RootSampling
) -> Accelerated:
    """The constants of ADFS: so many edges with resistances of at most ``R``, drawn uniformly, in the place of visits.

    The smallest eigenvalue of the graph is in the place of K, and the rest of the argument is the same.
    """
    return _constants(lambda_min, R, np.ones(len(sampling.node)), edges, sigma, L_b, sampling, None)


def _constants(
    lambda_min: float,
    R: float,
    pi: NDArray[np.float64],
    parts: int,
    sigma_t: float,
    L_b: float,
    sampling: RootSampling,
    p_comm: float | None,
) -> Accelerated:
    """The constants for edges that are drawn with probability pi / parts, of a graph with this smallest eigenvalue."""
    kappa = 1 + L_b / sigma_t
    alpha = lambda_min / (sigma_t * kappa)
    sigma_A = alpha * convexity_ratio(1, kappa)
    c_comm = float(pi.min()) / parts * math.sqrt(sigma_A * sigma_t / (2 * R))
    c_comp = math.sqrt(sigma_A / alpha) / sampling.bound
    balanced = c_comp / (c_comm + c_comp)
    if p_comm is None:
        p_comm, p_comp = balanced, c_comm / (c_comm + c_comp)
        rho = c_comm * c_comp / (c_comm + c_comp)
    else:
        p_comp = 1 - p_comm
        rho = min(p_comm * c_comm, p_comp * c_comp)
    total = float(sampling.node.sum())
    p_edge = p_comm * pi / parts
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
        p_node=sampling.node / total,
        total=total,
        importance=sampling.importance,
        rate=rho,
        n=len(pi),
    )
