"""Constants and rate of DVR (Hendrikx, Bach, Massoulié 2020, Algorithm 1 and Theorem 1).

As for Token GD and TVR, with the communication graph of the nodes in the place of the graph of nodes and tokens: K, the
smallest eigenvalue there, becomes lambda_min here, and all edges communicate at once, which lambda_max bounds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.theory.dual_descent import NodeSampling, convexity_ratio
from dtoken.theory.gossip import Network


class DualGossip(NamedTuple):
    """Constants of DVR, in the paper's names."""

    n: int
    sigma: float
    L_b: float  # smoothness that kappa is made of
    kappa: float
    gap: float  # gamma
    alpha: float
    p_comm: float  # probability that a step is an exchange
    p_comp: float
    eta: float
    rho_comm: float  # eta / (p_comm sigma): weight of a neighbour
    rho_comp: NDArray[np.float64]  # (n,) weight of a sample of weight 1 of each node: rho_ij = rho_comp / weight
    importance: float  # weight of a sample is 1 + importance * L_ij / sigma
    rate: float  # eta r alpha, proved
    paper_rate: float  # eta alpha / 2


class DualPolynomial(NamedTuple):
    """The same with Chebyshev acceleration: lambda_min = 1 - delta, lambda_max = 1 + delta."""

    n: int
    sigma: float
    L_b: float
    kappa: float
    gap: float
    alpha: float
    p_comm: float
    p_comp: float
    eta: float
    rho_comm: float
    rho_comp: NDArray[np.float64]
    importance: float
    rate: float
    paper_rate: float
    rounds: int  # K
    own: NDArray[np.float64]  # (n,)
    unit: float
    quarter: float


def dual_gossip(sigma: float, L_b: float, sampling: NodeSampling, net: Network) -> DualGossip:
    """The constants; ``sampling.bound`` is here the largest (1 + L_ij / sigma) / p_j|i of each node.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> from dtoken.theory.gossip import network
    >>> sampling = NodeSampling(total=np.full(4, 3.0), bound=np.full(4, 3.0), importance=1.0)
    >>> c = dual_gossip(0.1, 0.2, sampling, network(build("complete", 4), "dvr"))
    >>> round(c.p_comm, 12), round(c.rho_comm, 12)  # p_comm / p_comp = 3 / (2 * 3); nodes become their exact mean
    (0.333333333333, 0.25)
    """
    kappa = 1 + L_b / sigma
    alpha = 2 * net.lambda_min / (sigma * kappa)
    bound = float(sampling.bound.max())
    p_comp = 1 / (1 + kappa / (2 * net.gap * bound))
    p_comm = 1 - p_comp
    eta = min(p_comm * sigma / net.lambda_max, p_comp / (alpha * bound))
    return DualGossip(
        n=len(net.neighbours),
        sigma=sigma,
        L_b=L_b,
        kappa=kappa,
        gap=net.gap,
        alpha=alpha,
        p_comm=p_comm,
        p_comp=p_comp,
        eta=eta,
        rho_comm=eta / (p_comm * sigma),
        rho_comp=alpha * eta * sampling.total / p_comp,
        importance=sampling.importance,
        rate=eta * alpha * convexity_ratio(2, kappa),
        paper_rate=eta * alpha / 2,
    )
