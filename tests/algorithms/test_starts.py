"""Where runs start: margins, slopes and models against plain numpy, the invariant, and what is counted."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from dtoken.algorithms import METHODS, method_class
from dtoken.algorithms.contract import Method, Origin
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import prepare
from dtoken.engine.loop.run import run
from dtoken.engine.loop.settings import Recording, Stop
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.events import LOCAL
from tests.algorithms.reference import slope
from tests.algorithms.test_reference import reference_of, written_out
from tests.contract.test_invariants import INVARIANTS
from tests.contract.test_methods import LOGISTIC, REGRESSION
from tests.engine.small import Setup, setup

Floats = NDArray[np.float64]
STARTING = [name for name in METHODS if "start" in {field.name for field in dataclasses.fields(method_class(name))}]
PAIRED = ("tavr", "adfs")  # states are pairs, and a start from zero is from slopes of 0
WITHOUT_TOKENS = ("dvr", "adfs")  # there the models of the nodes stand in for those of tokens
STARTS: list[dict[str, Any]] = [
    {"start": "zero"},
    {"start": "labels"},
    {"start": "labels", "start_margin": -0.7},
    {"start": "local"},
]


def make(name: str, loss: str = "logistic", **settings: Any) -> Setup:
    tokens = {"tokens": 2} if "tokens" in {field.name for field in dataclasses.fields(method_class(name))} else {}
    method = method_class(name)(**tokens, **settings)
    return setup(LOGISTIC if loss == "logistic" else REGRESSION, method, loss=loss, sigma=0.2)


def regulariser(case: Setup) -> float:
    """sigma~, by which nodes divide."""
    n, K = case.shards.n, getattr(case.method, "tokens", 0)
    return n * 0.2 / (n + K)


def expected_margins(case: Setup, loss: str) -> list[Floats]:
    """z_ij of each node; of the local pass by a bracketing root finder, row after row."""
    method: Any = case.method
    if method.start != "local":
        return [{"zero": 0.0, "labels": method.start_margin}[method.start] * y for y in case.shards.y]
    found, s = [], regulariser(case)
    for A, y in zip(case.shards.A, case.shards.y, strict=True):
        theta, z = np.zeros(A.shape[1]), np.zeros(len(y))
        for j, a in enumerate(A):

            def h(u: float, a: Floats = a, label: float = y[j], theta: Floats = theta, m: int = len(y)) -> float:
                return float(u - a @ theta + a @ a / s * slope(loss, u, label) / m)

            z[j] = brentq(h, -500.0, 500.0, xtol=1e-14, rtol=1e-14)
            theta = theta - slope(loss, z[j], y[j]) / len(y) * a / s
            assert a @ theta == pytest.approx(z[j] if a.any() else 0.0, abs=1e-9)
        found.append(z)
    return found


def test_the_methods_with_margins_have_a_start() -> None:
    assert set(STARTING) == {"token", "tvr", "tavr", "dvr", "adfs"}


def test_methods_that_gain_by_a_local_pass_make_one_unless_told() -> None:
    """By the table of docs/algorithms.md; the paper's curves say themselves where they start."""
    defaults: dict[str, Any] = {name: method_class(name)() for name in STARTING}
    assert {name: method.start for name, method in defaults.items()} == {
        "token": "zero",
        "tvr": "local",
        "tavr": "local",
        "dvr": "local",
        "adfs": "local",
    }


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("start", STARTS, ids=lambda start: "-".join(map(str, start.values())))
@pytest.mark.parametrize("name", STARTING)
def test_nodes_begin_where_their_margins_put_them(name: str, start: dict[str, Any], loss: str) -> None:
    case = make(name, loss, **start)
    s, z = regulariser(case), expected_margins(case, loss)
    g = [slope(loss, t, y) / len(y) for t, y in zip(z, case.shards.y, strict=True)]
    if name in PAIRED and start["start"] == "zero":
        g = [np.zeros_like(each) for each in g]
    theta = [-A.T @ each / s for A, each in zip(case.shards.A, g, strict=True)]
    with case.engine() as engine:
        models = engine.models(0.0)
        np.testing.assert_allclose(models.nodes, theta, rtol=1e-9, atol=1e-11)
        if name not in WITHOUT_TOKENS:
            assert not models.tokens.any()
        found = engine.nodes.sample[:, 1] if name in PAIRED else engine.nodes.g
        np.testing.assert_allclose(found, np.concatenate(g), rtol=1e-9, atol=1e-12)
        if name in PAIRED:
            assert np.array_equal(engine.nodes.sample[:, 0], engine.nodes.sample[:, 1])
        elif start["start"] != "local":
            assert np.array_equal(engine.margins(), np.concatenate(z))


@pytest.mark.parametrize("start", STARTS[1:], ids=lambda start: "-".join(map(str, start.values())))
@pytest.mark.parametrize("name", STARTING)
def test_keeps_its_invariant_from_any_start(name: str, start: dict[str, Any]) -> None:
    case = make(name, **start)
    events = case.events(2000 if name != "dvr" else 0)
    if name == "adfs":  # until after a local step, so not inside an exchange
        events = events.between(0, int(np.flatnonzero(events.kind == LOCAL)[-1]) + 1)
    with case.engine() as engine:
        for stretch in (events.between(0, 0), events):
            engine.run(stretch)
            terms = INVARIANTS[name](case, engine)
            scale = max(np.abs(term).max() for term in terms)
            assert scale > 1e-3
            assert np.abs(sum(terms)).max() <= 1e-12 * scale


def test_token_and_tvr_go_on_from_the_start_as_the_paper_says() -> None:
    case = make("tvr", start="local")
    reference, events = reference_of(case), case.events(800)
    reference.z = expected_margins(case, "logistic")
    reference.theta = np.array([-reference.gradient(i) / reference.sigma_t for i in range(reference.n)])
    with case.engine() as engine:
        for event in written_out(engine, events):
            reference.happen(*event)
        engine.run(events)
        np.testing.assert_allclose(engine.models(0.0).nodes, reference.theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(engine.models(0.0).tokens, reference.tokens, rtol=1e-8, atol=1e-10)


def first_record(method: Method) -> Any:
    problem = FiniteSum(LOGISTIC, get_loss("logistic"), 0.2)
    experiment = prepare(problem, method, walk(build("complete", problem.n)), TimeModel(tau_comp=3.0), 7)
    with LocalEngine(method, experiment.constants, LOGISTIC, problem.loss) as engine:
        return run(experiment, engine, Stop(events=1), Recording()).records[0]


@pytest.mark.parametrize("name", STARTING)
def test_a_local_pass_is_counted(name: str) -> None:
    rows, largest = sum(LOGISTIC.node_rows), max(LOGISTIC.node_rows)
    record = first_record(method_class(name)(start="local"))
    assert (record.event, record.jumps, record.gradients, record.passes) == (0, 0, rows, 1.0)
    assert record.time == 3.0 * largest
    assert record.wall > 0
    record = first_record(method_class(name)(start="labels"))
    assert (record.gradients, record.passes, record.time, record.wall) == (0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", STARTING)
def test_begins_at_what_is_handed_over(name: str) -> None:
    case, rng = make(name, start="warm", start_from=Path("earlier")), np.random.default_rng(5)
    n, d, K = case.shards.n, case.shards.d, len(case.method.token_start(case.shards.n))
    origin = Origin(
        rng.standard_normal((n, d)), rng.standard_normal((K, d)), rng.standard_normal(sum(LOGISTIC.node_rows))
    )
    g = [
        slope("logistic", t, y) / len(y)
        for t, y in zip(np.split(origin.margins, np.cumsum(LOGISTIC.node_rows)[:-1]), LOGISTIC.y, strict=True)
    ]
    with LocalEngine(case.method, case.constants, LOGISTIC, case.problem.loss, origin=origin) as engine:
        models = engine.models(0.0)
        np.testing.assert_allclose(models.nodes, origin.nodes, rtol=1e-15)
        np.testing.assert_allclose(models.tokens, origin.nodes if name in WITHOUT_TOKENS else origin.tokens, rtol=1e-15)
        assert np.array_equal(engine.margins(), origin.margins)
        slopes = engine.nodes.sample[:, :2].T if name in PAIRED else engine.nodes.g
        np.testing.assert_allclose(slopes, np.broadcast_to(np.concatenate(g), slopes.shape), rtol=1e-13)


def test_labels_of_squared_loss_with_margin_one_are_slopes_of_zero() -> None:
    with make("tvr", "squared", start="labels", start_margin=1.0).engine() as engine:
        assert not engine.nodes.theta.any()
        assert not engine.nodes.g.any()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"start": "cold"}, r"algorithm\.start=cold is not known; use one of zero, labels, local, warm"),
        ({"start_margin": 3.0}, r"algorithm\.start_margin=3 belongs to algorithm\.start=labels, not to (zero|local)$"),
        ({"start": "labels", "start_margin": float("nan")}, r"algorithm\.start_margin=nan must be a finite number"),
        ({"start": "labels", "start_margin": float("inf")}, r"algorithm\.start_margin=inf must be a finite number"),
        ({"start": "warm"}, r"algorithm\.start=warm goes on from an earlier run; give its directory"),
        (
            {"start": "local", "start_from": Path("x")},
            r"algorithm\.start_from=x belongs to algorithm\.start=warm, not ",
        ),
    ],
)
def test_starts_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    for kind in (TVR, Token):
        with pytest.raises(InputError, match=said):
            kind(**settings)
