"""Objective, gradient, smoothness and optimum on real data, against numpy, scipy and scikit-learn.

With equal nodes F(theta) = n * (mean of phi + sigma/2 ||theta||^2), which is what the references minimise.
"""

import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import solve
from scipy.sparse.linalg import svds
from scipy.special import expit
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression, Ridge

from dtoken.data.store import ShardStore
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import LOSSES, get_loss
from dtoken.problem.optimum import optimum
from dtoken.problem.smoothness import batch_smoothness, sum_smoothness

pytestmark = pytest.mark.real_data

SIGMA = 1e-2
# name -> rows, nodes: w8a has empty rows among its first ones; rcv1sub has more features than rows
SIZES = {"a9a": (32_560, 20), "w8a": (10_000, 10), "rcv1sub_binary.svm": (1200, 4)}


class Dataset(NamedTuple):
    matrix: sp.csr_matrix
    y: np.ndarray
    nodes: int


@pytest.fixture(scope="module", params=SIZES)
def dataset(request: pytest.FixtureRequest, real_data: Path) -> Dataset:
    rows, nodes = SIZES[request.param]
    with lzma.open(real_data / f"{request.param}.xz") as text:
        matrix, y = load_svmlight_file(text)
    assert rows % nodes == 0
    return Dataset(matrix[:rows], y[:rows], nodes)


@pytest.fixture
def store(dataset: Dataset, make_store: Callable[..., ShardStore], rows_source: Any) -> ShardStore:
    return make_store(rows_source(dataset.matrix, dataset.y, block_rows=1000), nodes=dataset.nodes)


def phi(name: str, t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, first and second derivative of a loss, written as in the literature."""
    z = y * t
    if name == "logistic":
        return np.logaddexp(0.0, -z), -y * expit(-z), expit(z) * expit(-z)
    if name == "squared":
        return 0.5 * (t - y) ** 2, t - y, np.ones_like(t)
    inside = (z > 0) & (z < 1)
    value = np.where(inside, 0.5 * (1 - z) ** 2, np.maximum(0.5 - z, 0.0) * (z <= 0))
    return value, -y * np.clip(1 - z, 0.0, 1.0), inside.astype(np.float64)


def objective(data: Dataset, name: str, theta: np.ndarray) -> float:
    value, _, _ = phi(name, data.matrix @ theta, data.y)
    return float(data.nodes * (value.mean() + SIGMA / 2 * theta @ theta))


def gradient(data: Dataset, name: str, theta: np.ndarray) -> np.ndarray:
    _, first, _ = phi(name, data.matrix @ theta, data.y)
    return data.nodes * (data.matrix.T @ first / len(data.y) + SIGMA * theta)


def newton(data: Dataset, name: str) -> np.ndarray:
    """The optimum by (semi-smooth) Newton steps with dense solves, in the smaller of the two dimensions."""
    matrix, rows, d = data.matrix, len(data.y), data.matrix.shape[1]
    theta = np.zeros(d)
    best = np.inf
    for _ in range(100):
        slope = gradient(data, name, theta) / data.nodes
        if np.linalg.norm(slope) >= 0.5 * best and best < 1e-13:
            break
        best = min(best, float(np.linalg.norm(slope)))
        curvature = phi(name, matrix @ theta, data.y)[2] / rows
        if d <= rows:
            hessian = (matrix.T @ matrix.multiply(curvature[:, None])).toarray() + SIGMA * np.eye(d)
            step = solve(hessian, slope, assume_a="pos")
        else:  # Woodbury: (sigma I + B^T B)^-1
            weighted = sp.csr_matrix(matrix.multiply(np.sqrt(curvature)[:, None]))
            inner = (weighted @ weighted.T).toarray() + SIGMA * np.eye(rows)
            step = (slope - weighted.T @ solve(inner, weighted @ slope, assume_a="pos")) / SIGMA
        scale, before = 1.0, objective(data, name, theta)
        while objective(data, name, theta - scale * step) > before + 1e-12 * abs(before):
            scale /= 2
        theta = theta - scale * step
    return theta


@pytest.mark.parametrize("name", LOSSES)
def test_objective_and_gradient(dataset: Dataset, store: ShardStore, name: str) -> None:
    problem = FiniteSum(store, get_loss(name), SIGMA)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 3.0):
        theta = scale * rng.standard_normal(store.d)
        assert problem.objective(theta) == pytest.approx(objective(dataset, name, theta), rel=1e-10)
        ours, theirs = problem.gradient(theta), gradient(dataset, name, theta)
        assert np.linalg.norm(ours - theirs) <= 1e-10 * np.linalg.norm(theirs)


@pytest.mark.parametrize("name", LOSSES)
def test_smoothness(dataset: Dataset, store: ShardStore, name: str) -> None:
    problem = FiniteSum(store, get_loss(name), SIGMA)
    bound = {"logistic": 0.25, "squared": 1.0, "smooth_hinge": 1.0}[name]
    m = len(dataset.y) // dataset.nodes
    parts = [dataset.matrix[node * m : (node + 1) * m] for node in range(dataset.nodes)]
    start = np.ones(min(parts[0].shape))
    largest = [svds(part, k=1, v0=start, return_singular_vectors=False)[0] ** 2 for part in parts]
    np.testing.assert_allclose(batch_smoothness(problem), bound * np.array(largest) / m, rtol=1e-10)
    sums = [bound * part.multiply(part).sum() / m for part in parts]
    np.testing.assert_allclose(sum_smoothness(problem), sums, rtol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_optimum(dataset: Dataset, store: ShardStore, name: str) -> None:
    found = optimum(FiniteSum(store, get_loss(name), SIGMA))
    reference = newton(dataset, name)
    assert found.relative_gradient_norm <= 1e-12
    assert found.objective == pytest.approx(objective(dataset, name, reference), rel=1e-10)
    assert np.linalg.norm(found.theta - reference) <= 1e-10 * np.linalg.norm(reference)


def test_optimum_of_scikit_learn(dataset: Dataset, store: ShardStore) -> None:
    rows, d = dataset.matrix.shape
    solver = "newton-cholesky" if d <= rows else "newton-cg"
    logistic = LogisticRegression(C=1 / (rows * SIGMA), fit_intercept=False, solver=solver, tol=1e-12)
    theirs = logistic.fit(dataset.matrix, dataset.y).coef_.ravel()
    ours = optimum(FiniteSum(store, get_loss("logistic"), SIGMA))
    assert ours.objective == pytest.approx(objective(dataset, "logistic", theirs), rel=1e-10)
    assert np.linalg.norm(ours.theta - theirs) <= 1e-10 * np.linalg.norm(theirs)

    ridge = Ridge(alpha=rows * SIGMA, fit_intercept=False, solver="cholesky")
    theirs = ridge.fit(dataset.matrix, dataset.y).coef_.ravel()
    ours = optimum(FiniteSum(store, get_loss("squared"), SIGMA))
    assert ours.objective == pytest.approx(objective(dataset, "squared", theirs), rel=1e-10)
    assert np.linalg.norm(ours.theta - theirs) <= 1e-10 * np.linalg.norm(theirs)


def test_w8a_has_empty_rows(real_data: Path) -> None:
    with lzma.open(real_data / "w8a.xz") as text:
        matrix, _ = load_svmlight_file(text)
    assert np.count_nonzero(np.diff(matrix[: SIZES["w8a"][0]].indptr) == 0) > 10
