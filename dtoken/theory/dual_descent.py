"""Constants and rates of token methods that descend on the dual: Token GD and TVR (Hendrikx 2022, Theorem 7).

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
    balanced: float  # the p_comm for which eta is largest
    eta: float
    rho_comm: NDArray[np.float64]  # (n,) weight of a visit at each node, at most 1/2
    rho_comp: float  # weight of a local step with a sample of weight 1: rho_ij = rho_comp / weight
    importance: float  # weight of a sample is 1 + importance * L_ij / sigma~
    rate: float  # eta r alpha: contraction per step, proved
    paper_rate: float  # eta alpha / 2: contraction per step of the paper, observed; nan: it has none
    p_meet: float  # p_tt: probability that a step is a meeting of two tokens wherever they are
    rho_meet: float  # rho_tt: weight of a meeting, at most 1/2
    rho_arrival: NDArray[np.float64]  # (n,) as rho_comp, for samples used at a visit of each node
    weight: NDArray[np.float64]  # (n,) w_i, of the edges between a node and the tokens


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn: p_ij = weight / total with weight = 1 + importance * L_ij / sigma~."""

    total: float  # sum of all weights
    bound: float  # N_c: the largest (1 + L_ij / sigma~) / p_ij
    importance: float  # 1 or 0


@dataclass(frozen=True)
class NodeSampling:
    """How a node that was chosen draws one of its samples: weight / total, with weight as in Sampling."""

    total: NDArray[np.float64]  # (n,) sum of the node's weights
    bound: NDArray[np.float64]  # (n,) the largest (1 + 2 L_ij / sigma~) / p_ij
    importance: float  # 2 or 0


def importance_sampling(samples: int, sum_L: float, sigma_t: float) -> Sampling:
    """p_ij proportional to 1 + L_ij / sigma~, for which N_c is smallest."""
    total = samples + sum_L / sigma_t
    return Sampling(total, total, 1.0)


def uniform_sampling(samples: int, max_L: float, sigma_t: float) -> Sampling:
    """All samples alike; the largest L_ij decides."""
    return Sampling(samples, samples * (1 + max_L / sigma_t), 0.0)


def node_importance(samples: NDArray[np.int64], sum_L: NDArray[np.float64], sigma_t: float) -> NodeSampling:
    """A node draws with probabilities proportional to 1 + 2 L_ij / sigma~."""
    total = samples + 2 * sum_L / sigma_t
    return NodeSampling(total, total, 2.0)


def node_uniform(samples: NDArray[np.int64], max_L: NDArray[np.float64], sigma_t: float) -> NodeSampling:
    """A node draws all its samples alike; the largest L_ij of each node decides."""
    return NodeSampling(samples.astype(np.float64), samples * (1 + 2 * max_L / sigma_t), 0.0)


def dual_descent(
    K: int,
    sigma_t: float,
    L_b: float,
    sampling: Sampling,
    pi: NDArray[np.float64],
    p_meet: float = 0.0,
    p_comm: float | None = None,
) -> DualDescent:
    """The constants for given smoothness, sampling and law ``pi`` of the visits.

    ``p_meet`` is the probability of meetings; they add the bound eta <= p_meet sigma~ / (K (K - 1)). If ``p_comm`` is
    not given, it balances the other two bounds on eta, for which eta is largest.

    Examples
    --------
    >>> c = dual_descent(1, 0.8, 0.4, Sampling(4, 4 * 1.5, 0.0), np.full(4, 0.25))
    >>> c.kappa, c.p_comm, float(c.rho_comm.max())
    (1.5, 0.5, 0.5)
    """
    kappa = 1 + L_b / sigma_t
    alpha = 2 * K / (sigma_t * kappa)
    pi_min = float(pi.min())
    p_comp = (1 - p_meet) / (1 + kappa / (sampling.bound * pi_min))
    balanced = 1 - p_meet - p_comp
    if p_comm is None:
        p_comm = balanced
    else:
        p_comp = 1 - p_meet - p_comm
    eta = min(p_comm * pi_min * sigma_t / (2 * K), p_comp / (alpha * sampling.bound), _meet_bound(K, sigma_t, p_meet))
    return DualDescent(
        sigma_t=sigma_t,
        L_b=L_b,
        kappa=kappa,
        alpha=alpha,
        p_comm=p_comm,
        p_comp=p_comp,
        balanced=balanced,
        eta=eta,
        rho_comm=eta * K / (p_comm * pi * sigma_t),
        rho_comp=alpha * eta * sampling.total / p_comp,
        importance=sampling.importance,
        rate=eta * alpha * convexity_ratio(2, kappa),
        paper_rate=eta * alpha / 2,
        p_meet=p_meet,
        rho_meet=_meet_weight(K, sigma_t, p_meet, eta),
        rho_arrival=np.zeros(len(pi)),
        weight=np.ones(len(pi)),
    )


def weighted_descent(
    K: int,
    sigma_t: float,
    L: NDArray[np.float64],
    sampling: Sampling,
    pi: NDArray[np.float64],
    p_comm: float | None = None,
) -> DualDescent:
    """The constants when the edges of a node to the tokens have a weight w_i by its own smoothness ``L``.

    This is the paper's remark on laws that are not uniform, its slip corrected: the rate depends on min_i pi_i /
    kappa_i (not max_i pi_i / L_i), so that nodes that are rarely visited cost nothing if they are smoother. With mu =
    r alpha, relative strong convexity says that sum_i ||u_i||^2 / e_i + sum_k ||v_k||^2 / sigma~ is at least mu |(u,
    v)|^2 in the norm of the Laplacian's pseudo-inverse, e_i = sigma~ + L_i / (1 - r). For w_i = e_i / max e the
    smallest eigenvalue of the Laplacian relative to these masses is K / max e, since sum_i e_i >= K sigma~: so mu = K
    / max e. A visit allows eta <= p_comm pi_i sigma~ / (2 K w_i), and eta mu = p_comm min_i pi_i sigma~ / (2 e_i). r =
    1/3 is about what equal edges have.

    Examples
    --------
    >>> few = weighted_descent(1, 0.8, np.full(4, 0.4), Sampling(4, 4 * 1.5, 0.0), np.full(4, 0.25))
    >>> round(float(few.rho_comm.max()), 12), round(few.rate / few.eta * (0.8 + 0.6), 12)
    (0.5, 1.0)
    """
    r = 1 / 3
    e = sigma_t + L / (1 - r)
    weight, mu = e / e.max(), K / float(e.max())
    alpha = mu / r
    of_visits = sigma_t / (2 * K) * float((pi / weight).min())  # eta / p_comm at most
    of_samples = 1 / (alpha * sampling.bound)
    balanced = of_samples / (of_visits + of_samples)
    p_comm = balanced if p_comm is None else p_comm
    p_comp = 1 - p_comm
    eta = min(p_comm * of_visits, p_comp * of_samples)
    L_b = float(L.max())
    return DualDescent(
        sigma_t=sigma_t,
        L_b=L_b,
        kappa=1 + L_b / sigma_t,
        alpha=alpha,
        p_comm=p_comm,
        p_comp=p_comp,
        balanced=balanced,
        eta=eta,
        rho_comm=eta * K * weight / (p_comm * pi * sigma_t),
        rho_comp=alpha * eta * sampling.total / p_comp,
        importance=sampling.importance,
        rate=eta * mu,
        paper_rate=math.nan,
        p_meet=0.0,
        rho_meet=0.0,
        rho_arrival=np.zeros(len(pi)),
        weight=weight,
    )


def arrival_descent(
    K: int,
    sigma_t: float,
    L_b: float,
    sampling: NodeSampling,
    pi: NDArray[np.float64],
    p_meet: float = 0.0,
) -> DualDescent:
    """The constants when a node computes whenever a token arrives, and only then.

    Both changes of a visit are made from the old theta_i, which halves the bounds on eta: rho_comm is at most 1/4.

    Examples
    --------
    >>> sampling = NodeSampling(total=np.ones(4), bound=np.full(4, 2.0), importance=0.0)
    >>> arrival_descent(1, 0.8, 0.4, sampling, np.full(4, 0.25)).rho_comm.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    kappa = 1 + L_b / sigma_t
    alpha = 2 * K / (sigma_t * kappa)
    visits = (1 - p_meet) * pi  # probability that a token arrives at each node
    eta = min(
        float(visits.min()) * sigma_t / (4 * K),
        float((visits / (alpha * sampling.bound)).min()),
        _meet_bound(K, sigma_t, p_meet),
    )
    return DualDescent(
        sigma_t=sigma_t,
        L_b=L_b,
        kappa=kappa,
        alpha=alpha,
        p_comm=1 - p_meet,
        p_comp=0.0,
        balanced=1 - p_meet,
        eta=eta,
        rho_comm=eta * K / (visits * sigma_t),
        rho_comp=0.0,
        importance=sampling.importance,
        rate=eta * alpha * convexity_ratio(2, kappa),
        paper_rate=eta * alpha / 2,
        p_meet=p_meet,
        rho_meet=_meet_weight(K, sigma_t, p_meet, eta),
        rho_arrival=alpha * eta * sampling.total / visits,
        weight=np.ones(len(pi)),
    )


def visits_in_a_row(correlation: float, rho: float) -> float:
    """How much slower a slow walk makes things: its share of the rate with independent visits, as observed.

    A token is a moving average of the nodes that it comes from, with weight rho (1 - rho)^s for the one s visits before
    the last. With l the correlation of visits in a row, it differs from where it arrives, for the slowest mode, by the
    share 1 - sum_s rho (1 - rho)^s l^(s + 1) = (1 - l) / (1 - (1 - rho) l) of what an independent visit would find.

    Examples
    --------
    >>> visits_in_a_row(0.0, 0.5), visits_in_a_row(0.5, 0.5)
    (1.0, 0.6666666666666666)
    """
    return (1 - correlation) / (1 - (1 - rho) * correlation)


def with_meetings(c: DualDescent, K: int) -> float:
    """W: the weights of a token's edges, those to other tokens included if tokens meet."""
    return float(c.weight.sum()) + (K if c.p_meet > 0 else 0)


def _meet_bound(K: int, sigma_t: float, p_meet: float) -> float:
    return p_meet * sigma_t / (K * (K - 1)) if p_meet > 0 else math.inf


def _meet_weight(K: int, sigma_t: float, p_meet: float, eta: float) -> float:
    """Where meetings are no steps of their own, the weight for which the dual falls most: both become their mean."""
    return eta * K * (K - 1) / (2 * p_meet * sigma_t) if p_meet > 0 else 0.5
