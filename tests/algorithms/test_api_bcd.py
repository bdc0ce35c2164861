"""api_bcd against its formulas in plain numpy, where it goes, and how fast."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import root

from dtoken.algorithms.api_bcd import APIBCD
from dtoken.errors import InputError
from tests.algorithms.reference import slope
from tests.algorithms.test_rounds import LOSSES, SIGMA, gradients, inverse_step, make
from tests.engine.small import Setup, solve

Floats = NDArray[np.float64]


def second(loss: str, t: Floats, y: Floats) -> Floats:
    """phi''."""
    margin = y * t
    if loss == "logistic":
        return 1 / ((1 + np.exp(margin)) * (1 + np.exp(-margin)))
    return np.ones(len(t)) if loss == "squared" else ((margin > 0) & (margin < 1)).astype(float)


def prox(case: Setup, i: int, pull: float, centre: Floats) -> Floats:
    """argmin F_i + pull / 2 ||. - centre||^2, by dense Newton steps."""
    A, y, loss = case.shards.A[i], case.shards.y[i], case.problem.loss.name
    x = centre.copy()
    for _ in range(60):
        gradient = A.T @ slope(loss, A @ x, y) / len(y) + SIGMA * x + pull * (x - centre)
        H = A.T @ (second(loss, A @ x, y)[:, None] * A) / len(y) + (SIGMA + pull) * np.eye(len(x))
        x = x - np.linalg.solve(H, gradient)
    return x


def transcription(case: Setup, events: Any, K: int, penalty: float, proximal: bool) -> tuple[Floats, Floats]:
    """The formulas of the module, as they stand there."""
    w, n, d = inverse_step(case), case.shards.n, case.shards.d
    tau = penalty * w / K
    x, x_k, z_k, z = np.zeros((n, d)), np.zeros((n, K, d)), np.zeros((n, K, d)), np.zeros((K, d))
    for i, k in zip(events.node, events.token, strict=True):
        z_k[i, k] = z[k]
        if proximal:
            x[i] = prox(case, i, K * tau, z_k[i].mean(axis=0))
        else:
            x[i] = (tau * z_k[i].sum(axis=0) + w * x[i] - gradients(case, x)[i]) / (K * tau + w)
        z[k] = z[k] + (x[i] - x_k[i, k]) / n
        x_k[i, k], z_k[i, k] = x[i], z[k]
        np.testing.assert_allclose(z[k], x_k[:, k].mean(axis=0), rtol=0, atol=1e-13)
    return x, z


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("mode", ["proximal", "gradient"])
def test_follows_the_formulas(mode: str, K: int, loss: str) -> None:
    case = make(APIBCD(tokens=K, penalty=2.0, mode=mode), loss, "ring")
    events = case.events(300)
    x, z = transcription(case, events, K, 2.0, mode == "proximal")
    with case.engine() as engine:
        engine.run(events)
        np.testing.assert_allclose(engine.nodes.x, x, rtol=0, atol=1e-12 * np.abs(x).max())
        np.testing.assert_allclose(engine.tokens.z, z, rtol=0, atol=1e-12 * np.abs(x).max())


def limit(case: Setup, pull: float) -> Floats:
    """The minimiser of the sum of the Moreau envelopes, whose gradients are pull (z - prox_i(z))."""
    n, d = case.shards.n, case.shards.d
    found = root(lambda z: sum(pull * (z - prox(case, i, pull, z)) for i in range(n)), np.zeros(d), tol=1e-13)
    z: Floats = found.x
    return z


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("mode", "K"), [("proximal", 1), ("proximal", 3), ("gradient", 3)])
def test_goes_to_the_minimiser_of_the_envelopes_and_not_to_the_optimum(mode: str, K: int, loss: str) -> None:
    case = make(APIBCD(tokens=K, mode=mode), loss, "star")
    best, end = solve(case.shards, loss, SIGMA), limit(case, inverse_step(case))
    with case.engine() as engine:
        engine.run(case.events(20_000))
        assert np.abs(engine.tokens.z - end).max() <= 1e-10
        apart = np.array([prox(case, i, inverse_step(case), end) for i in range(case.shards.n)])
        assert np.abs(engine.nodes.x - apart).max() <= 1e-10
    assert np.abs(end - best).max() > 1e-3


def test_larger_penalties_end_nearer_to_the_optimum() -> None:
    case = make(APIBCD())
    best, w = solve(case.shards, "logistic", SIGMA), inverse_step(case)
    far = [np.linalg.norm(limit(case, penalty * w) - best) for penalty in (1.0, 10.0, 100.0)]
    assert far[0] > 5 * far[1] > 25 * far[2] > 0


@pytest.mark.parametrize("mode", ["proximal", "gradient"])
def test_is_as_fast_as_proved(mode: str) -> None:
    """Whenever all tokens were twice at every node, the largest error has shrunk by the factor."""
    case = make(APIBCD(tokens=2, mode=mode), graph="ring")
    end, c = limit(case, inverse_step(case)), case.constants
    apart = np.array([prox(case, i, c.pull, end) for i in range(6)])
    events, visits, begin, errors = case.events(3000), np.zeros((6, 2)), 0, []
    with case.engine() as engine:

        def error() -> float:
            nodes, tokens = engine.nodes, engine.tokens
            of_nodes = np.abs(np.linalg.norm(nodes.x - apart, axis=-1)).max()
            given = np.linalg.norm(nodes.given - apart[:, None], axis=-1).max()
            known = np.linalg.norm(np.vstack([tokens.z, *nodes.seen]) - end, axis=-1).max()
            return float(max(of_nodes, given, known))

        errors.append(error())
        for number, (i, k) in enumerate(zip(events.node, events.token, strict=True), 1):
            visits[i, k] += 1
            if visits.min() >= 2:
                engine.run(events.between(begin, number))
                errors.append(error())
                visits[:], begin = 0, number
    assert len(errors) > 10
    for before, after in itertools.pairwise(errors):
        assert after <= c.q * before + 1e-12


def test_says_where_it_goes() -> None:
    case = make(APIBCD(tokens=2))
    assert case.method.promise(case.constants, case.facts).rate is None
    assert "not to the optimum" in case.method.notes(case.constants, case.facts)[-1]


@pytest.mark.parametrize(
    ("make_method", "reason"),
    [
        (lambda: APIBCD(penalty=0.0), "penalty=0.0 must be positive"),
        (lambda: APIBCD(penalty=float("inf")), "penalty=inf must be positive"),
        (lambda: APIBCD(mode="newton"), "mode=newton is not known"),
        (lambda: APIBCD(inner=0), "at least one Newton step"),
        (lambda: APIBCD(tokens=0), "at least one"),
    ],
)
def test_settings_that_are_refused(make_method: Callable[[], APIBCD], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_method()
