"""token and tvr against a plain transcription of the paper's algorithms that is fed the same events."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from dtoken.problem.optimum import optimum
from dtoken.schedule.events import KINDS, Events
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import Reference
from tests.engine.small import Setup, setup, small_shards

GRAPHS: dict[str, dict[str, Any]] = {
    "complete": {"graph": "complete"},
    "ring": {"graph": "ring"},
    "grid": {"graph": "grid", "kind": "metropolis"},
    "star": {"graph": "star"},
    "directed_cycle": {"graph": "directed_cycle"},
    "directed_random": {"graph": "directed_random", "degree": 2},
    "time_varying": {"graph": "time_varying", "period": 3, "hold": 2},
}
METHODS = {
    "token": lambda **settings: Token(**settings),
    "tvr-uniform": lambda **settings: TVR(start="zero", sampling="uniform", **settings),
    "tvr-importance": lambda **settings: TVR(start="zero", sampling="importance", **settings),
    "tvr-permuted": lambda **settings: TVR(start="zero", sampling="permuted", bucket_rows=2, **settings),
}


def written_out(engine: LocalEngine, events: Events) -> list[tuple[str, int, int, int]]:
    """(kind, node, sample, token) of every event."""
    found = []
    for kind, node, token, draw in zip(events.kind, events.node, events.token, events.draw, strict=True):
        row = row_of(engine.samples(), engine.rows.first, node, draw) if KINDS[kind] == "local" else -1
        sample = row - engine.rows.first[node] if row >= 0 else -1
        found.append((KINDS[kind], int(node), int(sample), int(token)))
    return found


def reference_of(case: Setup) -> Reference:
    method = case.method
    name = "token" if isinstance(method, Token) else "tvr"
    sampling = getattr(method, "sampling", "")
    return Reference(
        case.shards.A,
        case.shards.y,
        case.problem.loss.name,
        case.problem.sigma,
        method.tokens,
        case.facts.walk.stationary,
        name,
        sampling,
        method.smoothness,
        method.factor,
    )


def assert_same(engine: LocalEngine, reference: Reference) -> None:
    """Nodes, tokens and slopes agree to 1e-12 relative."""
    for mine, theirs in (
        (engine.nodes.theta, reference.theta),
        (engine.tokens.theta, reference.tokens),
        (engine.nodes.z, np.concatenate([reference.margins(i) for i in range(reference.n)])),
        (engine.nodes.g, np.concatenate([reference.g(i) for i in range(reference.n)])),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max(initial=1e-3))


LOSSES = ("logistic", "squared", "smooth_hinge")
CASES = [
    # the last three take turns, so that every value of each meets every graph, every method and every K
    (graph, method, K, LOSSES[(turn + turn // 3) % 3], (1, 3)[turn % 2], (1, 2, 4)[(turn // 2) % 3])
    for turn, (graph, method, K) in enumerate(product(GRAPHS, METHODS, (1, 2, 4)))
]


@pytest.mark.parametrize(("graph", "name", "K", "loss", "jumps", "threads"), CASES)
def test_replay_agrees(graph: str, name: str, K: int, loss: str, jumps: int, threads: int) -> None:
    shards = small_shards(classes=loss != "squared")
    assert len(set(shards.node_rows)) > 1
    assert any((A == 0).all(axis=1).any() for A in shards.A)
    case = setup(shards, METHODS[name](tokens=K, jumps=jumps), loss=loss, seed=K, **GRAPHS[graph])
    events, reference = case.events(1500), reference_of(case)
    with case.engine(threads) as engine:
        assert_same(engine, reference)
        for start in range(0, events.size, 500):
            stretch = events.between(start, start + 500)
            engine.run(stretch)
            for event in written_out(engine, stretch):
                reference.happen(*event)
            assert_same(engine, reference)


@pytest.mark.parametrize("smoothness", ["theory", "batch", "factor"])
@pytest.mark.parametrize("name", METHODS)
def test_every_rule_of_smoothness(name: str, smoothness: str) -> None:
    method = METHODS[name](tokens=2, smoothness=smoothness, factor=0.3)
    case = setup(small_shards(seed=1), method, loss="logistic", graph="ring")
    events, reference = case.events(1000), reference_of(case)
    c = case.constants
    for mine, theirs in (
        (c.sigma_t, reference.sigma_t),
        (c.kappa, reference.kappa),
        (c.alpha, reference.alpha),
        (c.p_comm, reference.p_comm),
        (c.p_comp, reference.p_comp),
        (c.eta, reference.eta),
    ):
        assert mine == pytest.approx(theirs, rel=1e-12)
    with case.engine(2) as engine:
        engine.run(events)
        for event in written_out(engine, events):
            reference.happen(*event)
        assert_same(engine, reference)


def test_replay_agrees_on_a_store(make_store: Any, random_rows: Any) -> None:
    """The same through a partition into unequal shards on disk."""
    source = random_rows(rows=45)
    store = make_store(source, nodes=5, sizes="unequal", seed=3)
    case = setup(store, TVR(start="zero", tokens=2), graph="ring")
    dense = np.split(source.matrix.toarray(), np.cumsum(store.node_rows)[:-1])
    labels = np.split(source.y, np.cumsum(store.node_rows)[:-1])
    reference = Reference(dense, labels, "logistic", case.problem.sigma, 2, np.full(5, 0.2), "tvr", smoothness="batch")
    events = case.events(1500)
    with case.engine(2) as engine:
        engine.run(events)
        for event in written_out(engine, events):
            reference.happen(*event)
        assert_same(engine, reference)


@pytest.mark.parametrize("graph", ["complete", "ring", "directed_cycle", "time_varying"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("loss", ["logistic", "squared", "smooth_hinge"])
def test_invariant_at_every_cut(name: str, graph: str, loss: str) -> None:
    """sigma~ (sum of nodes and tokens) + sum g a = 0 up to rounding, wherever the run is cut."""
    shards = small_shards(seed=2, classes=loss != "squared")
    case = setup(shards, METHODS[name](tokens=3), loss=loss, sigma=1e-3, **GRAPHS[graph])
    matrix, events = np.concatenate(shards.A), case.events(3000)
    sigma_t = 8 * 1e-3 / 11
    with case.engine(2) as engine:
        cuts = [0, 1, 2, 3, 10, 11, 50, *range(100, 3001, 100)]
        for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
            engine.run(events.between(start, stop))
            total = sigma_t * (engine.nodes.theta.sum(axis=0) + engine.tokens.theta.sum(axis=0))
            scale = sigma_t * np.abs(engine.nodes.theta).sum()
            assert np.abs(total + matrix.T @ engine.nodes.g).max() <= 1e-13 * scale


DESCENTS = [
    (graph, method, LOSSES[turn % 3])
    for turn, (graph, method) in enumerate(
        product(["complete", "ring", "directed_cycle", "directed_random", "time_varying"], METHODS)
    )
]


@pytest.mark.parametrize(("graph", "name", "loss"), [*DESCENTS, *((g, m, "squared") for g, m, _ in DESCENTS[:3])])
def test_dual_objective_never_increases(graph: str, name: str, loss: str) -> None:
    """Every single step descends, on any walk, towards minus the optimal value; theta is A lambda / sigma~."""
    shards = small_shards(n=6, m=4, d=3, seed=3, classes=loss != "squared")
    case = setup(shards, METHODS[name](tokens=2), loss=loss, sigma=0.01, **GRAPHS[graph])
    events, reference = case.events(500), reference_of(case)
    values = [reference.dual_objective()]
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            reference.happen(*event)
            values.append(reference.dual_objective())
    rounding = 1e-13 * max(1.0, values[0])
    assert np.diff(values).max() <= rounding
    assert values[-1] >= -optimum(case.problem).objective - rounding  # duality
    sums = reference.x.sum(axis=1) - np.array([reference.gradient(i) for i in range(6)])
    np.testing.assert_allclose(engine.nodes.theta, sums / reference.sigma_t, rtol=0, atol=1e-9)
    np.testing.assert_allclose(engine.tokens.theta, -reference.x.sum(axis=0) / reference.sigma_t, rtol=0, atol=1e-9)
