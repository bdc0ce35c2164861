"""nids and dvr against theorems of their papers: contraction in every round, exactly or in expectation."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dtoken.algorithms.contract import Method
from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.nids import NIDS
from dtoken.engine.loop.prediction import predict
from tests.algorithms.test_rounds import NETWORKS, SIGMA, gradients, inverse_step, laplacian, make
from tests.engine.loop.test_prediction import Planned
from tests.engine.small import InMemory, setup, small_shards, solve

Floats = NDArray[np.float64]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("step", [0.3, 1.0, 1.9])
@pytest.mark.parametrize("graph", NETWORKS)
def test_nids_contracts_in_every_round(graph: str, step: float, loss: str) -> None:
    """V+ <= max(1 - s sigma (2 - s L), 1 - gamma / 2) V (Li, Shi, Yan 2019), whatever the network.

    With P = I - W, s d^k = x^{k-1} - s g^{k-1} - x^k and d* = -g*: V = ||x - x*||^2 + s^2 ||d - d*||^2 in the norm of
    2 P^+. For x+ = r - s d+ and s d+ = s d + P / 2 (r - s d), r the error after a gradient step, one has
    V+ <= ||r||^2 + s^2 ||d - d*||^2 in the norm of 2 P^+ - I, which gives both terms.
    """
    case = make(NIDS(step=step), loss, graph)
    L, Lap = inverse_step(case), laplacian(graph)
    eigenvalues = np.linalg.eigvalsh(Lap)
    s, gamma = step / L, eigenvalues[1] / eigenvalues[-1]
    factor = max(1 - s * SIGMA * (2 - s * L), 1 - gamma / 2)
    best = np.tile(solve(case.shards, loss, SIGMA), (6, 1))
    best_slopes = gradients(case, best)
    metric = 2 * np.linalg.pinv(Lap / eigenvalues[-1])

    def value(nodes: Any) -> float:
        dual = nodes.before - s * nodes.g_before - nodes.x + s * best_slopes
        return float(np.sum((nodes.x - best) ** 2) + np.sum(dual * (metric @ dual)))

    pattern, values = case.schedule.pattern, []
    with case.engine() as engine:
        for _ in range(150):
            values.append(value(engine.nodes))
            engine.run(pattern)
    useful = np.array(values)[np.array(values) > 1e-20]
    assert len(useful) > 20
    assert (useful[1:] <= factor * useful[:-1] * (1 + 1e-9)).all()
    assert predict(Planned(case)).rate == pytest.approx(1 - factor, rel=1e-9)


def one_curvature() -> InMemory:
    """Nodes with the same Hessian and different optima: every mode of the network is on its own."""
    return InMemory([np.ones((1, 1))] * 6, [np.array([float(i)]) for i in range(6)], classes=False)


@pytest.mark.parametrize("graph", ["path", "ring", "star"])
@pytest.mark.parametrize(
    ("method", "polynomial"),
    [
        (NIDS(step=1.9), lambda w, h: [1, -w * (2 - h), w * (1 - h)]),
        (EXTRA(step=1.9), lambda w, h: [1, -(2 * w - h), w - h]),
        (EXTRA(step=0.9), lambda w, h: [1, -(2 * w - h), w - h]),
    ],
    ids=["nids 1.9", "extra 1.9", "extra 0.9"],
)
def test_which_steps_are_stable(method: Method, polynomial: Any, graph: str) -> None:
    """Modes of (I + W) / 2 with eigenvalue w, and curvature H, s H = h: NIDS stays stable where EXTRA is not."""
    Lap = laplacian(graph)
    eigenvalues = np.linalg.eigvalsh(Lap)
    h = method.step  # type: ignore[attr-defined]
    roots = [np.abs(np.roots(polynomial(1 - value / (2 * eigenvalues[-1]), h))).max() for value in eigenvalues[1:]]
    slowest = max(*roots, abs(1 - h))
    stable = slowest < 1
    assert stable == (h != 1.9 or isinstance(method, NIDS))
    case = setup(one_curvature(), method, loss="squared", sigma=SIGMA, graph=graph)
    with case.engine() as engine:
        rounds = int(30 / -np.log(slowest)) if stable else 400
        engine.run(case.events(rounds * case.schedule.pattern.size))
        error = np.abs(engine.models(0.0).nodes - 2.5 / (1 + SIGMA)).max()
    assert error < 1e-10 if stable else error > 1e10


@pytest.mark.parametrize("graph", ["complete", "path"])
@pytest.mark.parametrize("sampling", ["importance", "uniform"])
@pytest.mark.parametrize("smoothness", ["theory", "batch"])
def test_dvr_contracts_in_mean_square(smoothness: str, sampling: str, graph: str) -> None:
    """Spectral radius of E[T x T] <= 1 - eta r alpha on a quadratic, the expectation over all steps that can come.

    The errors (theta, z) of a quadratic follow a random linear map T; E[T x T] moves their second moments. All states
    that can occur have sigma sum_i theta_i + sum_ij w a_ij z_ij = 0.
    """
    n, m, d, sigma = 3, 2, 2, 0.1
    shards = small_shards(n=n, m=m, d=d, seed=3, classes=False, unequal=False, empty=False)
    case = setup(shards, DVR(sampling=sampling, smoothness=smoothness), loss="squared", sigma=sigma, graph=graph)
    c, size = case.constants, n * d + n * m
    Lap = (n * np.eye(n) - 1 if graph == "complete" else np.array([[1, -1, 0], [-1, 2, -1], [0, -1, 1]])) * 1.0
    exchange = np.eye(size)
    exchange[: n * d, : n * d] -= c.rho_comm * np.kron(Lap, np.eye(d))

    def of_sample(i: int, j: int) -> Floats:
        """Node i uses sample j: z <- z + rho (a^T theta - z), theta <- theta - w (change of z) a / sigma."""
        a, L = shards.A[i][j], shards.A[i][j] @ shards.A[i][j] / m
        rho = c.rho_comp[i] / (1 + c.importance * L / sigma)
        change = np.zeros(size)
        change[i * d : (i + 1) * d] = rho * a
        change[n * d + i * m + j] = -rho
        T = np.eye(size)
        T[n * d + i * m + j] += change
        T[i * d : (i + 1) * d] -= np.outer(a, change) / (m * sigma)
        return T

    probability = [case.method.weights(c, (A**2).sum(axis=1) / m) for A in shards.A]
    probability = [np.full(m, 1 / m) if p is None else p / p.sum() for p in probability]
    constraint = np.hstack([sigma * np.tile(np.eye(d), n), np.vstack(shards.A).T / m])
    basis = np.linalg.svd(constraint)[2][d:].T  # of the states that can occur
    moments = c.p_comm * np.kron(basis.T @ exchange @ basis, basis.T @ exchange @ basis)
    for drawn in product(range(m), repeat=n):
        T = np.linalg.multi_dot([of_sample(i, j) for i, j in enumerate(drawn)])
        assert np.abs(constraint @ T @ basis).max() < 1e-12
        share = c.p_comp * np.prod([probability[i][j] for i, j in enumerate(drawn)])
        moments += share * np.kron(basis.T @ T @ basis, basis.T @ T @ basis)
    contraction = 1 - np.abs(np.linalg.eigvals(moments)).max()
    assert c.rate <= contraction <= 20 * c.rate


@pytest.mark.parametrize("graph", ["complete", "ring", "path"])
def test_dvr_complexity(graph: str) -> None:
    """kappa_b / gamma exchanges and 2 (m + sum_j L_ij / sigma) samples a node per factor e (Hendrikx et al. 2020)."""
    case = make(DVR(), "logistic", graph)
    c, eigenvalues = case.constants, np.linalg.eigvalsh(laplacian(graph))
    kappa = inverse_step(case) / SIGMA
    assert c.p_comm / c.paper_rate == pytest.approx(kappa * eigenvalues[-1] / eigenvalues[1])
    L = [0.25 * (A**2).sum(axis=1) / len(A) for A in case.shards.A]
    assert c.p_comp / c.paper_rate == pytest.approx(2 * max(np.count_nonzero(L_i) + L_i.sum() / SIGMA for L_i in L))
