"""gd, extra, nids and dvr: against their papers' formulas in plain numpy, and what their rounds cost."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from dtoken.algorithms.contract import Method
from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.gd import GD
from dtoken.algorithms.nids import NIDS
from dtoken.errors import InputError
from dtoken.schedule.clock import RULES, Clock, TimeModel, advance, start_clock
from dtoken.schedule.events import DELIVER, KINDS, LOAD, LOCAL, Events
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import CURVATURE, slope
from tests.engine.small import Setup, setup, small_shards, solve

Floats = NDArray[np.float64]
SIGMA = 0.1
ALLREDUCE = ("all_to_all", "ring", "centralized")
NETWORKS: dict[str, Any] = {
    "complete": nx.complete_graph(6),
    "ring": nx.cycle_graph(6),
    "path": nx.path_graph(6),
    "star": nx.star_graph(5),
}
LOSSES = ("logistic", "squared", "smooth_hinge")


def make(
    method: Method, loss: str = "logistic", graph: str = "complete", unequal: bool = True, **settings: Any
) -> Setup:
    shards = small_shards(n=6, m=5, d=4, seed=5, classes=loss != "squared", unequal=unequal)
    return setup(shards, method, loss=loss, sigma=SIGMA, graph=graph, **settings)


def gradients(case: Setup, x: Floats) -> Floats:
    """grad F_i(x_i) of every node."""
    return np.array(
        [
            A.T @ slope(case.problem.loss.name, A @ x_i, y) / len(y) + SIGMA * x_i
            for A, y, x_i in zip(case.shards.A, case.shards.y, x, strict=True)
        ]
    )


def inverse_step(case: Setup) -> float:
    """L_b + sigma."""
    c = CURVATURE[case.problem.loss.name]
    return max(np.linalg.eigvalsh(c * A.T @ A / len(A))[-1] for A in case.shards.A) + SIGMA


def laplacian(graph: str) -> Floats:
    return nx.laplacian_matrix(NETWORKS[graph]).toarray().astype(float)


def gd(case: Setup, graph: str, rounds: int) -> Floats:
    theta, s, n = np.zeros(4), 1 / inverse_step(case), 6
    for _ in range(rounds):
        theta = theta - s / n * gradients(case, np.tile(theta, (n, 1))).sum(axis=0)
    return np.tile(theta, (n, 1))


def extra(case: Setup, graph: str, rounds: int) -> Floats:
    Lap = laplacian(graph)
    W, s = np.eye(6) - Lap / np.linalg.eigvalsh(Lap)[-1], 1 / inverse_step(case)
    before = np.zeros((6, 4))
    x = W @ before - s * gradients(case, before)
    for _ in range(rounds - 1):
        before, x = x, (np.eye(6) + W) / 2 @ (2 * x - before) - s * (gradients(case, x) - gradients(case, before))
    return x


def nids(case: Setup, graph: str, rounds: int) -> Floats:
    Lap = laplacian(graph)
    W, s = np.eye(6) - Lap / np.linalg.eigvalsh(Lap)[-1], 1 / inverse_step(case)
    before = np.zeros((6, 4))
    x = before - s * gradients(case, before)
    for _ in range(rounds):
        change = 2 * x - before - s * (gradients(case, x) - gradients(case, before))
        before, x = x, (np.eye(6) + W) / 2 @ change
    return x


FORMULAS: list[tuple[Method, Callable[[Setup, str, int], Floats]]] = [
    *((GD(allreduce=kind), gd) for kind in ALLREDUCE),
    (EXTRA(), extra),
    (NIDS(), nids),
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("graph", NETWORKS)
@pytest.mark.parametrize(("method", "formula"), FORMULAS, ids=lambda value: getattr(value, "allreduce", None))
def test_follows_the_formulas(method: Method, formula: Callable[..., Floats], graph: str, loss: str) -> None:
    case = make(method, loss, graph)
    for rounds in (1, 2, 25):
        with case.engine() as engine:
            engine.run(whole_rounds(case, rounds))
            expected = formula(case, graph, rounds)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(engine.models(0.0).nodes, expected, rtol=0, atol=1e-12 * scale)


def whole_rounds(case: Setup, count: int) -> Events:
    """The events of the first rounds."""
    return case.events(count * case.schedule.pattern.size)


@pytest.mark.parametrize("kind", ALLREDUCE)
def test_copies_of_gd_never_differ(kind: str) -> None:
    case = make(GD(allreduce=kind))
    with case.engine(2) as engine:
        engine.run(whole_rounds(case, 40))
        theta = engine.nodes.theta
        assert (theta == theta[0]).all()


@pytest.mark.parametrize("graph", NETWORKS)
@pytest.mark.parametrize("sampling", ["importance", "uniform"])
def test_dvr_follows_the_formulas(graph: str, sampling: str) -> None:
    case = make(DVR(start="zero", sampling=sampling), "logistic", graph)
    events = whole_steps(case.events(4000))
    with case.engine() as engine:
        engine.run(events)
        theta, z = dvr(case, graph, sampling, steps_of(case, engine, events))
        np.testing.assert_allclose(engine.nodes.theta, theta, rtol=0, atol=1e-12 * np.abs(theta).max())
        np.testing.assert_allclose(engine.nodes.z, np.concatenate(z), rtol=0, atol=1e-12)


def whole_steps(events: Events) -> Events:
    """Events of DVR until the end of a local step of all nodes."""
    return events.between(0, int(np.flatnonzero((events.kind == LOCAL) & (events.node == 5))[-1]) + 1)


def steps_of(case: Setup, engine: Any, events: Events) -> list[tuple[str, int, int]]:
    """(exchange, -1, -1) for every round of messages, (local, node, sample) for every local step."""
    found = []
    for kind, node, draw in zip(events.kind, events.node, events.draw, strict=True):
        if kind == LOCAL:
            row = row_of(engine.samples(), engine.rows.first, node, draw)
            found.append(("local", int(node), int(row - engine.rows.first[node])))
        elif kind == LOAD and node == 0:
            found.append(("exchange", -1, -1))
    return found


def dvr(case: Setup, graph: str, sampling: str, steps: list[tuple[str, int, int]]) -> tuple[Floats, list[Floats]]:
    A, y, Lap = case.shards.A, case.shards.y, laplacian(graph)
    eigenvalues = np.linalg.eigvalsh(Lap)
    L = [0.25 * (A_i**2).sum(axis=1) / len(A_i) for A_i in A]
    kappa = inverse_step(case) / SIGMA
    alpha = 2 * eigenvalues[1] / (SIGMA * kappa)
    used = [L_i > 0 for L_i in L]
    if sampling == "importance":
        p = [(1 + L_i / SIGMA) / np.sum((1 + L_i / SIGMA)[u]) for L_i, u in zip(L, used, strict=True)]
        N_c = max(np.sum((1 + L_i / SIGMA)[u]) for L_i, u in zip(L, used, strict=True))
    else:
        p = [np.full(len(L_i), 1 / u.sum()) for L_i, u in zip(L, used, strict=True)]
        N_c = max(u.sum() * (1 + L_i.max() / SIGMA) for L_i, u in zip(L, used, strict=True))
    ratio = kappa / (2 * eigenvalues[1] / eigenvalues[-1] * N_c)
    p_comm, p_comp = ratio / (1 + ratio), 1 / (1 + ratio)
    eta = min(p_comm * SIGMA / eigenvalues[-1], p_comp / (alpha * N_c))

    def g(i: int, j: int) -> float:
        return float(slope("logistic", z[i][j], y[i][j]) / len(y[i]))

    z = [np.zeros(len(y_i)) for y_i in y]
    theta = np.array([-sum(g(i, j) * A[i][j] for j in range(len(y[i]))) / SIGMA for i in range(6)])
    for kind, i, j in steps:
        if kind == "exchange":
            theta = theta - eta / (p_comm * SIGMA) * Lap @ theta
        else:
            before, rho = g(i, j), alpha * eta / (p_comp * p[i][j])
            z[i][j] = (1 - rho) * z[i][j] + rho * (A[i][j] @ theta[i])
            theta[i] = theta[i] - (g(i, j) - before) * A[i][j] / SIGMA
    return theta, z


@pytest.mark.parametrize(
    "method", [GD(allreduce="ring"), GD(allreduce="centralized"), NIDS(step=1.9), DVR(), DVR(sampling="uniform")]
)
def test_other_settings_reach_the_optimum(method: Method) -> None:
    case = make(method, graph="ring")
    best = solve(case.shards, "logistic", SIGMA)
    with case.engine() as engine:
        engine.run(case.events(200_000))
        assert np.abs(engine.models(0.0).nodes - best).max() <= 1e-10


def test_dvr_balances_communication_and_computation() -> None:
    """The smaller the spectral gap, the more exchanges; both bounds on eta are met with equality."""
    p_comm = [make(DVR(), graph=graph).constants.p_comm for graph in ("complete", "ring", "path")]
    assert p_comm == sorted(p_comm)
    case = make(DVR(), graph="ring")
    c, eigenvalues = case.constants, np.linalg.eigvalsh(laplacian("ring"))
    assert c.rho_comm * eigenvalues[-1] == pytest.approx(1)
    assert c.gap == pytest.approx(eigenvalues[1] / eigenvalues[-1])
    steps = case.events(100_000)
    exchanges = np.count_nonzero((steps.kind == LOAD) & (steps.node == 0))
    locals_ = np.count_nonzero((steps.kind == LOCAL) & (steps.node == 0))
    share = exchanges / (exchanges + locals_)
    assert share == pytest.approx(c.p_comm, abs=5 * np.sqrt(c.p_comm * c.p_comp / (exchanges + locals_)))


def clock_after(case: Setup, events: Events, **settings: Any) -> Clock:
    clock = start_clock(6, len(case.method.token_start(6)))
    advance(clock, events, case.method.costs(case.facts), TimeModel(**settings))
    return clock


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("method", "graph", "jumps", "time"),
    [
        (GD(), "ring", 6 * 5, 5 * 2.0 + 100.0),
        (GD(allreduce="ring"), "complete", 2 * 6, 5 * 2.0 + 2 * 6 * 100.0),
        (GD(allreduce="centralized"), "complete", 2 * 6, 5 * 2.0 + 2 * 100.0),
        (EXTRA(), "ring", 2 * 6, 5 * 2.0 + 100.0),
        (EXTRA(), "path", 2 * 5, 5 * 2.0 + 100.0),
        (NIDS(), "complete", 6 * 5, 5 * 2.0 + 100.0),
    ],
)
def test_what_a_round_costs(method: Method, graph: str, jumps: int, time: float, rule: Any) -> None:
    """n = 6 nodes with m = 5 rows each, tau_comp = 2, tau_comm = 100."""
    case = make(method, graph=graph, unequal=False)
    clock = clock_after(case, whole_rounds(case, 7), tau_comp=2.0, tau_comm=100.0, rule=rule)
    assert clock.jumps == 7 * jumps
    assert clock.gradients == 7 * 6 * 5
    if getattr(method, "allreduce", "") == "ring" and rule == "token_clock":
        assert clock.elapsed < 7 * time  # nodes compute while the token hands out the sum to others
    else:
        assert clock.elapsed == 7 * time
    own = 2 if getattr(method, "allreduce", "") == "centralized" else 0  # the server's messages with itself
    assert clock.messages == 7 * (jumps - own)


def test_rounds_wait_for_the_slowest_node() -> None:
    case = make(EXTRA(), graph="complete", unequal=True)
    rows = max(case.shards.node_rows)
    assert rows > min(case.shards.node_rows)
    assert clock_after(case, whole_rounds(case, 3), tau_comp=1.0, tau_comm=10.0).elapsed == 3 * (rows + 10.0)


def test_dvr_costs() -> None:
    """An exchange takes tau_comm and two messages an edge, a local step tau_comp and a gradient at every node."""
    case = make(DVR(), graph="ring")
    events = whole_steps(case.events(5000))
    exchanges, locals_ = (np.count_nonzero((events.kind == kind) & (events.node == 0)) for kind in (LOAD, LOCAL))
    clock = clock_after(case, events, tau_comp=2.0, tau_comm=100.0)
    assert clock.jumps == clock.messages == exchanges * 12 == np.count_nonzero(events.kind == DELIVER)
    assert clock.gradients == locals_ * 6
    assert clock.elapsed == exchanges * 100.0 + locals_ * 2.0


@pytest.mark.parametrize("method", [*(GD(allreduce=kind) for kind in ALLREDUCE), EXTRA(), NIDS(), DVR()])
def test_equal_bits_for_any_number_of_threads(method: Method) -> None:
    case = make(method, graph="ring")
    events, found = case.events(3001), []
    for threads in (1, 2, 4):
        with case.engine(threads) as engine:
            engine.run(events.between(0, 1234))
            engine.run(events.between(1234, 3001))
            found.append([array.tobytes() for array in engine.part().arrays.values()])
    assert found[0] == found[1] == found[2]


def test_segments_of_dvr_depend_on_seed_and_number_only() -> None:
    case, other = make(DVR(), graph="ring"), make(DVR(), graph="ring", seed=1)
    segments = case.schedule.segments(start(case))
    first, second = next(segments), next(segments)
    again = next(case.schedule.segments(first[1]))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(second[0], again[0], strict=True))
    different = next(other.schedule.segments(start(other)))[0]
    assert first[0].size != different.size or (first[0].draw != different.draw).any()


def start(case: Setup) -> Any:
    from dtoken.schedule.stream import start_at

    return start_at(case.method.token_start(6))


def test_kinds_of_events() -> None:
    assert {KINDS[kind] for kind in whole_rounds(make(GD()), 1).kind} == {"load", "deliver", "local"}
    assert {KINDS[kind] for kind in whole_rounds(make(GD(allreduce="ring")), 1).kind} == {"visit", "local"}


@pytest.mark.parametrize("method", [EXTRA(), NIDS(), DVR()])
@pytest.mark.parametrize(
    ("graph", "settings", "reason"),
    [
        ("directed_cycle", {}, "both directions, but graph=directed_cycle nodes=6 is directed"),
        ("time_varying", {"period": 2}, "needs a graph that does not change"),
    ],
)
def test_graphs_that_are_refused(method: Method, graph: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make(method, graph=graph, **settings)


def test_gd_works_on_any_graph_and_says_that_it_does_not_use_it() -> None:
    case = make(GD(), graph="directed_cycle")
    (note,) = case.method.notes(case.constants, case.facts)
    assert "gd does not use graph=directed_cycle nodes=6" in note
    on_complete = make(GD())
    assert on_complete.method.notes(on_complete.constants, on_complete.facts) == ()


@pytest.mark.parametrize(
    ("make_method", "reason"),
    [
        (lambda: GD(allreduce="tree"), "allreduce=tree is not known; use one of all_to_all, ring, centralized"),
        (lambda: GD(step=2.0), "diverges"),
        (lambda: EXTRA(step=0.0), "must be positive"),
        (lambda: NIDS(step=2.0), "below 2"),
        (lambda: DVR(sampling="other"), "sampling=other is not known"),
    ],
)
def test_settings_that_are_refused(make_method: Callable[[], Method], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_method()


def test_dvr_refuses_nodes_without_data() -> None:
    shards = small_shards(n=3, m=4, d=3)
    shards = replace(shards, A=[shards.A[0], np.zeros_like(shards.A[1]), shards.A[2]])
    with pytest.raises(InputError, match="node 1 has only empty rows"):
        setup(shards, DVR())
