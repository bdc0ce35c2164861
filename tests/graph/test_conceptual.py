"""The exact facts of the conceptual graph that the constants of the methods rest on."""

import numpy as np
import pytest

from dtoken.graph import effective_resistances, incidence, smallest_eigenvalue, strong_convexity

SIZES = [(2, 1), (2, 2), (5, 1), (5, 3), (6, 6), (9, 4)]


def r_of(kappa, c):
    return 2 * kappa / ((c + 1) * kappa + np.sqrt((c + 1) ** 2 * kappa**2 - 4 * c * kappa))


@pytest.mark.parametrize(("n", "K"), SIZES)
@pytest.mark.parametrize("token_edges", [False, True])
def test_smallest_eigenvalue_is_the_number_of_tokens(n, K, token_edges):
    assert smallest_eigenvalue(incidence(n, K, token_edges=token_edges)) == pytest.approx(K, rel=1e-12)


@pytest.mark.parametrize(("n", "K"), [(1, 1), *SIZES])
def test_effective_resistances(n, K):
    L = [np.arange(1.0, 2 + i % 3) for i in range(n)]
    R = effective_resistances(incidence(n, K, L, alpha=0.3))
    np.testing.assert_allclose(R[: n * K], (n + K - 1) / (n * K), rtol=1e-10)
    np.testing.assert_allclose(R[n * K :], 1, rtol=1e-10)


def test_resistances_sum_to_the_vertices_of_a_spanning_tree():
    A = incidence(5, 3, np.ones((5, 2)), token_edges=True)
    assert effective_resistances(A).sum() == pytest.approx(A.shape[0] - 1)


def test_incidence_is_the_weighted_laplacian():
    A = incidence(2, 1, [[4.0], [9.0, 1.0]], alpha=2.0)
    expected = np.zeros((6, 6))
    for u, v, weight in [(0, 2, 1), (1, 2, 1), (0, 3, 8), (1, 4, 18), (1, 5, 2)]:
        expected[[u, v], [u, v]] += weight
        expected[[u, v], [v, u]] -= weight
    np.testing.assert_allclose(A @ A.T, expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "K"), SIZES)
@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.parametrize("kappa", [1.5, 30.0, 1e4])
@pytest.mark.parametrize("token_edges", [False, True])
def test_strong_convexity_of_equal_nodes_is_r_alpha(n, K, c, kappa, token_edges):
    sigma_t = 0.7
    L = np.full((n, 3), (kappa - 1) * sigma_t / 3)
    alpha = c * K / (sigma_t * kappa)
    r = r_of(kappa, c)
    assert c * r**2 - (c + 1) * kappa * r + kappa == pytest.approx(0, abs=1e-9 * kappa)
    assert strong_convexity(n, K, L, sigma_t, alpha, token_edges) == pytest.approx(r * alpha, rel=1e-9)


def test_limits_of_r():
    assert r_of(1e9, 1) == pytest.approx(1 / 2, abs=1e-8)
    assert r_of(1e9, 2) == pytest.approx(1 / 3, abs=1e-8)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("c", [1, 2])
def test_strong_convexity_of_unequal_samples_is_at_least_r_alpha(seed, c):
    rng = np.random.default_rng(seed)
    n, K, sigma_t = 6, int(rng.integers(1, 7)), 0.2
    L = [rng.exponential(size=rng.integers(1, 5)) for _ in range(n)]
    kappa = 1 + max(own.sum() for own in L) / sigma_t
    alpha = c * K / (sigma_t * kappa)
    mu = strong_convexity(n, K, L, sigma_t, alpha)
    assert r_of(kappa, c) * alpha < mu <= alpha


def test_strong_convexity_is_the_largest_mu_with_f_minus_mu_h_convex():
    # From the definitions of f and h, with conjugates of the least curvature 1/L_ij.
    n, K, sigma_t, alpha = 4, 2, 0.5, 0.9
    L = np.random.default_rng(0).exponential(size=(n, 2))
    A = incidence(n, K, L, alpha)
    communication = A[: n + K]
    tokens = incidence(n, K)
    h = np.zeros((A.shape[1],) * 2)
    h[: n * K, : n * K] = np.linalg.pinv(tokens) @ tokens
    h[n * K :, n * K :] = np.eye(n * 2)  # (1/alpha) f*(mu_ij y): curvature mu_ij^2 / (alpha L_ij)
    conjugates = np.zeros_like(h)
    conjugates[n * K :, n * K :] = alpha * np.eye(n * 2)
    f = communication.T @ communication / sigma_t + conjugates
    mu = strong_convexity(n, K, L, sigma_t, alpha)
    assert np.linalg.eigvalsh(f - mu * (1 - 1e-9) * h).min() > -1e-12
    assert np.linalg.eigvalsh(f - mu * (1 + 1e-6) * h).min() < -1e-8


def test_samples_must_fit_the_nodes():
    with pytest.raises(ValueError, match="samples of 2 nodes but n=3"):
        incidence(3, 1, [[1.0], [1.0]])
