"""Constants of Token GD and TVR against the formulas of the paper, corrected, and against exact linear algebra."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.graph import build, strong_convexity, walk
from dtoken.theory.dual_descent import (
    Sampling,
    convexity_ratio,
    dual_descent,
    importance_sampling,
    shared_sigma,
    uniform_sampling,
)
from tests.engine.small import setup, small_shards

laws = st.lists(st.floats(0.05, 1.0), min_size=2, max_size=7).map(lambda w: np.array(w) / np.sum(w))
smoothnesses = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9).map(np.array)


def test_shared_sigma_splits_the_regulariser_over_nodes_and_tokens() -> None:
    assert shared_sigma(6, 3, 0.3) * (6 + 3) == pytest.approx(6 * 0.3, rel=1e-15)


@given(pi=laws, L=smoothnesses, K=st.integers(1, 5), sigma_t=st.floats(1e-3, 1e3), importance=st.booleans())
def test_formulas_and_bounds(pi: np.ndarray, L: np.ndarray, K: int, sigma_t: float, importance: bool) -> None:
    """Each constant by its formula; rho_comm <= 1/2 and rho_ij <= 1 / (1 + L_ij / sigma~) whatever the law."""
    if importance:
        p_ij = (1 + L / sigma_t) / np.sum(1 + L / sigma_t)
        sampling = importance_sampling(len(L), L.sum(), sigma_t)
    else:
        p_ij = np.full(len(L), 1 / len(L))
        sampling = uniform_sampling(len(L), L.max(), sigma_t)
    c = dual_descent(K, sigma_t, L.sum(), sampling, pi)
    N_c = np.max((1 + L / sigma_t) / p_ij)
    assert c.kappa == pytest.approx(1 + L.sum() / sigma_t, rel=1e-14)
    assert c.alpha == pytest.approx(2 * K / (sigma_t + L.sum()), rel=1e-12)
    assert c.p_comm + c.p_comp == pytest.approx(1, rel=1e-15)
    assert c.p_comm / c.p_comp == pytest.approx(c.kappa / (N_c * pi.min()), rel=1e-9)
    bounds = c.p_comm * pi.min() * sigma_t / (2 * K), c.p_comp / (c.alpha * N_c)
    assert c.eta == pytest.approx(min(bounds), rel=1e-9)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)  # p_comm balances them
    np.testing.assert_allclose(c.rho_comm, c.eta * K / (c.p_comm * pi * sigma_t), rtol=1e-12)
    assert c.rho_comm.max() <= 0.5 * (1 + 1e-12)
    assert c.rho_comm[pi.argmin()] == pytest.approx(0.5, rel=1e-9)
    rho_ij = c.rho_comp / (1 + c.importance * L / sigma_t)
    np.testing.assert_allclose(rho_ij, c.alpha * c.eta / (c.p_comp * p_ij), rtol=1e-9)
    assert (rho_ij <= (1 + 1e-9) / (1 + L / sigma_t)).all()
    assert c.rate <= c.paper_rate
    assert c.paper_rate == pytest.approx(c.eta * c.alpha / 2, rel=1e-15)


@given(n=st.integers(2, 40), K=st.integers(1, 8), sigma_t=st.floats(1e-4, 1e2), L_b=st.floats(1e-4, 1e4))
def test_uniform_visits_take_the_exact_mean(n: int, K: int, sigma_t: float, L_b: float) -> None:
    c = dual_descent(K, sigma_t, L_b, Sampling(n, n * (1 + L_b / sigma_t), 0.0), np.full(n, 1 / n))
    np.testing.assert_allclose(c.rho_comm, 0.5, rtol=1e-9)


def test_simple_walk_on_a_star() -> None:
    """The hub, visited every second jump, mixes 1/(n-1) times as strongly as a leaf."""
    case = setup(small_shards(n=6), TVR(tokens=2), graph="star")
    rho = case.constants.rho_comm
    np.testing.assert_allclose(case.facts.walk.stationary, [0.5, *[0.1] * 5], rtol=1e-12)
    np.testing.assert_allclose(rho[1:], 0.5, rtol=1e-9)
    assert rho[0] == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(("n", "m", "K"), [(5, 7, 1), (8, 3, 4), (12, 20, 12)])
def test_complexities(n: int, m: int, K: int) -> None:
    """Per factor e at the rate eta alpha / 2: 2 n kappa communications, 2 (m - 1 + kappa) computations a node."""
    sigma_t, L = 0.03, np.random.default_rng(0).uniform(0.1, 2.0, m)
    sampling = importance_sampling(n * m, n * L.sum(), sigma_t)
    c = dual_descent(K, sigma_t, L.sum(), sampling, np.full(n, 1 / n))
    kappa = 1 + L.sum() / sigma_t
    assert c.p_comm / c.paper_rate == pytest.approx(2 * n * kappa, rel=1e-12)
    assert c.p_comp / c.paper_rate / n == pytest.approx(2 * (m - 1 + kappa), rel=1e-12)
    assert c.paper_rate / c.rate == pytest.approx(3 / 2, rel=2 / kappa)


@given(c=st.sampled_from([1.0, 2.0]), kappa=st.floats(1.0, 1e12))
def test_convexity_ratio_is_the_smaller_root(c: float, kappa: float) -> None:
    r = convexity_ratio(c, kappa)
    assert abs(c * r * r - (c + 1) * kappa * r + kappa) <= 1e-12 * kappa
    other = kappa / (c * r)  # product of the roots
    assert r <= other * (1 + 1e-12)


def test_convexity_ratio_without_cancellation() -> None:
    """At kappa = 1e12 the textbook formula keeps four digits; series: r = 1/3 + 2/(27 kappa) + ..."""
    assert convexity_ratio(2, 1e12) == pytest.approx(1 / 3 + 2 / 27e12, rel=1e-15)
    assert math.isclose(convexity_ratio(1, 1e12), 0.5 + 1 / 8e12, rel_tol=1e-15)


@pytest.mark.parametrize("c", [1.0, 2.0])
@pytest.mark.parametrize(("n", "K", "m"), [(2, 1, 1), (4, 2, 3), (5, 5, 2)])
def test_strong_convexity_of_the_conceptual_graph(n: int, K: int, m: int, c: float) -> None:
    """r alpha is the exact constant when all nodes have the same samples, and a lower bound otherwise."""
    sigma_t, rng = 0.2, np.random.default_rng(1)
    equal = np.full((n, m), 1.7)
    kappa = 1 + m * 1.7 / sigma_t
    alpha = c * K / (sigma_t * kappa)
    assert strong_convexity(n, K, equal, sigma_t, alpha) == pytest.approx(convexity_ratio(c, kappa) * alpha, rel=1e-9)
    for _ in range(20):
        L = rng.lognormal(0.0, 1.0, (n, m))
        kappa = 1 + L.sum(axis=1).max() / sigma_t
        alpha = c * K / (sigma_t * kappa)
        exact = strong_convexity(n, K, L, sigma_t, alpha)
        assert exact >= convexity_ratio(c, kappa) * alpha * (1 - 1e-9)


def test_rate_of_a_method_is_covered_by_the_exact_constant() -> None:
    """The rate a user is told, eta r alpha, from the data of a problem with unequal nodes."""
    shards = small_shards(n=4, m=5, seed=7)
    case = setup(shards, TVR(tokens=2, smoothness="theory"), sigma=0.1)
    L = [0.25 * (A**2).sum(axis=1) / len(A) for A in shards.A]
    c = case.constants
    exact = strong_convexity(4, 2, [own[own > 0] for own in L], c.sigma_t, c.alpha)
    assert c.rate <= c.eta * exact * (1 + 1e-9)
    assert c.rate >= 0.5 * c.eta * exact


def test_token_has_one_function_per_node() -> None:
    """Token GD on the complete graph: N_c = n kappa, so p_comm = 1/2, rho_comm = 1/2 and rho_comp = 1 / kappa."""
    shards = small_shards(n=6, seed=8)
    c = setup(shards, Token(tokens=3), sigma=0.2).constants
    batch = max(np.linalg.eigvalsh(0.25 * A.T @ A / len(A))[-1] for A in shards.A)
    assert c.kappa == pytest.approx(1 + batch / (6 * 0.2 / 9), rel=1e-12)
    assert c.p_comm == pytest.approx(0.5, rel=1e-12)
    np.testing.assert_allclose(c.rho_comm, 0.5, rtol=1e-12)
    assert c.rho_comp == pytest.approx(1 / c.kappa, rel=1e-12)


def test_jumps_until_mixed() -> None:
    """auto: the smallest N with max |P^N - pi| <= mixing * pi_min, by powers of the transition matrix."""
    case = setup(small_shards(n=6), TVR(tokens=1, jumps="auto", mixing=0.25), graph="ring", kind="lazy")
    P = walk(build("ring", 6), "lazy").transition().toarray()
    N, power = 1, P
    while np.abs(power - 1 / 6).max() > 0.25 / 6:
        N, power = N + 1, power @ P
    assert N > 1
    assert case.schedule.law.jumps == N
