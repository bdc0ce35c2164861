import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence, svds

from dtoken.errors import RunError
from dtoken.problem import smoothness
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import LOSSES, get_loss
from dtoken.problem.smoothness import (
    batch_smoothness,
    max_smoothness,
    power_iteration,
    row_facts,
    sum_smoothness,
)


def dense_lambda_max(problem):
    c = problem.loss.curvature
    grams = [(c / m.shape[0]) * (m.T @ m).toarray() for m in problem.shards.matrices]
    return [np.linalg.eigvalsh(gram)[-1] for gram in grams]


# few and many features, fewer rows than features, a single row, a single feature
@pytest.mark.parametrize("d", [1, 2, 6, 16, 17, 18, 60, 300])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_batch_smoothness_equals_dense_eigenvalues(random_shards, d, name):
    problem = FiniteSum(random_shards(rows=(50, 2, 7, 21), d=d, density=0.5, classes=True), get_loss(name), 1.0)
    np.testing.assert_allclose(batch_smoothness(problem), dense_lambda_max(problem), rtol=1e-12, atol=1e-300)


def test_batch_smoothness_equals_svds(random_shards):
    shards = random_shards(rows=(200,), d=500, density=0.05)
    largest = svds(shards.matrices[0], k=1, return_singular_vectors=False, random_state=0)[0]
    found = batch_smoothness(FiniteSum(shards, get_loss("squared"), 1.0))
    assert found[0] == pytest.approx(largest**2 / 200, rel=1e-12)


@pytest.mark.parametrize("d", [3, 40])
def test_shards_of_low_rank(shards_of, d):
    row = np.arange(1.0, d + 1)
    matrices = [np.zeros((5, d)), np.tile(row, (5, 1)), np.eye(d)]  # rank 0, rank 1, all eigenvalues equal
    shards = shards_of(matrices, [np.ones(len(matrix)) for matrix in matrices])
    found = batch_smoothness(FiniteSum(shards, get_loss("squared"), 1.0))
    np.testing.assert_allclose(found, [0.0, row @ row, 1 / d], rtol=1e-13)


def test_the_same_bits_every_time_and_with_any_memory(random_shards):
    shards = random_shards(rows=(40, 30), d=100)
    results = [
        batch_smoothness(FiniteSum(shards, get_loss("squared"), 1.0, memory=memory)).tolist()
        for memory in (0, 0, 10**9)
    ]
    assert results[0] == results[1] == results[2]


def test_a_shard_that_fits_is_read_once_for_its_eigenvalue(random_shards):
    shards = random_shards(rows=(40, 30), d=100)
    batch_smoothness(FiniteSum(shards, get_loss("squared"), 1.0))
    assert shards.reads == [1, 1]


def test_power_iteration_takes_over(random_shards, monkeypatch):
    def fail(*_arguments, **_options):
        raise ArpackNoConvergence("no", np.array([]), np.array([]))

    problem = FiniteSum(random_shards(rows=(50, 21), d=30), get_loss("squared"), 1.0)
    monkeypatch.setattr(smoothness, "eigsh", fail)
    np.testing.assert_allclose(batch_smoothness(problem), dense_lambda_max(problem), rtol=1e-10)


def test_no_convergence_is_an_error_and_not_a_number(monkeypatch):
    monkeypatch.setattr(smoothness, "POWER_STEPS", 3)
    with pytest.raises(RunError, match="did not converge in 3 steps"):
        power_iteration(lambda x: np.array([1.0, 0.999]) * x, np.ones(2))


def test_row_facts_equal_dense(random_shards):
    problem = FiniteSum(random_shards(), get_loss("logistic"), 1.0)
    facts = row_facts(problem)
    for node, matrix in enumerate(problem.shards.matrices):
        q = np.square(matrix.toarray()).sum(axis=1)
        used = q[q > 0]
        assert facts.rows[node] == len(q)
        assert facts.empty[node] == len(q) - len(used) > 0
        assert facts.nonzeros[node] == matrix.nnz
        found = [facts.q_min[node], facts.q_mean[node], facts.q_max[node], facts.q_sum[node]]
        np.testing.assert_allclose(found, [used.min(), used.mean(), used.max(), used.sum()], rtol=1e-13)
        assert sum_smoothness(problem)[node] == pytest.approx(problem.smoothness(node).sum(), rel=1e-13)
        assert max_smoothness(problem, facts)[node] == pytest.approx(problem.smoothness(node).max(), rel=1e-13)


def test_batch_smoothness_lies_between_its_bounds(random_shards):
    problem = FiniteSum(random_shards(d=20), get_loss("logistic"), 1.0)
    batch = batch_smoothness(problem)
    assert (batch <= sum_smoothness(problem) * (1 + 1e-12)).all()
    assert (batch >= max_smoothness(problem) * (1 - 1e-12)).all()


def test_batch_smoothness_is_cached_beside_the_store(random_shards, tmp_path):
    shards = random_shards(path=tmp_path / "a.zarr")
    problem = FiniteSum(shards, get_loss("logistic"), 1.0)
    expected = batch_smoothness(problem)
    assert (tmp_path / "a.zarr.facts" / "batch_smoothness-logistic.npz").is_file()
    shards.broken = True
    np.testing.assert_array_equal(batch_smoothness(problem), expected)
