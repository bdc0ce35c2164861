import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression, Ridge

from dtoken.problem import optimum as module
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import LOSSES, get_loss
from dtoken.problem.optimum import optimum


@pytest.mark.parametrize("sigma", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradient_vanishes_at_the_optimum(random_shards, name, sigma):
    loss = get_loss(name)
    shards = random_shards(rows=(40, 25, 33), d=30, classes=loss.classification)
    problem = FiniteSum(shards, loss, sigma)
    found = optimum(problem)
    assert found.relative_gradient_norm <= 1e-12
    assert found.gradient_norm == pytest.approx(np.linalg.norm(problem.gradient(found.theta)), rel=1e-12)
    assert found.objective == problem.objective(found.theta)
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3, 1.0):
        other = found.theta + size * rng.standard_normal(problem.d)
        # strong convexity: F(x) - F* >= n sigma / 2 ||x - theta*||^2
        gap = 0.5 * problem.n * sigma * np.sum((other - found.theta) ** 2)
        assert problem.objective(other) - found.objective >= gap - 1e-14 * abs(found.objective)


@pytest.mark.parametrize("seed", range(4))
def test_the_smoothed_hinge_of_separable_data_with_tiny_sigma(random_shards, seed):
    # Newton's method from afar gets stuck between the kinks here
    shards = random_shards(rows=(40, 25, 33), d=30, density=0.7, seed=seed)
    assert optimum(FiniteSum(shards, get_loss("smooth_hinge"), 1e-8)).relative_gradient_norm <= 1e-12


def test_logistic_equals_scikit_learn(random_shards):
    shards = random_shards(rows=(40, 40, 40), d=8)
    sigma = 1e-2
    X = np.vstack([matrix.toarray() for matrix in shards.matrices])
    y = np.concatenate(shards.labels)
    theirs = LogisticRegression(
        C=1 / (len(y) * sigma), fit_intercept=False, solver="newton-cholesky", tol=1e-14, max_iter=1000
    ).fit(X, y)
    found = optimum(FiniteSum(shards, get_loss("logistic"), sigma))
    np.testing.assert_allclose(found.theta, theirs.coef_[0], rtol=1e-10, atol=1e-12)


def test_squared_equals_ridge_and_the_normal_equations_with_unequal_nodes(random_shards):
    sigma = 1e-3
    shards = random_shards(rows=(40, 15, 60), d=12, classes=False)
    found = optimum(FiniteSum(shards, get_loss("squared"), sigma))
    weights = np.concatenate([np.full(m, 1 / m) for m in shards.node_rows])
    X = np.vstack([matrix.toarray() for matrix in shards.matrices])
    y = np.concatenate(shards.labels)
    expected = np.linalg.solve(X.T @ (weights[:, None] * X) + 3 * sigma * np.eye(12), X.T @ (weights * y))
    np.testing.assert_allclose(found.theta, expected, rtol=1e-10)
    ridge = Ridge(alpha=3 * sigma, fit_intercept=False, solver="cholesky").fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(found.theta, ridge.coef_, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_features_of_very_different_size(shards_of, name):
    # condition number about 1e10 before the diagonal preconditioner
    rng = np.random.default_rng(3)
    scales = 10.0 ** np.linspace(-3, 2, 25)
    matrices = [rng.standard_normal((50, 25)) * scales for _ in range(3)]
    labels = [np.sign(rng.standard_normal(50)) for _ in range(3)]
    problem = FiniteSum(shards_of(matrices, labels), get_loss(name), 1e-5)
    assert optimum(problem).relative_gradient_norm <= 1e-10


@pytest.mark.parametrize("scale", [1e6, 1e9, 1e12, 1e15])
def test_one_long_row_does_not_blur_the_optimum(shards_of, scale):
    """The row is orthogonal to the others: F* is the sum of two optima, of one unknown and of the problem without."""
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal((20, 6)) for _ in range(4)]
    labels = [np.sign(A @ np.ones(6) + rng.standard_normal(20)) for A in matrices]
    for A in matrices:
        A[:, 0] = 0.0
    matrices[0][0] = 0.0
    without = optimum(FiniteSum(shards_of(matrices, labels), get_loss("logistic"), 0.01)).objective - np.log(2) / 20
    matrices[0][0, 0] = labels[0][0] * scale
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    found = optimum(FiniteSum(shards_of([A @ rotation for A in matrices], labels), get_loss("logistic"), 0.01))
    # z = scale theta_0 solves 1 / (20 (1 + e^z)) = 4 sigma z / scale^2
    z = brentq(lambda z: np.log(20 * 0.04 * z / scale**2) + np.logaddexp(0, z), 1e-9, 200)
    alone = np.log1p(np.exp(-z)) / 20 + 0.02 * (z / scale) ** 2
    assert found.objective - (without + alone) == pytest.approx(0, abs=1e-11)
    assert found.objective - (without + alone) <= found.error + 1e-14
    assert found.error <= 1e-12 * found.objective


def test_an_optimum_that_float64_cannot_find_is_told(shards_of):
    """Two long rows that contradict each other: their slopes balance to about eps * 1e12."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 5))
    A[1] = A[0] = 1e12 * rng.standard_normal(5)
    y = np.sign(rng.standard_normal(30))
    y[:2] = 1.0, -1.0
    found = optimum(FiniteSum(shards_of([A], [y]), get_loss("logistic"), 1e-6))
    assert found.error == found.gradient_norm**2 / 2e-6
    assert found.error > 1e-10 * found.objective


def test_zero_is_found_when_zero_is_the_optimum(shards_of):
    problem = FiniteSum(shards_of([np.zeros((3, 4))], [np.ones(3)]), get_loss("logistic"), 0.1)
    found = optimum(problem)
    np.testing.assert_array_equal(found.theta, np.zeros(4))
    assert found.gradient_norm == found.relative_gradient_norm == 0.0
    assert found.objective == pytest.approx(np.log(2))


@pytest.fixture
def stored(random_shards, tmp_path):
    return FiniteSum(random_shards(path=tmp_path / "a.zarr"), get_loss("logistic"), 1e-3)


def assert_same(left, right):
    np.testing.assert_array_equal(left.theta, right.theta)
    assert left.objective == right.objective
    assert left.gradient_norm == right.gradient_norm
    assert left.relative_gradient_norm == right.relative_gradient_norm
    assert (left.iterations, left.method) == (right.iterations, right.method)


def test_cached_optimum_needs_no_data(stored, tmp_path):
    found = optimum(stored)
    assert (tmp_path / "a.zarr.facts" / "minimum-logistic-0.001.npz").is_file()
    stored.shards.broken = True
    assert_same(optimum(stored), found)
    with pytest.raises(AssertionError, match="read again"):
        optimum(FiniteSum(stored.shards, stored.loss, stored.sigma), cache=False)


def test_another_loss_or_sigma_is_another_optimum(stored):
    first = optimum(stored).theta
    second = optimum(FiniteSum(stored.shards, stored.loss, 2e-3)).theta
    third = optimum(FiniteSum(stored.shards, get_loss("smooth_hinge"), 1e-3)).theta
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, third)


def test_nothing_is_written_without_a_path_or_without_cache(stored, random_shards, tmp_path):
    optimum(FiniteSum(random_shards(), get_loss("logistic"), 1e-3))
    optimum(stored, cache=False)
    assert list(tmp_path.iterdir()) == []


def test_it_ends_where_float64_ends(random_shards, monkeypatch):
    monkeypatch.setattr(module, "TOLERANCE", 0.0)
    found = optimum(FiniteSum(random_shards(), get_loss("logistic"), 1e-3))
    assert found.relative_gradient_norm <= 1e-14
    assert found.iterations < 100
