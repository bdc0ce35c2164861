"""walkman against its formulas in plain numpy, and the choice of beta."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import root

from dtoken.algorithms.walkman import Walkman
from dtoken.engine.loop.experiment import prepare
from dtoken.engine.loop.run import Outcome, run
from dtoken.engine.loop.settings import Recording, Stop
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel, advance, start_clock
from tests.algorithms.reference import CURVATURE, slope
from tests.engine.small import Setup, setup, small_shards, solve

Floats = NDArray[np.float64]
SIGMA = 0.1


def make(method: Walkman, loss: str = "logistic", graph: str = "complete", **settings: Any) -> Setup:
    shards = small_shards(n=5, m=5, d=3, seed=8, classes=loss != "squared")
    return setup(shards, method, loss=loss, sigma=SIGMA, graph=graph, **settings)


def gradient(case: Setup, i: int, y: Floats) -> Floats:
    """grad F_i(y)."""
    A, labels = case.shards.A[i], case.shards.y[i]
    return A.T @ slope(case.problem.loss.name, A @ y, labels) / len(labels) + SIGMA * y


def curvature(case: Setup) -> float:
    """L_b + sigma."""
    c = CURVATURE[case.problem.loss.name]
    return max(np.linalg.eigvalsh(c * A.T @ A / len(A))[-1] for A in case.shards.A) + SIGMA


def transcription(case: Setup, nodes: NDArray[Any], beta: float, proximal: bool) -> tuple[Floats, Floats, Floats]:
    n, d = case.shards.n, case.shards.d
    x, y, z = np.zeros(d), np.zeros((n, d)), np.zeros((n, d))
    for i in nodes:
        if proximal:
            centre = x + z[i] / beta
            found = root(lambda v, i=i, centre=centre: gradient(case, i, v) + beta * (v - centre), y[i], tol=1e-14)
            y_new = found.x
        else:
            y_new = x + (z[i] - gradient(case, i, y[i])) / beta
        z_new = z[i] + beta * (x - y_new)
        x = x + ((y_new - z_new / beta) - (y[i] - z[i] / beta)) / n
        y[i], z[i] = y_new, z_new
    return x, y, z


@pytest.mark.parametrize("beta", ["safe", "paper", 3.5])
@pytest.mark.parametrize("loss", ["logistic", "squared", "smooth_hinge"])
@pytest.mark.parametrize(("mode", "tolerance"), [("gradient", 1e-12), ("proximal", 1e-10)])
def test_follows_the_formulas(mode: str, tolerance: float, loss: str, beta: float | str) -> None:
    case = make(Walkman(mode=mode, beta=beta), loss, "ring")
    factors: dict[Any, float] = {"safe": 2 * curvature(case), "paper": curvature(case)}
    assert case.constants.beta == pytest.approx(factors.get(beta, beta), rel=1e-11)
    events = case.events(60)
    x, y, z = transcription(case, events.node, case.constants.beta, mode == "proximal")
    with case.engine() as engine:
        engine.run(events)
        for mine, theirs in ((engine.tokens.x[0], x), (engine.nodes.y, y), (engine.nodes.z, z)):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("mode", ["gradient", "proximal"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_reaches_the_optimum(mode: str, loss: str) -> None:
    case = make(Walkman(mode=mode), loss)
    with case.engine() as engine:
        engine.run(case.events(12_000))
        models = engine.models(0.0)
        best = solve(case.shards, loss, SIGMA)
        assert np.abs(models.tokens - best).max() <= 1e-10
        assert np.abs(models.nodes - best).max() <= 1e-10


def test_is_sequential() -> None:
    """Each visit adds tau_comm + m tau_comp, whatever the rule."""
    case = make(Walkman())
    events = case.events(50)
    for rule in ("paper", "token_clock"):
        clock = start_clock(5, 1)
        advance(clock, events, case.method.costs(case.facts), TimeModel(tau_comp=2.0, tau_comm=30.0, rule=rule))
        gradients = int(sum(case.facts.rows[node] for node in events.node))
        assert clock.elapsed == 50 * 30.0 + 2.0 * gradients
        assert (clock.jumps, clock.gradients) == (50, gradients)


@pytest.mark.parametrize(("factor", "stable"), [(2.2, True), (1.8, False)])
def test_threshold_of_beta(factor: float, stable: bool) -> None:
    """With x held still a direction of curvature H is stable only if beta > 2 H; many nodes hold x nearly still."""
    shards = small_shards(n=40, m=1, d=1, classes=False, unequal=False, empty=False)
    H = max(float(A[0, 0] ** 2) for A in shards.A) + 1e-6
    case = setup(shards, Walkman(beta=factor * H), loss="squared", sigma=1e-6)
    with case.engine() as engine:
        engine.run(case.events(20_000))
        size = np.abs(engine.nodes.y).max()
        assert (size < 1e3) == stable


def test_unstable_choices_are_announced() -> None:
    def notes(method: Walkman) -> tuple[str, ...]:
        case = make(method)
        return case.method.notes(case.constants, case.facts)

    (note,) = notes(Walkman(beta="paper"))
    assert "stable only where beta > 2 H" in note
    assert "algorithm.beta=safe" in note
    assert len(notes(Walkman(beta=0.5))) == 1
    assert notes(Walkman()) == notes(Walkman(beta=1e3)) == ()
    assert notes(Walkman(mode="proximal", beta="paper")) == ()


def outcome(method: Walkman) -> Outcome:
    shards = small_shards(n=5, m=5, d=3, seed=8)
    problem = FiniteSum(shards, get_loss("logistic"), SIGMA)
    experiment = prepare(problem, method, walk(build("complete", 5)), TimeModel(), 0)
    with setup(shards, method, sigma=SIGMA).engine() as engine:
        return run(experiment, engine, Stop(passes=50.0), Recording(1.0))


def test_inner_solve_that_fails_ends_the_run() -> None:
    found = outcome(Walkman(mode="proximal", beta=1e-6, inner=1))
    assert found.failure is not None
    assert "inner solve of walkman did not converge in 1 Newton steps at node" in found.failure
    assert len(found.records) == 2  # the trajectory until there is kept
    assert outcome(Walkman(mode="proximal")).failure is None


@pytest.mark.parametrize(
    ("make_method", "reason"),
    [
        (lambda: Walkman(beta=0.0), "beta=0.0 must be positive"),
        (lambda: Walkman(beta=-1.0), "beta=-1.0 must be positive"),
        (lambda: Walkman(beta="big"), "beta=big is not known; use one of safe, paper, a positive number"),
        (lambda: Walkman(mode="newton"), "mode=newton is not known; use one of gradient, proximal"),
        (lambda: Walkman(inner=0), "inner=0"),
    ],
)
def test_settings_that_are_refused(make_method: Callable[[], Walkman], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_method()
