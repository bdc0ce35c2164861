"""TVR on blocks of rows and with any p_comm in plain numpy: general f_ij, z_ij and gradients as vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.tvr import TVR
from dtoken.schedule.events import KINDS, Events
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import CURVATURE, Reference, slope
from tests.engine.small import Setup

Floats = NDArray[np.float64]


@dataclass
class Blocked(Reference):
    """As Reference for TVR, but sample j of node i is rows j * B to before (j + 1) * B."""

    block: int = 1
    given: float | None = None  # p_comm; None: balanced

    def __post_init__(self) -> None:
        self.constants()
        d = self.A[0].shape[1]
        self.tokens, self.x = np.zeros((self.K, d)), np.zeros((self.n, self.K, d))
        self.z = [np.zeros((len(L), d)) for L in self.L]
        self.theta = np.array([-self.gradient(i) / self.sigma_t for i in range(self.n)])

    def rows(self, i: int, j: int) -> slice:
        return slice(j * self.block, (j + 1) * self.block)

    def constants(self) -> None:
        n, K, c = self.n, self.K, CURVATURE[self.loss]
        s = self.sigma_t = n * self.sigma / (n + K)
        self.L = []
        for A in self.A:
            parts = [A[start : start + self.block] for start in range(0, len(A), self.block)]
            if self.smoothness == "batch":
                q = [np.linalg.eigvalsh(part.T @ part)[-1] if part.any() else 0.0 for part in parts]
            else:
                q = [np.sum(part**2) for part in parts]
            self.L.append(c * np.array(q) / len(A))
        if self.smoothness == "batch":
            L_b = max(np.linalg.eigvalsh(c * A.T @ A / len(A))[-1] for A in self.A)
        else:
            L_b = max(np.sum(L) for L in self.L) * (self.factor if self.smoothness == "factor" else 1)
        self.kappa = 1 + L_b / s
        self.alpha = 2 * K / (s * self.kappa)
        used = np.concatenate([L[L > 0] for L in self.L])
        if self.sampling == "importance":
            self.N_c = np.sum(1 + used / s)
            self.p = [(1 + L / s) / self.N_c for L in self.L]
        else:
            self.N_c = len(used) * (1 + used.max() / s)
            self.p = [np.full(len(L), 1 / len(used)) for L in self.L]
        pi_min = self.pi.min()
        ratio = self.kappa / (self.N_c * pi_min)
        self.p_comm = ratio / (1 + ratio) if self.given is None else self.given
        self.p_comp = 1 - self.p_comm
        self.eta = min(self.p_comm * pi_min * s / (2 * K), self.p_comp / (self.alpha * self.N_c))
        self.rho_comm = self.eta * K / (self.p_comm * self.pi * s)
        self.rho = [self.alpha * self.eta / (self.p_comp * p) for p in self.p]

    def margins(self, i: int) -> Floats:
        return np.concatenate([self.A[i][self.rows(i, j)] @ z for j, z in enumerate(self.z[i])])

    def of_block(self, i: int, j: int) -> Floats:
        """Gradient of f_ij at z_ij."""
        A, y = self.A[i][self.rows(i, j)], self.y[i][self.rows(i, j)]
        gradient: Floats = A.T @ slope(self.loss, A @ self.z[i][j], y) / len(self.y[i])
        return gradient

    def compute(self, i: int, j: int) -> None:
        before, rho = self.of_block(i, j), self.rho[i][j]
        self.z[i][j] = (1 - rho) * self.z[i][j] + rho * self.theta[i]
        self.theta[i] = self.theta[i] - (self.of_block(i, j) - before) / self.sigma_t


def blocked(case: Setup) -> Blocked:
    method = case.method
    assert isinstance(method, TVR)
    return Blocked(
        case.shards.A,
        case.shards.y,
        case.problem.loss.name,
        case.problem.sigma,
        method.tokens,
        case.facts.walk.stationary,
        "tvr",
        method.sampling,
        method.smoothness,
        method.factor,
        method.block_rows,
        None if isinstance(method.p_comm, str) else method.p_comm,
    )


def written_out(engine: Any, events: Events, block: int) -> list[tuple[str, int, int, int]]:
    """(kind, node, number of the block, token) of every event."""
    found = []
    for kind, node, token, draw in zip(events.kind, events.node, events.token, events.draw, strict=True):
        row = row_of(engine.samples(), engine.rows.first, node, draw) if KINDS[kind] == "local" else -1
        start = int(row - engine.rows.first[node]) if row >= 0 else -1
        assert start < 0 or start % block == 0
        found.append((KINDS[kind], int(node), start // block, int(token)))
    return found
