"""diging, agd, gt_saga and mc_sag: against their papers' formulas in plain numpy, and what their steps cost."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dtoken.algorithms.agd import AGD
from dtoken.algorithms.contract import Method
from dtoken.algorithms.diging import DIGing
from dtoken.algorithms.gd import GD
from dtoken.algorithms.gt_saga import GTSAGA
from dtoken.algorithms.mc_sag import MCSAG
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.schedule.clock import TimeModel, advance, charge, start_clock
from dtoken.schedule.events import LOCAL, VISIT
from dtoken.schedule.walks.contract import OwnWalk
from dtoken.schedule.walks.levy import Levy
from dtoken.schedule.walks.registry import make_walk
from dtoken.schedule.walks.rounds import Rounds
from dtoken.schedule.walks.self_repelling import SelfRepelling
from dtoken.theory.tracking import tracking_radius
from tests.algorithms.reference import slope
from tests.algorithms.test_rounds import (
    ALLREDUCE,
    LOSSES,
    SIGMA,
    gradients,
    inverse_step,
    laplacian,
    make,
    steps_of,
    whole_rounds,
)
from tests.engine.small import Setup, setup, solve

Floats = NDArray[np.float64]
GRAPHS = ("complete", "ring", "star")


def averaging(graph: str) -> Floats:
    """(I + W) / 2."""
    Lap = laplacian(graph)
    return np.eye(6) - Lap / (2 * np.linalg.eigvalsh(Lap)[-1])


def diging(case: Setup, graph: str, rounds: int) -> Floats:
    M, s, x = averaging(graph), 0.25 / inverse_step(case), np.zeros((6, 4))
    y = g = gradients(case, x)
    for _ in range(rounds):
        x = M @ x - s * y
        y, g = M @ y + gradients(case, x) - g, gradients(case, x)
    return x


def agd(case: Setup, graph: str, rounds: int) -> Floats:
    s, theta, y = 1 / inverse_step(case), np.zeros(4), np.zeros(4)
    beta = (np.sqrt(1 / (s * SIGMA)) - 1) / (np.sqrt(1 / (s * SIGMA)) + 1)
    for _ in range(rounds):
        before, theta = theta, y - s / 6 * gradients(case, np.tile(y, (6, 1))).sum(axis=0)
        y = theta + beta * (theta - before)
    return np.tile(theta, (6, 1))


FORMULAS: list[tuple[Method, Callable[[Setup, str, int], Floats]]] = [
    (DIGing(), diging),
    *((AGD(allreduce=kind), agd) for kind in ALLREDUCE),
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("method", "formula"), FORMULAS, ids=lambda value: getattr(value, "allreduce", None))
def test_rounds_follow_the_formulas(method: Method, formula: Callable[..., Floats], graph: str, loss: str) -> None:
    case = make(method, loss, graph)
    for rounds in (1, 2, 25):
        with case.engine() as engine:
            engine.run(whole_rounds(case, rounds))
            expected = formula(case, graph, rounds)
            np.testing.assert_allclose(
                engine.models(0.0).nodes, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max())
            )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_gt_saga_follows_the_formulas(graph: str, loss: str) -> None:
    case = make(GTSAGA(), loss, graph)
    rounds = 200
    events = whole_rounds(case, rounds)
    with case.engine() as engine:
        engine.run(events)
        drawn = [(i, j) for kind, i, j in steps_of(case, engine, events) if kind == "local"]
        expected = gt_saga(case, graph, np.array(drawn).reshape(rounds, 6, 2))
        np.testing.assert_allclose(engine.nodes.x, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


def gt_saga(case: Setup, graph: str, drawn: NDArray[np.int64]) -> Floats:
    A, labels, loss = case.shards.A, case.shards.y, case.problem.loss.name
    curvature = {"logistic": 0.25, "squared": 1.0, "smooth_hinge": 1.0}[loss]
    L_max = max((curvature * (A_i**2).sum(axis=1)).max() for A_i in A) + SIGMA
    M, s, x = averaging(graph), 1 / (3 * L_max), np.zeros((6, 4))
    table = [A_i * slope(loss, np.zeros(len(y_i)), y_i)[:, None] for A_i, y_i in zip(A, labels, strict=True)]
    y = v = np.array([rows.mean(axis=0) for rows in table])
    for round_ in drawn:
        x = M @ x - s * y
        new = np.empty_like(v)
        for i, j in round_:
            gradient = A[i][j] * slope(loss, A[i][j] @ x[i], labels[i][j])
            share = np.count_nonzero((A[i] ** 2).sum(axis=1)) / len(A[i])
            new[i] = share * (gradient - table[i][j]) + table[i].mean(axis=0) + SIGMA * x[i]
            table[i][j] = gradient
        y, v = M @ y + new - v, new
    return x


@pytest.mark.parametrize(("graph", "hitting"), [("complete", 6.0), ("ring", 9.0), ("path", 25.0)])
def test_mc_sag_follows_the_formulas(graph: str, hitting: float) -> None:
    """Hitting times: n of independent visits, (n / 2)^2 of an even ring, (n - 1)^2 of a path."""
    case = make(MCSAG(), graph=graph)
    events = case.events(500)
    assert (events.kind == VISIT).all()
    x, mean, g, s = np.zeros(4), np.zeros(4), np.zeros((6, 4)), 1 / (inverse_step(case) * hitting)
    for i in events.node:
        new = gradients(case, np.tile(x, (6, 1)))[i]
        mean, g[i] = mean + (new - g[i]) / 6, new
        x = x - s * mean
    with case.engine() as engine:
        engine.run(events)
        np.testing.assert_allclose(engine.tokens.x[0], x, rtol=0, atol=1e-12 * np.abs(x).max())


def test_hitting_times_are_those_of_first_visits() -> None:
    """By first-step equations, one target after the other, on a graph with a law that is not uniform."""
    star = walk(build("star", 7), "lazy")
    P = star.transition().toarray()
    longest = 0.0
    for target in range(7):
        others = [i for i in range(7) if i != target]
        times = np.linalg.solve(np.eye(6) - P[np.ix_(others, others)], np.ones(6))
        longest = max(longest, times.max())
    assert star.hitting_time == pytest.approx(longest, rel=1e-12)


def test_mc_sag_refuses_graphs_that_change() -> None:
    with pytest.raises(InputError, match=r"the hitting time of .*graph=time_varying.* is not known"):
        make(MCSAG(), graph="time_varying", period=2)


@pytest.mark.parametrize("law", [None, Levy(), SelfRepelling(), Rounds()])
def test_nothing_is_proved_of_sampled_gradients(law: OwnWalk | None) -> None:
    case = make(MCSAG(), graph="complete")
    ways = case.facts.walk if law is None else make_walk(build("complete", 6), law.name, None, law)
    promise = case.method.promise(case.constants, replace(case.facts, walk=ways))
    assert promise.basis.startswith("no rate: " if ways.remembers else "observed; ")
    assert (promise.rate is None) == ways.remembers
    tracking = make(GTSAGA(), graph="complete")
    assert tracking.method.promise(tracking.constants, tracking.facts).basis.startswith("observed; ")


@pytest.mark.parametrize("graph", GRAPHS)
def test_diging_is_as_fast_as_proved(graph: str) -> None:
    """The three errors, in the norm of the theorem: the last is below the bound of the matrix, round for round."""
    case = make(DIGing(step=0.002), graph=graph)
    promise = case.method.promise(case.constants, case.facts)
    assert promise.basis == "proved"
    assert promise.rate is not None
    best, errors = solve(case.shards, "logistic", SIGMA), []
    with case.engine() as engine:
        for _ in range(3):
            engine.run(whole_rounds(case, 4000))
            errors.append(float(np.square(engine.nodes.x - best).sum()))
    assert errors[2] / errors[1] <= (1 - promise.rate) ** 4000 * 1.01
    longer = make(DIGing(), graph=graph)
    assert longer.method.promise(longer.constants, longer.facts).rate is None


def test_the_matrix_of_gradient_tracking_bounds_its_errors() -> None:
    """For quadratics of three nodes, whose errors are known exactly."""
    rng = np.random.default_rng(0)
    M, H = np.full((3, 3), 0.25) + 0.25 * np.eye(3), rng.uniform(0.5, 1.0, 3)
    b, s, delta = rng.standard_normal(3), 0.02, 0.25
    best = b.sum() / H.sum()
    x = np.zeros(3)
    y = g = H * x - b
    G = np.array([[delta + s, 2 + s, s], [s, delta, 0], [0, s, 1 - s * 0.5]])  # L = 1, mu = 1/2
    for _ in range(50):
        e = np.array([np.std(y), np.std(x), abs(x.mean() - best)]) * np.sqrt(3)
        x = M @ x - s * y
        y, g = M @ y + (H * x - b) - g, H * x - b
        after = np.array([np.std(y), np.std(x), abs(x.mean() - best)]) * np.sqrt(3)
        assert (after <= G @ e + 1e-14).all()
    assert tracking_radius(s, 1.0, 0.5, delta) == pytest.approx(np.abs(np.linalg.eigvals(G)).max())


def test_agd_is_as_fast_as_proved_and_faster_than_gd() -> None:
    fast, slow = make(AGD()), make(GD())
    promise = fast.method.promise(fast.constants, fast.facts)
    best = solve(fast.shards, "logistic", SIGMA)
    bound = fast.method.bound(fast.constants, fast.facts, fast.problem, best)
    assert promise.basis == "proved"
    assert promise.rate is not None
    assert bound is not None
    gaps = []
    for case in (fast, slow):
        with case.engine() as engine:
            engine.run(whole_rounds(case, 60))
            gaps.append(case.problem.objective(engine.nodes.theta[0]) - case.problem.objective(best))
    assert gaps[0] <= bound * (1 - promise.rate) ** 60
    assert gaps[0] < gaps[1] / 10


def clock_of(case: Setup, rounds: int) -> Any:
    clock, model = start_clock(6, 6), TimeModel(tau_comp=2.0, tau_comm=100.0)
    charge(clock, case.method.start_gradients(case.facts), model)
    advance(clock, whole_rounds(case, rounds), case.method.costs(case.facts), model)
    return clock


def test_what_rounds_cost() -> None:
    """n = 6 nodes with m = 5 rows each, tau_comp = 2, tau_comm = 100; 2 |E| = 12 messages."""
    dense, sampled = (make(method, graph="ring", unequal=False) for method in (DIGing(), GTSAGA()))
    clock = clock_of(dense, 7)
    assert (clock.jumps, clock.gradients, clock.elapsed) == (7 * 12, 7 * 30, 7 * (10.0 + 100.0))
    clock = clock_of(sampled, 7)
    assert (clock.jumps, clock.gradients, clock.elapsed) == (7 * 12, 30 + 7 * 6, 10.0 + 7 * (2.0 + 100.0))


def test_draws_of_gt_saga_depend_on_seed_and_segment_only() -> None:
    from dtoken.schedule.stream import start_at

    case = make(GTSAGA(), graph="ring")
    segments = case.schedule.segments(start_at(np.arange(6)))
    first, second = next(segments), next(segments)
    again = next(case.schedule.segments(first[1]))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(second[0], again[0], strict=True))
    draws = [part[0].draw[part[0].kind == LOCAL] for part in (first, second)]
    assert (draws[0][: len(draws[1])] != draws[1]).any()
    other = setup(case.shards, GTSAGA(), sigma=SIGMA, graph="ring", seed=1)
    assert (next(other.schedule.segments(start_at(np.arange(6))))[0].draw != first[0].draw).any()


@pytest.mark.parametrize("method", [DIGing(), GTSAGA()])
def test_directed_graphs_are_refused(method: Method) -> None:
    with pytest.raises(InputError, match=f"{method.name} averages over neighbours in both directions"):
        make(method, graph="directed_cycle")


@pytest.mark.parametrize(
    ("make_method", "reason"),
    [
        (lambda: DIGing(step=0.5), "step=0.5 diverges"),
        (lambda: DIGing(step=-1.0), "must be positive"),
        (lambda: AGD(step=1.5), "at most 1"),
        (lambda: AGD(allreduce="tree"), "allreduce=tree is not known"),
        (lambda: GTSAGA(step=0.0), "must be positive"),
        (lambda: MCSAG(step=float("nan")), "must be positive"),
    ],
)
def test_settings_that_are_refused(make_method: Callable[[], Method], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_method()
