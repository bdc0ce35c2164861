"""Steps to a relative error of 1e-8 against kappa: as kappa for tvr, its root for tavr; units do not matter."""

import numpy as np
import pytest

from dtoken.algorithms.contract import Method
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.schedule.events import MOVE
from dtoken.schedule.stream import start_at
from tests.engine.small import InMemory, setup, solve

SIGMAS = (3e-3, 1e-3, 3e-4, 1e-4)
N, M, D = 8, 20, 20


def unit_rows() -> InMemory:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N, M, D))
    A /= np.linalg.norm(A, axis=2, keepdims=True)
    y = np.sign(A @ rng.standard_normal(D) + 0.1 * rng.standard_normal((N, M)))
    return InMemory(list(A), list(y))


def steps_to(method: Method, sigma: float, accuracy: float) -> tuple[float, int, int]:
    """kappa_s, and steps and jumps until all models are so near to the optimum, relative to its size, found to 2 %."""
    shards = unit_rows()
    case = setup(shards, method, sigma=sigma)
    best = solve(shards, "logistic", sigma)
    done = jumps = 0
    with case.engine() as engine:
        for events, _ in case.schedule.segments(start_at(method.token_start(N))):
            position = 0
            while position < events.size:
                stretch = events.between(position, min(events.size, position + max(200, done // 50)))
                engine.run(stretch)
                position += stretch.size
                done += int(np.count_nonzero(stretch.kind != MOVE))
                jumps += int(np.count_nonzero(stretch.token >= 0))
                models = engine.models(float(stretch.at[-1]))
                errors = np.linalg.norm(np.concatenate([models.nodes, models.tokens]) - best, axis=1)
                if errors.max() <= accuracy * np.linalg.norm(best):
                    return case.constants.kappa, done, jumps
    raise AssertionError("the schedule has an end")


@pytest.mark.parametrize(
    ("method", "slope"),
    [
        (TVR(smoothness="theory"), 0.97),
        (TAVR(smoothness="theory"), 0.44),
        (TAVR(smoothness="theory", continuized=True), 0.44),
    ],
)
def test_slopes(method: Method, slope: float) -> None:
    kappa, steps, jumps = np.log(np.array([steps_to(method, sigma, 1e-8) for sigma in SIGMAS])).T
    assert np.polyfit(kappa, steps, 1)[0] == pytest.approx(slope, abs=0.05)
    assert np.polyfit(kappa, jumps, 1)[0] == pytest.approx(slope, abs=0.07)


@pytest.mark.parametrize("method", [Token(tokens=2), TVR(tokens=2), TAVR(tokens=2)])
@pytest.mark.parametrize("power", [-20, 20])
def test_the_unit_of_features_does_not_matter(method: Method, power: int) -> None:
    """With features times 2^p and sigma times 4^p, theta is divided by 2^p, which is exact in float64."""
    shards, unit = unit_rows(), 2.0**power
    scaled = InMemory([unit * A for A in shards.A], shards.y)
    models = []
    for data, sigma in ((shards, 1e-3), (scaled, 1e-3 * unit**2)):
        case = setup(data, method, sigma=sigma)
        events = case.events(5000)
        with case.engine() as engine:
            engine.run(events)
            models.append(engine.models(float(events.at[-1])))
    np.testing.assert_allclose(unit * models[1].nodes, models[0].nodes, rtol=1e-12)
    np.testing.assert_allclose(unit * models[1].tokens, models[0].tokens, rtol=1e-12)
