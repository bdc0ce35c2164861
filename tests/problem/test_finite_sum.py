import pickle
from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.metrics import log_loss, mean_squared_error

from dtoken.errors import InputError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import LOSSES, get_loss

SIGMA = 0.03


def dense_objective(shards, loss, sigma, theta):
    total = 0.0
    for matrix, y in zip(shards.matrices, shards.labels, strict=True):
        t = matrix.toarray() @ theta
        z = y * t
        phi = {
            "logistic": np.logaddexp(0, -z),
            "squared": 0.5 * (t - y) ** 2,
            "smooth_hinge": np.where(z >= 1, 0, np.where(z <= 0, 0.5 - z, 0.5 * (1 - z) ** 2)),
        }[loss]
        total += phi.mean() + sigma / 2 * theta @ theta
    return total


@pytest.fixture(params=sorted(LOSSES))
def problem(request, random_shards):
    loss = get_loss(request.param)
    return FiniteSum(random_shards(classes=loss.classification), loss, SIGMA)


@pytest.fixture
def theta(problem):
    return np.random.default_rng(5).standard_normal(problem.d)


def test_objective_equals_dense_numpy(problem, theta):
    expected = dense_objective(problem.shards, problem.loss.name, SIGMA, theta)
    assert problem.objective(theta) == pytest.approx(expected, rel=1e-14)


def test_gradient_equals_finite_differences(problem, theta):
    expected = approx_fprime(
        theta, lambda x: dense_objective(problem.shards, problem.loss.name, SIGMA, x), epsilon=1e-6
    )
    np.testing.assert_allclose(problem.gradient(theta), expected, rtol=1e-5, atol=1e-5)


def test_one_pass_has_the_bits_of_two(problem, theta):
    objective, gradient = problem.objective_and_gradient(theta)
    assert objective == problem.objective(theta)
    np.testing.assert_array_equal(gradient, problem.gradient(theta))


def test_node_gradients_sum_to_the_gradient(problem, theta):
    parts = np.concatenate(list(problem.node_gradients(theta)))
    np.testing.assert_allclose(np.sum(parts, axis=0), problem.gradient(theta), rtol=1e-13, atol=1e-14)
    m = problem.shards.node_rows[1]
    matrix, y = problem.shards.matrices[1], problem.shards.labels[1]
    if problem.loss.name == "squared":
        expected = matrix.T @ (matrix @ theta - y) / m + SIGMA * theta
        np.testing.assert_allclose(parts[1], expected, rtol=1e-13, atol=1e-14)


def test_hessian_equals_differences_of_the_gradient(problem, theta):
    step = 1e-6
    columns = [problem.hessian_vector(theta, unit) for unit in np.eye(problem.d)]
    for unit, column in zip(np.eye(problem.d), columns, strict=True):
        difference = problem.gradient(theta + step * unit) - problem.gradient(theta - step * unit)
        np.testing.assert_allclose(column, difference / (2 * step), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(problem.hessian_diagonal(theta), np.diag(columns), rtol=1e-13)


def test_equals_scikit_learn_on_equal_nodes(random_shards):
    shards = random_shards(rows=(20, 20, 20))
    theta = np.random.default_rng(6).standard_normal(shards.d)
    X = np.vstack([matrix.toarray() for matrix in shards.matrices])
    y = np.concatenate(shards.labels)
    penalty = SIGMA / 2 * theta @ theta
    logistic = log_loss(y, expit(X @ theta)) + penalty
    squared = mean_squared_error(y, X @ theta) / 2 + penalty
    for name, expected in (("logistic", logistic), ("squared", squared)):
        problem = FiniteSum(shards, get_loss(name), SIGMA)
        assert problem.objective(theta) == pytest.approx(3 * expected, rel=1e-13)
    expected_gradient = 3 * (X.T @ (-y * expit(-y * (X @ theta))) / 60 + SIGMA * theta)
    gradient = FiniteSum(shards, get_loss("logistic"), SIGMA).gradient(theta)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-13)


def test_empty_rows_add_their_constant(shards_of):
    shards = shards_of([np.zeros((4, 2))], [np.array([1.0, -1.0, 1.0, 1.0])])
    problem = FiniteSum(shards, get_loss("logistic"), 0.5)
    assert problem.objective(np.zeros(2)) == pytest.approx(np.log(2), rel=1e-15)
    assert problem.objective(np.ones(2)) == pytest.approx(np.log(2) + 0.5, rel=1e-15)
    np.testing.assert_array_equal(problem.row_norms(0), np.zeros(4))


def test_row_norms_and_smoothness_equal_dense(problem):
    dense = np.concatenate([matrix.toarray() for matrix in problem.shards.matrices])
    np.testing.assert_allclose(problem.row_norms(0), np.square(dense).sum(axis=1), rtol=1e-14)
    for node, matrix in enumerate(problem.shards.matrices):
        q = np.square(matrix.toarray()).sum(axis=1)
        expected = problem.loss.curvature * q / len(q)
        np.testing.assert_allclose(problem.smoothness(node), expected, rtol=1e-14)


def everything(problem, theta):
    objective, gradient = problem.objective_and_gradient(theta)
    return [objective, problem.objective(theta), *gradient, *problem.hessian_vector(theta, gradient)]


def test_memory_threads_groups_and_block_sizes_do_not_change_a_bit(random_shards, monkeypatch):
    loss = get_loss("logistic")
    theta = np.random.default_rng(7).standard_normal(40)
    reference = None
    for block_rows in (1, 7, 1000):
        shards = random_shards(rows=(60, 31, 45, 8, 20), d=40, block_rows=block_rows)
        for memory, threads, group in product((0, 5000, 10**9), (1, 2, 4), (1, 200, 1 << 22)):
            monkeypatch.setattr("dtoken.problem.shards.GROUP", group)
            problem = FiniteSum(shards, loss, SIGMA, memory=memory, threads=threads)
            for _ in range(2):  # the second pass reads what the first one kept
                result = everything(problem, theta)
                reference = reference or result
                assert result == reference


def test_memory_decides_which_shards_are_read_again(random_shards, monkeypatch):
    monkeypatch.setattr("dtoken.problem.shards.GROUP", 1)  # each node is read by itself
    shards = random_shards(rows=(60, 31, 8))
    sizes = [12 * nnz + 20 * m + 16 for nnz, m in zip(shards.node_nonzeros, shards.node_rows, strict=True)]
    problem = FiniteSum(shards, get_loss("logistic"), SIGMA, memory=sizes[0] + sizes[2])
    for _ in range(5):
        problem.gradient(np.zeros(shards.d))
    assert shards.reads == [1, 5, 1]


def test_objective_keeps_the_digits_of_many_small_terms(shards_of):
    # one huge term first: plain summation would lose all the others
    m = 10_001
    matrix = np.full((m, 1), 0.0)
    matrix[0, 0] = -1e17
    problem = FiniteSum(shards_of([matrix], [np.ones(m)], block_rows=1000), get_loss("smooth_hinge"), 1e-30)
    assert problem.objective(np.ones(1)) == pytest.approx((1e17 + 0.5 * m) / m, rel=1e-15)


def test_another_sigma_shares_the_shards_in_memory(random_shards):
    shards = random_shards()
    problem = FiniteSum(shards, get_loss("logistic"), SIGMA)
    theta = np.ones(shards.d)
    difference = problem.with_sigma(2 * SIGMA).objective(theta) - problem.objective(theta)
    assert difference == pytest.approx(3 * SIGMA / 2 * shards.d, rel=1e-13)
    assert shards.reads == [1, 1, 1]


def test_pickling_leaves_the_kept_blocks_behind(random_shards):
    shards = random_shards()
    problem = FiniteSum(shards, get_loss("logistic"), SIGMA)
    theta = np.ones(shards.d)
    expected = problem.objective(theta)
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.objective(theta) == expected
    assert copy.shards.reads == [2, 2, 2]


def test_bad_input_is_refused_in_one_sentence(random_shards, shards_of, tmp_path):
    shards = random_shards()
    for sigma in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"problem\.sigma=.* is not a positive number"):
            FiniteSum(shards, get_loss("logistic"), sigma)
    real = random_shards(classes=False, path=tmp_path / "a.zarr")
    for name in ("logistic", "smooth_hinge"):
        with pytest.raises(InputError, match=rf"problem.loss={name} needs two classes.*a\.zarr.*loss=squared"):
            FiniteSum(real, get_loss(name), 1.0)
    with pytest.raises(InputError, match=r"node 1 of the dataset has no rows"):
        FiniteSum(shards_of([np.ones((1, 2)), np.ones((0, 2))], [np.ones(1), np.ones(0)]), get_loss("squared"), 1.0)
    with pytest.raises(InputError, match="threads=0"):
        FiniteSum(shards, get_loss("logistic"), 1.0, threads=0)
    with pytest.raises(InputError, match="memory=-1"):
        FiniteSum(shards, get_loss("logistic"), 1.0, memory=-1)
    problem = FiniteSum(shards, get_loss("logistic"), 1.0)
    for theta in (np.zeros(shards.d + 1), np.zeros((shards.d, 1)), 0.0):
        with pytest.raises(InputError, match=r"theta has the shape .* use a vector of shape \(6,\)"):
            problem.gradient(theta)
