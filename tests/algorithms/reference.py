"""Token GD and TVR (Hendrikx 2022, Algorithms 1 and 2) in plain numpy, one event at a time, as literally as possible.

Constants come from the formulas again; nothing is shared with dtoken. The dual variables of the conceptual graph (one
per edge) are followed beside the primal ones, so that the dual objective can be written down as in the paper.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def slope(loss: str, t: Any, y: Any) -> Any:
    """phi'(t)."""
    match loss:
        case "logistic":
            return -y / (1 + np.exp(y * t))
        case "squared":
            return t - y
        case _:
            return np.where(y * t >= 1, 0.0, np.where(y * t <= 0, -y, -y * (1 - y * t)))


def value(loss: str, t: Any, y: Any) -> Any:
    """phi(t)."""
    match loss:
        case "logistic":
            return np.log(1 + np.exp(-y * t))
        case "squared":
            return (t - y) ** 2 / 2
        case _:
            return np.where(y * t >= 1, 0.0, np.where(y * t <= 0, 0.5 - y * t, (1 - y * t) ** 2 / 2))


def conjugate(loss: str, g: Any, y: Any) -> Any:
    """phi*(g), in closed form."""
    match loss:
        case "logistic":
            p = -g * y
            return p * np.log(p) + (1 - p) * np.log(1 - p)
        case "squared":
            return g**2 / 2 + g * y
        case _:
            return g * y + (g * y) ** 2 / 2


CURVATURE = {"logistic": 0.25, "squared": 1.0, "smooth_hinge": 1.0}


@dataclass
class Reference:
    """State and constants of one of the two methods on dense data."""

    A: list[Floats]
    y: list[Floats]
    loss: str
    sigma: float
    K: int
    pi: Floats  # law of the visits
    method: str  # token or tvr
    sampling: str = "importance"  # of tvr
    smoothness: str = "theory"  # theory, batch or factor
    factor: float = 0.02
    theta: Floats = field(init=False)  # (n, d)
    tokens: Floats = field(init=False)  # (K, d)
    z: list[Floats] = field(init=False)  # token: z_i, (d,) each; tvr: margins, (m_i,) each
    x: Floats = field(init=False)  # (n, K, d) dual variables of the node-token edges

    def __post_init__(self) -> None:
        self.constants()
        d = self.A[0].shape[1]
        self.tokens, self.x = np.zeros((self.K, d)), np.zeros((self.n, self.K, d))
        self.z = [np.zeros(d if self.method == "token" else len(A)) for A in self.A]
        self.theta = np.array([-self.gradient(i) / self.sigma_t for i in range(self.n)])

    @property
    def n(self) -> int:
        return len(self.A)

    def constants(self) -> None:
        """All step sizes."""
        n, K, c = self.n, self.K, CURVATURE[self.loss]
        s = self.sigma_t = n * self.sigma / (n + K)
        self.L = [c * np.sum(A**2, axis=1) / len(A) for A in self.A]
        if self.smoothness == "batch":
            L_b = max(np.linalg.eigvalsh(c * A.T @ A / len(A))[-1] for A in self.A)
        else:
            L_b = max(np.sum(L) for L in self.L) * (self.factor if self.smoothness == "factor" else 1)
        self.kappa = 1 + L_b / s
        self.alpha = 2 * K / (s * self.kappa)
        used = np.concatenate([L[L > 0] for L in self.L])
        if self.method == "token":
            N_c = n * self.kappa
            p = [1 / n for _ in range(n)]
        elif self.sampling == "importance":
            N_c = np.sum(1 + used / s)
            p = [(1 + L / s) / N_c for L in self.L]
        else:
            N_c = len(used) * (1 + used.max() / s)
            p = [np.full(len(L), 1 / len(used)) for L in self.L]
        self.N_c, self.p = N_c, p
        pi_min = self.pi.min()
        ratio = self.kappa / (N_c * pi_min)
        self.p_comm, self.p_comp = ratio / (1 + ratio), 1 / (1 + ratio)
        self.eta = min(self.p_comm * pi_min * s / (2 * K), self.p_comp / (self.alpha * N_c))
        self.rho_comm = self.eta * K / (self.p_comm * self.pi * s)
        self.rho = [self.alpha * self.eta / (self.p_comp * p_i) for p_i in p]

    def margins(self, i: int) -> Floats:
        return self.A[i] @ self.z[i] if self.method == "token" else self.z[i]

    def g(self, i: int) -> Floats:
        """phi_ij'(z_ij) of all samples of node i."""
        return slope(self.loss, self.margins(i), self.y[i]) / len(self.y[i])

    def gradient(self, i: int) -> Floats:
        """sum_j g_ij a_ij; for Token GD this is the gradient of f_i at z_i."""
        return self.A[i].T @ self.g(i)

    def communicate(self, k: int, i: int) -> None:
        theta_k, theta_i, rho = self.tokens[k].copy(), self.theta[i].copy(), self.rho_comm[i]
        self.tokens[k] = (1 - rho) * theta_k + rho * theta_i
        self.theta[i] = (1 - rho) * theta_i + rho * theta_k
        self.x[i, k] += self.sigma_t * rho * (theta_k - theta_i)

    def compute(self, i: int, j: int) -> None:
        if self.method == "token":
            before = self.gradient(i)
            self.z[i] = (1 - self.rho[i]) * self.z[i] + self.rho[i] * self.theta[i]
            self.theta[i] = self.theta[i] - (self.gradient(i) - before) / self.sigma_t
        else:
            a, y, rho, m = self.A[i][j], self.y[i][j], self.rho[i][j], len(self.y[i])
            before = slope(self.loss, self.z[i][j], y) / m
            self.z[i][j] = (1 - rho) * self.z[i][j] + rho * (a @ self.theta[i])
            self.theta[i] = self.theta[i] - (slope(self.loss, self.z[i][j], y) / m - before) * a / self.sigma_t

    def happen(self, kind: str, node: int, sample: int, token: int) -> None:
        if kind == "local":
            self.compute(node, sample)
        elif kind == "visit":
            self.communicate(token, node)
        else:
            assert kind == "move"

    def dual_objective(self) -> float:
        """q_A(lambda) + sum_ij f*_ij, from the dual variables: x on node-token edges, g a on computation edges."""
        at_nodes = self.x.sum(axis=1) - np.array([self.gradient(i) for i in range(self.n)])
        at_tokens = -self.x.sum(axis=0)
        q_A = (np.sum(at_nodes**2) + np.sum(at_tokens**2)) / (2 * self.sigma_t)
        return float(q_A + sum(self.conjugate(i) for i in range(self.n)))

    def conjugate(self, i: int) -> float:
        """f_i*(grad f_i(z_i)) for Token GD, sum_j f_ij*(g_ij a_ij) for TVR, up to the constants of empty rows."""
        y, m = self.y[i], len(self.y[i])
        if self.method == "token":
            z = self.z[i]
            return float(self.gradient(i) @ z - np.sum(value(self.loss, self.A[i] @ z, y)) / m)
        return float(np.sum(conjugate(self.loss, m * self.g(i), y)) / m)

    def objective(self, theta: Floats) -> float:
        """F(theta)."""
        f = sum(np.mean(value(self.loss, A @ theta, y)) for A, y in zip(self.A, self.y, strict=True))
        return float(f + self.n * self.sigma / 2 * theta @ theta)

    def lyapunov(self, best: Floats) -> float:
        """D_h(lambda*, lambda) + (eta / R_p) (f(lambda) - f(lambda*)), with lambda* from the optimum ``best``."""
        # h = |x|^2_P / 2 + sum f* / alpha; P x depends on the sums at nodes and tokens only
        now = self.x.sum(axis=1), -self.x.sum(axis=0)
        ideal = [A.T @ slope(self.loss, A @ best, y) / len(y) for A, y in zip(self.A, self.y, strict=True)]
        goal = self.sigma_t * best + np.array(ideal), np.tile(self.sigma_t * best, (self.K, 1))
        divergence = 0.5 * self.norm(np.concatenate([goal[0] - now[0], goal[1] - now[1]]))
        for i, (A, y) in enumerate(zip(self.A, self.y, strict=True)):
            # D_{f*}(g*, g) = D_f(z, z*): the divergence of the conjugate, arguments exchanged
            t, t_best = self.margins(i), A @ best
            bregman = value(self.loss, t, y) - value(self.loss, t_best, y) - slope(self.loss, t_best, y) * (t - t_best)
            divergence += float(np.mean(bregman)) / self.alpha
        return divergence + self.eta / self.R_p() * (self.dual_objective() + self.objective(best))

    def norm(self, missing: Floats) -> float:
        """|x|^2_P of an x with these sums at nodes and tokens, by the pseudo-inverse of the Laplacian."""
        n, K = self.n, self.K
        laplacian = np.diag(np.concatenate([np.full(n, K), np.full(K, n)]).astype(float))
        laplacian[:n, n:] -= 1
        laplacian[n:, :n] -= 1
        return float(np.sum(missing * (np.linalg.pinv(laplacian) @ missing)))

    def R_p(self) -> float:
        """min_e p_e / R_e."""
        comm = self.p_comm * self.pi.min() / self.K / ((self.n + self.K - 1) / (self.n * self.K))
        comp = min(np.min(p if np.isscalar(p) else p[L > 0]) for p, L in zip(self.p, self.L, strict=True))
        return float(min(comm, self.p_comp * comp))
