"""The accountant against optimisation, simulation, and closed forms on the ring and the complete graph."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dtoken.errors import InputError
from dtoken.theory.privacy import Privacy, epsilon, losses, published_formula


def best_allocation(shift: np.ndarray, step: np.ndarray) -> float:
    """min sum a_t^2 / step_t^2 with sums of a_t that never exceed those of the shifts, by a general solver."""
    total = np.cumsum(shift)
    found = minimize(
        lambda a: np.sum((a / step) ** 2),
        shift,
        jac=lambda a: 2 * a / step**2,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda a: (total - np.cumsum(a))[:-1], "jac": lambda a: -np.tri(len(a))[:-1]},
            {"type": "eq", "fun": lambda a: np.sum(a) - total[-1], "jac": lambda a: np.ones(len(a))},
        ],
        bounds=[(0, None)] * len(shift),
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return float(found.fun)


@pytest.mark.parametrize("seed", range(4))
def test_losses_are_the_best_that_amplification_by_iteration_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, T = 3, 14
    nodes, steps = rng.integers(n, size=T).astype(np.int32), 1 / np.sqrt(1 + np.arange(T))
    found = losses(nodes, steps, n, noise=2.0).pairwise
    for u, v in ((u, v) for u in range(n) for v in range(n) if u != v):
        ends = [*np.flatnonzero(nodes == v), T]
        starts, expected = [0, *(end + 1 for end in ends[:-1])], 0.0
        for start, end in zip(starts, ends, strict=True):
            step = steps[start:end]
            shift = step * (nodes[start:end] == u)
            if shift.any():
                expected += best_allocation(shift, step)
        assert found[u, v] == pytest.approx(2 / 4 * expected, rel=1e-5)


def test_losses_cover_what_is_seen_if_gradients_do_not_depend_on_the_model() -> None:
    """Then what v sees is Gaussian, with a divergence in closed form; equal where u comes once between sights of v."""
    rng = np.random.default_rng(7)
    nodes, n, noise = rng.integers(5, size=4000).astype(np.int32), 5, 3.0
    found = losses(nodes, np.ones(4000), n, noise, published=False).pairwise
    times = np.flatnonzero(nodes == 1)
    exact = np.zeros(n)
    for start, end in zip([-1, *times[:-1]], times, strict=True):
        between = np.bincount(nodes[start + 1 : end], minlength=n)
        exact += between**2 * 2 / noise**2 / max(1, end - start - 1)
    others = np.arange(n) != 1
    assert (found[others, 1] >= exact[others] - 1e-9).all()
    # and never more than if everything was seen
    assert (found[others, 1] <= losses(nodes, np.ones(4000), n, noise).local[others]).all()


def test_ring_in_closed_form() -> None:
    """A token that goes round and round: v sees u's step after as many noises as it is away (Cyffers, Bellet 2022)."""
    n, rounds, noise = 7, 30, 1.5
    found = losses(np.tile(np.arange(n), rounds).astype(np.int32), np.full(n * rounds, 0.1), n, noise, published=False)
    for u in range(n):
        for v in range(n):
            if u != v:
                times = rounds if v > u else rounds - 1
                assert found.pairwise[u, v] == pytest.approx(2 / noise**2 * times / ((v - u) % n), abs=1e-10)


def test_complete_graph_in_closed_form() -> None:
    """One visit of u, then independent nodes until v: the mean of 1 / d is ln(n) / (n - 1)."""
    n = 6
    rng = np.random.default_rng(0)
    total, walks = 0.0, 4000
    for _ in range(walks):
        path = [0, *(1 + rng.integers(n, size=200) % (n - 1) * 0 + rng.integers(n, size=200))]
        nodes = np.array([path[0], *(1 if node == 1 else 2 for node in path[1:])], np.int32)
        total += losses(nodes, np.ones(201), 3, 1.0, published=False).pairwise[0, 1]
    assert total / walks == pytest.approx(2 * np.log(n) / (n - 1), rel=0.05)


def simple_ring(n: int) -> np.ndarray:
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[i, (i - 1) % n] = 0.5
    return W


def test_published_formula_in_closed_form_on_complete_graph_and_ring() -> None:
    T, noise, n = 300, 2.0, 9
    harmonic = np.sum(1 / np.arange(1, T + 1))
    whole = published_formula(np.full((n, n), 1 / n), T, noise)
    np.testing.assert_allclose(whole, 4 / noise**2 * T / n * harmonic / n, atol=1e-10)
    ring = published_formula(simple_ring(n), T, noise)
    d, modes = np.arange(1, T + 1), np.cos(2 * np.pi * np.arange(n) / n)
    for away in range(n):
        waves = np.cos(2 * np.pi * np.arange(n) * away / n)
        closed = np.sum(waves[:, None] * modes[:, None] ** d / d) / n
        assert ring[0, away] == pytest.approx(4 / noise**2 * T / n * closed, abs=1e-10)


def test_published_formula_is_its_logarithm_of_a_matrix() -> None:
    n, T = 7, 4000
    W = 0.5 * np.eye(n) + 0.5 * simple_ring(n)
    values, vectors = np.linalg.eigh(np.eye(n) - W + 1 / n)
    logarithm = (vectors * np.log(values)) @ vectors.T
    expected = 4 * T / n * (np.sum(1 / np.arange(1, T + 1)) / n - logarithm)
    np.testing.assert_allclose(published_formula(W, T, 1.0), expected, rtol=1e-10)


def test_published_formula_by_simulation() -> None:
    n, T, walks = 5, 40, 4000
    W, rng = simple_ring(n), np.random.default_rng(3)
    steps = rng.choice([-1, 1], size=(walks, T + T))
    paths = (rng.integers(n, size=walks)[:, None] + np.cumsum(steps, axis=1)) % n
    total = np.zeros(n)
    for t in range(T):
        at = paths[:, t] == 0
        for d in range(1, T + 1):
            total += np.bincount(paths[at, t + d], minlength=n) / d
    np.testing.assert_allclose(4 * total / walks, published_formula(W, T, 1.0)[0], rtol=0.03)


def test_epsilon_is_the_best_over_all_orders() -> None:
    rho, delta = 0.7, 1e-6
    orders = 1 + np.geomspace(1e-3, 1e3, 200_000)
    best = np.min(orders * rho + np.log(1 / delta) / (orders - 1))
    assert float(epsilon(np.array(rho), delta)) == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"noise": 1.0}, "hides nothing if gradients are of any length; give privacy.clip"),
        ({"clip": 0.0}, "privacy.clip=0.0"),
        ({"clip": 1.0, "noise": -1.0}, "privacy.noise=-1.0"),
        ({"delta": 1.0}, "privacy.delta=1.0"),
    ],
)
def test_bad_input_is_one_sentence(keys: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Privacy(**keys)
