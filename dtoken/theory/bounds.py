"""Constants of the proofs: E[F - F*] <= C (1 - rate)^t after t steps, C from how far the start is from the optimum.

The theorems bound a Lyapunov function. Here is what they leave to the reader: its value at the start, and the way from
it to the suboptimality that is reported, the mean over the tokens of F(theta_k) - F*, by the smoothness L_F of F.

Token GD and TVR (Hendrikx 2022, Bregman coordinate descent): L = D_h(lambda*, lambda) + s (f(lambda) - f*) contracts
for every s between eta / R_p and eta / rate, R_p = min_e p_e / R_e. With what is missing at nodes and tokens, u_i =
sigma~ (theta* - theta_i) + grad f_i(theta*) - sum_j g_ij a_ij and v_k = sigma~ (theta* - theta_k), w_i the weight of
the edges of a node to the tokens, and W the sum of these,

    D_h    = (1/2) [sum_i ||u_i||^2 / (K w_i) + sum_k ||v_k - v||^2 / W] + (1 / alpha) sum_ij D_phi(z_ij, z*_ij)
    f - f* = (sigma~ / 2) (sum_i ||theta_i - theta*||^2 + sum_k ||theta_k - theta*||^2) + sum_ij D_phi(z*_ij, z_ij),

v the mean of the v_k. Both contain the distance of the tokens, which is at most L / (sigma~^2 / (2 W) + s sigma~ / 2).
With compute=on_arrival two coordinates change at once: the quadratic part of f counts twice, which the step sizes allow
for, and the proof goes through edge by edge. For jumps=proved see ``allowed_deviation``.

TAVR: L = f(x) - f* + (sigma_A / 2) ||v - lambda*||^2, and f - f* contains the distance of the tokens.

NIDS (Li, Shi, Yan 2019): with d* = -grad F_i(theta*) and B = (I - W) / 2, whose smallest eigenvalue that is not 0 is
gamma / 2, ||x - x*||^2 + s^2 ||d - d*||^2_{B^+} contracts; a run begins with d = 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.theory.accelerated import Accelerated
from dtoken.theory.dual_descent import DualDescent, with_meetings


class Distance(NamedTuple):
    """How far a start is from the optimum: sums over nodes, tokens and rows."""

    nodes: float  # sum_i ||theta_i - theta*||^2
    tokens: float  # sum_k ||theta_k - theta*||^2
    flow: NDArray[np.float64]  # (n,) ||u_i||^2
    ahead: float  # sum_ij D_phi(z_ij, z*_ij)
    behind: float  # sum_ij D_phi(z*_ij, z_ij), which is phi*(g_ij) + phi(z*_ij) - g_ij z*_ij for slopes g_ij
    slopes: float  # sum_ij (g_ij - g*_ij)^2 / c_ij


def allowed_deviation(rate: float) -> float:
    """s: the theorem holds with half the rate if no visit is more than 1 + s times as likely as it should be.

    Let a visit of node i have the probability p~_i <= (1 + s) p_i, whatever happened before. The theorem with p'_i =
    (1 + s) p_i for all coordinates and eta' = (1 + s) eta, which are the same steps, has delta >= 0 and Delta = s: L
    contracts by 1 + Delta - eta' mu = (1 + s) (1 - eta mu) <= 1 - eta mu / 2 for s <= eta mu / 2. So P^N may differ
    from pi by eta mu / 2 times its smallest entry. (The paper's eta mu / 4 is absolute, and its Delta, a sum over all
    coordinates, can then be as large as n eta mu / 4.)
    """
    return rate / 2


def dual_bound(c: DualDescent, K: int, start: Distance, L_F: float, deviation: float = 0.0) -> float:
    """C of Token GD and TVR; ``deviation``: the s of ``allowed_deviation``, 0 if visits are independent."""
    W = with_meetings(c, K)
    eta, rate = (1 + deviation) * c.eta, c.rate / 2 if deviation else c.rate
    lack = 0.5 * float((start.flow / (K * c.weight)).sum()) + start.ahead / c.alpha  # D_h; tokens begin alike
    gap = 0.5 * c.sigma_t * (start.nodes + start.tokens) + start.behind

    def at(s: float) -> float:
        return (lack + s * gap) / (c.sigma_t**2 / (2 * W) + s * c.sigma_t / 2)

    return L_F / (2 * K) * min(at(eta / least_probability(c, K, deviation)), at(eta / rate))


def least_probability(c: DualDescent, K: int, deviation: float = 0.0) -> float:
    """A lower bound of R_p = min_e p_e / R_e, from the weights of the steps, which are eta over probabilities."""
    W = with_meetings(c, K)
    visits = c.eta * c.weight / (c.rho_comm * c.sigma_t)  # p_comm pi_i / K
    found = [
        (1 - deviation) * float((visits / (1 / K + c.weight * (1 - 1 / K) / W)).min()),
        c.alpha * c.eta / max(c.rho_comp, float(c.rho_arrival.max())),  # samples have weights of at least 1, and R = 1
    ]
    if c.p_meet > 0:
        found.append(2 * c.p_meet / (K * (K - 1)) * W / 2)
    return min(found)


def accelerated_bound(c: Accelerated, K: int, start: Distance, L_F: float) -> float:
    """C of TAVR, which begins with x = v and tokens that are all alike."""
    gap = 0.5 * c.sigma_t * (start.nodes + start.tokens) + start.behind
    squares = float(start.flow.sum()) / K + start.slopes / c.alpha
    return L_F / (c.sigma_t * K) * (gap + 0.5 * c.sigma_A * squares)


def averaging_bound(n: int, step: float, gap: float, start: float, gradients: float, L_F: float) -> float:
    """C of NIDS.

    Parameters
    ----------
    n, step, gap
        n, s and gamma.
    start
        sum_i ||x_i - theta*||^2 of the first iterate.
    gradients
        sum_i ||grad F_i(theta*)||^2.
    L_F
        Smoothness of F.
    """
    return L_F / (2 * n) * (start + step**2 * gradients / (gap / 2))
