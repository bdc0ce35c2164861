"""Predictions: closed forms of the paper (corrected), and against what runs really take."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.contract import Method
from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.gd import GD
from dtoken.algorithms.nids import NIDS
from dtoken.algorithms.registry import METHODS, method_class
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.algorithms.walkman import Walkman
from dtoken.engine.loop.prediction import Expected, Prediction, predict, theory_table
from dtoken.schedule.clock import Costs, TimeModel, advance, start_clock
from dtoken.schedule.events import DELIVER
from dtoken.schedule.stream import Law
from tests.engine.small import InMemory, Setup, setup, small_shards, solve

N, M, D = 6, 8, 4


def equal_nodes() -> InMemory:
    """All nodes have the same rows, of norm 1: every L_ij is the same."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, D))
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = np.where(rng.standard_normal(M) > 0, 1.0, -1.0)
    return InMemory([A] * N, [y] * N)


@dataclass(frozen=True)
class Planned:
    """A prepared run without optimum."""

    case: Setup
    bound: None = None
    timed: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.case, name)

    @property
    def law(self) -> Law:
        return self.case.method.law(self.case.constants, self.case.facts)

    @property
    def costs(self) -> Costs:
        return self.case.method.costs(self.case.facts)


def planned(method: Method, shards: Any = None, sigma: float = 0.01, **graph: Any) -> Planned:
    return Planned(setup(shards or equal_nodes(), method, sigma=sigma, **graph))


@pytest.mark.parametrize(("start", "before"), [("zero", 0.0), ("local", 1.0)])
@pytest.mark.parametrize("method", [TVR, TAVR, Token, DVR])
def test_costs_to_an_accuracy_contain_the_pass_of_the_start(method: Any, start: str, before: float) -> None:
    found = predict(planned(method(start=start)))
    assert found.rate is not None
    steps = math.log(1e4) / -math.log1p(-found.rate)
    taken, more = found.costs_to(1e-4, 1.0), found.costs(1e4)
    assert taken is not None
    assert more is not None
    assert taken["steps"] == more["steps"] == pytest.approx(steps)
    assert taken["jumps"] == pytest.approx(steps * found.expected.jumps)
    assert taken["gradients"] == pytest.approx(N * M * before + steps * found.expected.gradients)
    assert taken["passes"] == pytest.approx(before + steps * found.expected.gradients / (N * M))


@pytest.mark.parametrize("K", [1, 3])
def test_tvr(K: int) -> None:
    """2 n kappa_s communications, 2 (m - 1 + kappa_s) computations a node, at the paper's rate; 3/2 of it proved."""
    run = planned(TVR(tokens=K, smoothness="theory"))
    kappa_s = 1 + 0.25 / (N * 0.01 / (N + K))
    found = predict(run)
    assert found.paper_rate is not None
    unit = 1 / found.paper_rate  # steps per factor e for small rates
    assert found.expected.jumps * unit == pytest.approx(2 * N * kappa_s)
    assert found.expected.gradients * unit / N == pytest.approx(2 * (M - 1 + kappa_s))
    assert found.rate is not None
    assert found.paper_rate / found.rate == pytest.approx(1.5, rel=0.03)
    assert found.basis == "proved"


def test_token() -> None:
    """2 n kappa communications, 2 kappa full gradients a node."""
    run = planned(Token(smoothness="theory"))
    found, kappa = predict(run), run.constants.kappa
    assert found.paper_rate is not None
    assert found.expected.jumps / found.paper_rate == pytest.approx(2 * N * kappa)
    assert found.expected.gradients / found.paper_rate / N == pytest.approx(2 * kappa * M)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("sigma", [1e-2, 1e-4])
def test_tavr(K: int, sigma: float) -> None:
    """About 2 sqrt(n (n + K - 1) kappa_s) communications, at most sqrt(2) (m + sqrt(m kappa_s)) computations a node."""
    run = planned(TAVR(tokens=K, smoothness="theory"), sigma=sigma)
    kappa_s = 1 + 0.25 / (N * sigma / (N + K))
    found = predict(run)
    assert found.rate is not None
    assert found.expected.jumps / found.rate == pytest.approx(2 * math.sqrt(N * (N + K - 1) * kappa_s), rel=0.02)
    assert found.expected.gradients / found.rate / N <= math.sqrt(2) * (M + math.sqrt(M * kappa_s))
    assert found.expected.gradients / found.rate / N >= M
    assert found.basis == "proved"


def test_gd() -> None:
    """The squared error falls by (1 - s sigma)^2 a round: kappa / 2 rounds per factor e."""
    found = predict(planned(GD()))
    kappa = planned(GD()).constants.kappa
    assert found.step == "round"
    assert found.rate == pytest.approx(1 - (1 - 1 / kappa) ** 2)
    assert found.expected[1:] == (N * (N - 1), N * M)
    costs = found.costs()
    assert costs is not None
    assert costs["passes"] == pytest.approx(kappa / 2, rel=0.05)


CASES = [
    (Token(tokens=2), {}),
    (TVR(tokens=2), {}),
    (TVR(tokens=2, compute="on_arrival"), {"graph": "star"}),
    (TVR(tokens=2, interactions_anywhere=0.2), {}),
    (TVR(tokens=3, interactions=0.5), {}),
    (TVR(jumps=3), {"graph": "ring", "kind": "lazy"}),
    (TAVR(tokens=2), {}),
    (TAVR(continuized=True), {"graph": "ring", "kind": "lazy"}),
    (Walkman(), {"graph": "star"}),
    (GD(allreduce="ring"), {}),
    (GD(allreduce="centralized"), {}),
    (EXTRA(), {"graph": "ring"}),
    (NIDS(), {"graph": "path"}),
    (DVR(), {"graph": "ring"}),
]


@pytest.mark.parametrize(("method", "graph"), CASES)
def test_expected_costs_are_those_of_the_schedule(method: Method, graph: dict[str, Any]) -> None:
    run = planned(method, small_shards(n=N, m=M, d=D), 0.05, **graph)
    expected = predict(run).expected
    events = run.case.events(200_000)
    clock = start_clock(N, len(method.token_start(N)))
    advance(clock, events, run.costs, TimeModel())
    per_event = np.array([expected.jumps, expected.gradients]) / expected.events
    np.testing.assert_allclose([clock.jumps / clock.events, clock.gradients / clock.events], per_event, rtol=0.05)


@pytest.mark.parametrize(("method", "graph"), [case for case in CASES if not isinstance(case[0], Walkman)])
def test_runs_are_not_slower_than_predicted(method: Method, graph: dict[str, Any]) -> None:
    """The error falls at least as fast as its rate says, from where the start is forgotten until rounding begins."""
    shards = small_shards(n=N, m=M, d=D, unequal=False)
    run = planned(method, shards, 0.02, **graph)
    found, best = predict(run), solve(shards, "logistic", 0.02)
    assert found.rate is not None
    per_event = found.rate / found.expected.events
    events = run.case.events(min(400_000, round(30 / per_event)))
    errors, done = [], []
    with run.case.engine() as engine:
        for start, stop in pairwise(np.linspace(0, events.size, 61).astype(int).tolist()):
            engine.run(events.between(start, stop))
            models = engine.models(float(events.at[stop - 1]))
            errors.append(float(np.mean(np.sum((models.tokens - best) ** 2, axis=1))))
            done.append(stop)
    useful = (np.array(errors) > 1e-26) & (np.arange(60) >= 3)
    slope = np.polyfit(np.array(done)[useful], np.log(np.array(errors)[useful]), 1)[0]
    assert -slope >= 0.95 * per_event


@pytest.mark.parametrize("method", [EXTRA(), NIDS(), DVR()], ids=["extra", "nids", "dvr"])
@pytest.mark.parametrize(("graph", "edges"), [("ring", N), ("star", N - 1), ("complete", N * (N - 1) // 2)])
def test_an_exchange_is_a_message_along_each_edge_in_each_direction(method: Method, graph: str, edges: int) -> None:
    """In the table, in the counters of a run, and in the events themselves."""
    run = planned(method, small_shards(n=N, m=M, d=D), 0.05, graph=graph)
    assert theory_table(run)["messages an exchange"] == 2 * edges
    events, clock = run.case.events(20_000), start_clock(N, N)
    advance(clock, events, run.costs, TimeModel())
    sent = events.kind == DELIVER
    pairs = Counter(zip(events.source[sent].tolist(), events.node[sent].tolist(), strict=True))
    assert len(pairs) == 2 * edges
    assert all(i != j and (j, i) in pairs for i, j in pairs)
    assert clock.messages == clock.jumps == sum(pairs.values())
    assert max(pairs.values()) - min(pairs.values()) <= 1  # the events may end within a round


def test_meetings() -> None:
    """On a ring of 20 nodes, tokens are 5 hops apart in the mean; at one node they meet for nothing, and unproved."""
    shards = small_shards(n=20, m=4, d=3)
    anywhere = planned(TVR(tokens=20, interactions_anywhere=0.1), shards, 0.05, graph="ring", kind="lazy")
    table = theory_table(anywhere)
    assert table["meetings a step"] == 0.1
    assert table["jumps a meeting"] == pytest.approx(2 * 5)
    here = planned(TVR(tokens=20, interactions=0.1), shards, 0.05)
    table, p_comm = theory_table(here), here.constants.p_comm
    assert table["jumps a meeting"] == 0
    assert table["meetings a step"] == pytest.approx(0.1 * p_comm * (1 - 0.95**19))
    assert str(table["basis"]).startswith("not proved with interactions")
    assert "meetings a step" not in theory_table(planned(TVR(tokens=20), shards, 0.05))


def test_words() -> None:
    lazy = {"graph": "ring", "kind": "lazy"}
    assert predict(planned(TVR(), **lazy)).basis.startswith(
        "observed: visits of this walk are not independent; stability"
    )
    assert predict(planned(TVR(jumps="auto"), **lazy)).basis.startswith("observed: visits are nearly independent")
    assert predict(planned(TVR(jumps="proved"), **lazy)).basis.startswith("proved, with half the rate")
    assert predict(planned(TVR(), graph="directed_cycle")).basis.startswith("no rate: visits of this walk are not")
    assert predict(planned(TAVR(jumps=2), **lazy)).basis.startswith(
        "no rate: visits of this walk are not independent; "
    )
    assert predict(planned(TAVR(), **lazy)).basis.startswith("observed: visits are nearly independent")
    assert "heuristic" in predict(planned(TVR(smoothness="factor"))).basis
    assert predict(planned(EXTRA())).basis.startswith("observed")
    assert predict(planned(Walkman())).rate is None


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_table(name: str) -> None:
    run = planned(method_class(name)(), graph="ring", kind="lazy")
    table = theory_table(run, gap=2.0, accuracies=(1e-3, 5.0))
    found = predict(run)
    assert table["spectral gap of the walk"] == pytest.approx((1 - math.cos(2 * math.pi / N)) / 2)
    assert table["smallest stationary probability"] == table["largest stationary probability"] == pytest.approx(1 / N)
    assert table["basis"] == found.basis
    assert table["jumps a step"] == found.expected.jumps
    if name not in ("sdca", "gt_saga"):  # whose steps are exact, or go by single rows
        assert table["L_b"] == pytest.approx(run.facts.batch_L().max())
    if found.rate is None:
        assert not any("contraction" in quantity for quantity in table)
        return
    assert table["contraction a step"] == found.rate
    per_e = -1 / math.log1p(-found.rate) * found.expected.jumps
    assert table["jumps per factor e"] == pytest.approx(per_e)
    assert table["jumps to 0.001"] == pytest.approx(per_e * math.log(2000))
    assert not any("to 5" in quantity for quantity in table)  # reached before the start


def test_a_range_where_nodes_differ() -> None:
    assert " to " in str(theory_table(planned(TVR(), graph="star"))["rho_comm"])


def test_costs_scale_with_the_logarithm() -> None:
    prediction = predict(planned(GD()))
    one, two = prediction.costs(10.0), prediction.costs(100.0)
    assert one is not None
    assert two is not None
    assert two["jumps"] == pytest.approx(2 * one["jumps"])
    assert Prediction("walkman", "step", None, "none", None, prediction.expected, 1).costs() is None


def test_a_rate_that_float64_cannot_tell_from_0_predicts_nothing() -> None:
    """A gd whose kappa is 1e17 loses 1 - (1 - 1e-17)^2 = 0 a step."""
    assert Prediction("gd", "round", 0.0, "proved", None, Expected(9.0, 6.0, 30.0), 30).costs() is None
