"""The rate that the theory promises (Hendrikx 2022, Theorem 1, with the strong convexity that can be proved)."""

from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from tests.algorithms.reference import Reference
from tests.algorithms.test_reference import METHODS, reference_of, written_out
from tests.engine.small import Setup, setup, small_shards, solve


def proved_rate(reference: Reference) -> float:
    """eta r alpha, r the smaller root of 2 r^2 - 3 kappa r + kappa."""
    return float(reference.eta * reference.alpha * min(np.roots([2, -3 * reference.kappa, reference.kappa]).real))


def expected_lyapunov(reference: Reference, best: Any) -> float:
    """E L after one step, by going through all steps that can come next."""
    total = probability = 0.0

    def after(p: float, kind: str, node: int, sample: int, token: int) -> None:
        nonlocal total, probability
        kept = reference.theta.copy(), reference.tokens.copy(), [z.copy() for z in reference.z], reference.x.copy()
        reference.happen(kind, node, sample, token)
        total += p * reference.lyapunov(best)
        probability += p
        reference.theta, reference.tokens, reference.z, reference.x = kept

    for i in range(reference.n):
        for k in range(reference.K):
            after(reference.p_comm * reference.pi[i] / reference.K, "visit", i, -1, k)
        if reference.method == "token":
            after(reference.p_comp * reference.p[i], "local", i, -1, -1)
        else:
            for j in np.flatnonzero(reference.L[i]):
                after(reference.p_comp * reference.p[i][j], "local", i, int(j), -1)
    assert probability == pytest.approx(1.0, abs=1e-12)
    return total


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_one_step_contracts_in_expectation(name: str, K: int, loss: str) -> None:
    """E L_{t+1} <= (1 - eta mu) L_t, the expectation taken exactly, at states along a run."""
    shards = small_shards(n=4, m=3, d=2, seed=4, classes=loss != "squared")
    case = setup(shards, METHODS[name](tokens=K, smoothness="theory"), loss=loss, sigma=0.05)
    reference, best = reference_of(case), solve(shards, loss, 0.05)
    rate = proved_rate(reference)
    assert case.constants.rate == pytest.approx(rate, rel=1e-9)
    with case.engine() as engine:
        for number, event in enumerate(written_out(engine, case.events(400))):
            if number % 40 == 0:
                now = reference.lyapunov(best)
                assert now > 0
                assert expected_lyapunov(reference, best) <= (1 - rate) * now
            reference.happen(*event)


def load(reference: Reference, case: Setup, engine: LocalEngine) -> Reference:
    """Put the state of an engine into the reference; of the dual variables only their sums at the vertices matter."""
    reference.theta, reference.tokens = engine.nodes.theta.copy(), engine.tokens.theta.copy()
    reference.z = np.split(engine.nodes.z.copy(), np.cumsum(case.shards.node_rows)[:-1])
    n, K, s = reference.n, reference.K, reference.sigma_t
    sums = s * reference.theta + np.array([reference.gradient(i) for i in range(n)])
    # one of the many x with these sums: all tokens alike, then moved between tokens at equal parts of all nodes
    reference.x = np.repeat(sums[:, None] / K, K, axis=1)
    reference.x -= (reference.x.sum(axis=0) + s * reference.tokens)[None] / n
    return reference


@pytest.mark.parametrize("sampling", ["uniform", "importance"])
def test_rate_holds_on_average_over_seeds(sampling: str) -> None:
    """Mean over seeds of L_t and of the squared distance, against (1 - eta mu)^t L_0 and what follows from it."""
    shards = small_shards(n=5, m=4, d=3, seed=5, classes=False)
    best = solve(shards, "squared", 0.1)
    cuts = (100, 400, 1000, 2000)
    method = TVR(start="zero", tokens=2, smoothness="theory", sampling=sampling)
    lyapunov, distance = np.zeros((40, len(cuts))), np.zeros((40, len(cuts)))
    for seed in range(40):
        case = setup(shards, method, loss="squared", sigma=0.1, seed=seed)
        reference, events = reference_of(case), case.events(cuts[-1])
        first, rate = reference.lyapunov(best), proved_rate(reference)
        with case.engine() as engine:
            for column, (start, stop) in enumerate(zip((0, *cuts[:-1]), cuts, strict=True)):
                engine.run(events.between(start, stop))
                lyapunov[seed, column] = load(reference, case, engine).lyapunov(best)
                models = np.concatenate([engine.nodes.theta, engine.tokens.theta])
                distance[seed, column] = np.sum((models - best) ** 2)
    bound = (1 - rate) ** np.array(cuts) * first
    assert (lyapunov.mean(axis=0) <= bound).all()
    assert (distance.mean(axis=0) <= 2 * reference.R_p() / (reference.sigma_t * reference.eta) * bound).all()
    late = np.log(lyapunov[:, 2].mean() / lyapunov[:, 3].mean()) / (cuts[3] - cuts[2])
    assert rate <= late <= 10 * rate  # the bound says something


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("method", [Token(tokens=2), TVR(tokens=2), TVR(tokens=4, sampling="uniform")], ids=repr)
def test_reaches_the_optimum(method: Any, loss: str) -> None:
    shards = small_shards(seed=6, classes=loss != "squared")
    case = setup(shards, method, loss=loss, sigma=0.2)
    best = solve(shards, loss, 0.2)
    with case.engine() as engine:
        engine.run(case.events(100_000))
        assert np.abs(engine.nodes.theta - best).max() <= 1e-10
        assert np.abs(engine.tokens.theta - best).max() <= 1e-10
