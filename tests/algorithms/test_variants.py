"""Variants of token and tvr: computing when a token arrives, meetings of tokens, other stationary laws."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dtoken.algorithms.dual import DualMethod
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.errors import InputError
from dtoken.schedule.clock import TimeModel, advance, start_clock
from dtoken.schedule.events import KINDS, MEET, MOVE, VISIT, Events
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import CURVATURE, slope
from tests.engine.small import Setup, setup, small_shards, solve

METHODS: dict[str, Callable[..., DualMethod]] = {
    "token": Token,
    "tvr-importance": lambda **settings: TVR(start="zero", **settings),
    "tvr-uniform": lambda **settings: TVR(start="zero", sampling="uniform", **settings),
}
SIGMA = 0.05


class Arrivals:
    """Both updates of a visit from the old theta_i, and meetings, by the formulas; pi is the law of the visits."""

    def __init__(self, case: Setup, p_tt: float) -> None:
        method, self.A, self.y, self.loss = case.method, case.shards.A, case.shards.y, case.problem.loss.name
        self.full, self.on_arrival = isinstance(method, Token), method.compute == "on_arrival"
        n, K, c, pi = len(self.A), method.tokens, CURVATURE[self.loss], case.facts.walk.stationary
        s = self.sigma_t = n * SIGMA / (n + K)
        L = [c * (A**2).sum(axis=1) / len(A) for A in self.A]
        L_b = max(np.linalg.eigvalsh(c * A.T @ A / len(A))[-1] for A in self.A)
        kappa = 1 + L_b / s
        alpha = 2 * K / (s * kappa)
        self.p = self.sampling(L, s, method)
        tt = p_tt * s / (K * (K - 1)) if p_tt else np.inf
        if self.on_arrival:
            q = (1 - p_tt) * pi
            bounds = [
                q[i] * (1 if self.full else self.p[i][j]) / (alpha * (1 + 2 * (L_b if self.full else L[i][j]) / s))
                for i in range(n)
                for j in range(len(L[i]))
                if L[i][j] > 0
            ]
            eta = min(q.min() * s / (4 * K), *bounds, tt)
            self.rho_comm = K * eta / (q * s)
            self.rho = [alpha * eta / (q[i] * (1 if self.full else self.p[i])) for i in range(n)]
        else:
            counted = np.concatenate([L_i[L_i > 0] for L_i in L])
            N_c = self.total(counted, s, method, n * kappa)
            ratio = kappa / (N_c * pi.min())
            p_comm, p_comp = (1 - p_tt) * ratio / (1 + ratio), (1 - p_tt) / (1 + ratio)
            eta = min(p_comm * pi.min() * s / (2 * K), p_comp / (alpha * N_c), tt)
            self.rho_comm = eta * K / (p_comm * pi * s)
            p = self.joint(L, s, method, N_c, len(counted), n)
            self.rho = [alpha * eta / (p_comp * p_i) for p_i in p]
        self.eta, self.rho_tt = eta, eta * K * (K - 1) / (2 * p_tt * s) if p_tt else 0.0
        self.tokens = np.zeros((K, case.shards.d))
        self.z = [np.zeros(case.shards.d if self.full else len(A)) for A in self.A]
        self.theta = np.array([-self.gradient(i) / s for i in range(n)])

    @staticmethod
    def sampling(L: list[Any], s: float, method: Any) -> list[Any]:
        """p_j|i when a token arrives."""
        if getattr(method, "sampling", "") == "importance":
            return [(1 + 2 * L_i / s) / (1 + 2 * L_i[L_i > 0] / s).sum() for L_i in L]
        return [np.full(len(L_i), 1 / np.count_nonzero(L_i)) for L_i in L]

    @staticmethod
    def total(L: Any, s: float, method: Any, of_nodes: float) -> float:
        if isinstance(method, Token):
            return of_nodes
        return float((1 + L / s).sum() if method.sampling == "importance" else len(L) * (1 + L.max() / s))

    @staticmethod
    def joint(L: list[Any], s: float, method: Any, N_c: float, samples: int, n: int) -> list[Any]:
        if isinstance(method, Token):
            return [1 / n] * n
        if method.sampling == "importance":
            return [(1 + L_i / s) / N_c for L_i in L]
        return [np.full(len(L_i), 1 / samples) for L_i in L]

    def g(self, i: int) -> Any:
        t = self.A[i] @ self.z[i] if self.full else self.z[i]
        return slope(self.loss, t, self.y[i]) / len(self.y[i])

    def gradient(self, i: int) -> Any:
        return self.A[i].T @ self.g(i)

    def compute(self, i: int, j: int, theta: Any) -> Any:
        """The change of theta_i."""
        before = self.gradient(i)
        if self.full:
            self.z[i] = (1 - self.rho[i]) * self.z[i] + self.rho[i] * theta
        else:
            rho = self.rho[i][j]
            self.z[i][j] = (1 - rho) * self.z[i][j] + rho * (self.A[i][j] @ theta)
        return -(self.gradient(i) - before) / self.sigma_t

    def happen(self, kind: str, i: int, j: int, k: int, other: int) -> None:
        if kind == "local":
            self.theta[i] += self.compute(i, j, self.theta[i].copy())
        elif kind == "visit":
            theta_i, theta_k = self.theta[i].copy(), self.tokens[k].copy()
            rho = self.rho_comm[i]
            change = self.compute(i, j, theta_i) if self.on_arrival else 0.0
            self.theta[i] = (1 - rho) * theta_i + rho * theta_k + change
            self.tokens[k] = (1 - rho) * theta_k + rho * theta_i
        else:
            a, b = self.tokens[k].copy(), self.tokens[other].copy()
            self.tokens[k] = (1 - self.rho_tt) * a + self.rho_tt * b
            self.tokens[other] = (1 - self.rho_tt) * b + self.rho_tt * a


def written_out(engine: Any, events: Events) -> list[tuple[str, int, int, int, int]]:
    found = []
    for e in range(events.size):
        node, draw = int(events.node[e]), float(events.draw[e])
        row = row_of(engine.samples(), engine.rows.first, node, draw)
        sample = row - engine.rows.first[node] if row >= 0 else -1
        found.append((KINDS[events.kind[e]], node, int(sample), int(events.token[e]), int(events.other[e])))
    return found


CASES = [
    (name, compute, p_tt, graph)
    for name in METHODS
    for compute, p_tt in (("on_arrival", 0.0), ("independent", 0.3), ("on_arrival", 0.3))
    for graph in ("complete", "star")
]


def make(name: str, compute: str, p_tt: float, graph: str, loss: str = "logistic") -> Setup:
    shards = small_shards(n=6, m=5, d=4, seed=2, classes=loss != "squared")
    method = METHODS[name](tokens=3, compute=compute, interactions_anywhere=p_tt)
    return setup(shards, method, loss=loss, sigma=SIGMA, graph=graph, kind="simple")


@pytest.mark.parametrize(("name", "compute", "p_tt", "graph"), CASES)
def test_follows_the_formulas(name: str, compute: str, p_tt: float, graph: str) -> None:
    case = make(name, compute, p_tt, graph)
    events, reference = case.events(600), Arrivals(case, p_tt)
    assert case.constants.eta == pytest.approx(reference.eta, rel=1e-11)
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            reference.happen(*event)
        margins = [A @ z if reference.full else z for A, z in zip(reference.A, reference.z, strict=True)]
        for mine, theirs in (
            (engine.nodes.theta, reference.theta),
            (engine.tokens.theta, reference.tokens),
            (engine.nodes.z, np.concatenate(margins)),
        ):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max(initial=1.0))


@pytest.mark.parametrize(("name", "compute", "p_tt", "graph"), CASES)
def test_reaches_the_optimum(name: str, compute: str, p_tt: float, graph: str) -> None:
    case = make(name, compute, p_tt, graph, "squared" if name == "token" else "logistic")
    best = solve(case.shards, case.problem.loss.name, SIGMA)
    events = case.events(500_000)
    with case.engine() as engine:
        for part in range(10):
            engine.run(events.between(part * 50_000, (part + 1) * 50_000))
            if max(np.abs(engine.nodes.theta - best).max(), np.abs(engine.tokens.theta - best).max()) <= 1e-10:
                return
    pytest.fail("not within 1e-10 of the optimum")


@pytest.mark.parametrize("name", METHODS)
def test_weights_stay_below_their_bounds(name: str) -> None:
    arrival = make(name, "on_arrival", 0.0, "complete").constants
    assert arrival.rho_comm.max() <= 0.25 * (1 + 1e-12)
    for p_tt in (0.01, 0.5, 0.99):
        c = make(name, "independent", p_tt, "star").constants
        assert c.rho_meet <= 0.5 * (1 + 1e-12)
        assert c.rho_comm.max() <= 0.5 * (1 + 1e-12)
        assert c.p_comm + c.p_comp + c.p_meet == pytest.approx(1)


def test_equal_bits_for_any_number_of_threads() -> None:
    case = make("tvr-importance", "on_arrival", 0.3, "star")
    events, found = case.events(5000), []
    for threads in (1, 2, 4):
        with case.engine(threads) as engine:
            engine.run(events)
            found.append([array.tobytes() for array in engine.part().arrays.values()])
    assert found[0] == found[1] == found[2]


def test_share_of_meetings_and_of_pairs() -> None:
    events = make("tvr-importance", "independent", 0.3, "complete").events(60_000)
    meets = events.kind == MEET
    assert meets.mean() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 60_000))
    pairs = {(min(k, other), max(k, other)) for k, other in zip(events.token[meets], events.other[meets], strict=True)}
    assert pairs == {(0, 1), (0, 2), (1, 2)}


def meeting_case(compute: str = "independent", **graph: Any) -> Setup:
    """Three tokens that mix whenever they are at the same node."""
    method = TVR(start="zero", tokens=3, compute=compute, interactions=1.0)
    return setup(small_shards(n=6, m=5, d=4, seed=2), method, sigma=SIGMA, **graph)


@pytest.mark.parametrize("compute", ["independent", "on_arrival"])
def test_tokens_at_one_node_become_their_mean(compute: str) -> None:
    """By the formulas, with the step sizes of runs without meetings."""
    case = meeting_case(compute, graph="star", kind="simple")
    events, reference = case.events(600), Arrivals(case, 0.0)
    reference.rho_tt = 0.5
    assert (events.kind == MEET).sum() > 20
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            reference.happen(*event)
        np.testing.assert_allclose(engine.tokens.theta, reference.tokens, rtol=0, atol=1e-12)
        np.testing.assert_allclose(engine.nodes.theta, reference.theta, rtol=0, atol=1e-12)


def test_meetings_at_nodes_reach_the_optimum() -> None:
    case = meeting_case(graph="ring", kind="lazy")
    best = solve(case.shards, "logistic", SIGMA)
    with case.engine() as engine:
        engine.run(case.events(400_000))
        assert max(np.abs(engine.nodes.theta - best).max(), np.abs(engine.tokens.theta - best).max()) <= 1e-10


@pytest.mark.parametrize(("key", "paid"), [("interactions", False), ("interactions_anywhere", True)])
def test_meetings_cost_their_hops(key: str, paid: bool) -> None:
    """Ring of 20 nodes with a token each: distances counted by hand along the walk of the tokens."""
    case = setup(small_shards(n=20, m=4, d=3), TVR(tokens=20, **{key: 0.2}), sigma=SIGMA, graph="ring", kind="simple")
    events, where, hops, apart = case.events(20_000), list(range(20)), 0, []
    for kind, node, token, other in zip(events.kind, events.node, events.token, events.other, strict=True):
        if kind == VISIT:
            hops += 1
            where[token] = int(node)
        elif kind == MEET:
            gap = abs(where[token] - where[other])
            apart.append(min(gap, 20 - gap))
            hops += 2 * apart[-1]
    clock = start_clock(20, 20)
    advance(clock, events, case.method.costs(case.facts), TimeModel())
    assert clock.jumps == clock.messages == hops
    assert (sum(apart) > 0) == paid
    assert len(apart) > 100


@pytest.mark.parametrize("name", METHODS)
def test_computing_visits_are_charged(name: str) -> None:
    """Every step is a visit with tau_comm and the gradients of the node, one after the other for a single token."""
    case = setup(small_shards(n=6, m=5, d=4), METHODS[name](compute="on_arrival"), sigma=SIGMA)
    events = case.events(300)
    assert (events.kind == VISIT).all()
    clock = start_clock(6, 1)
    advance(clock, events, case.method.costs(case.facts), TimeModel(tau_comp=2.0, tau_comm=10.0))
    gradients = int(case.facts.rows[events.node].sum()) if name == "token" else 300
    assert clock.gradients == gradients
    assert clock.elapsed == 3000.0 + 2.0 * gradients


@pytest.mark.parametrize(
    ("make_method", "reason"),
    [
        (lambda: TVR(interactions=0.1), "interactions=0.1, but one token cannot meet another; use tokens>=2"),
        (lambda: TVR(interactions_anywhere=0.1), "interactions_anywhere=0.1, but one token cannot meet another"),
        (lambda: Token(tokens=2, interactions=1.1), r"interactions=1.1 is a probability; it must lie in \[0, 1\]"),
        (lambda: Token(tokens=2, interactions=-0.1), "is a probability"),
        (lambda: Token(tokens=2, interactions_anywhere=1.0), r"anywhere=1.0 is a probability; it must lie in \[0, 1\)"),
        (lambda: TVR(tokens=2, interactions=0.1, interactions_anywhere=0.1), "are two ways to meet; use one"),
        (lambda: TVR(compute="sometimes"), "compute=sometimes is not known; use one of independent, on_arrival"),
    ],
)
def test_settings_that_are_refused(make_method: Callable[[], Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_method()


def test_tavr_has_neither_variant() -> None:
    with pytest.raises(TypeError):
        TAVR(compute="on_arrival", continuized=True)  # type: ignore[call-arg]


def test_arrivals_need_something_to_draw_from() -> None:
    shards = small_shards(n=3, m=4, d=3)
    shards = replace(shards, A=[shards.A[0], shards.A[1], np.zeros_like(shards.A[2])])
    with pytest.raises(InputError, match="node 2 has only empty rows"):
        setup(shards, TVR(compute="on_arrival"))
    setup(shards, Token(compute="on_arrival"))


@pytest.mark.parametrize(
    "method", [Token(tokens=2, compute="on_arrival"), TVR(tokens=2, jumps=2), TVR(tokens=3)], ids=repr
)
def test_poisson_clocks_change_nothing_but_the_times(method: Any) -> None:
    """The same steps, at the points of a Poisson process: the models have the same bits, the gaps are exponential."""
    shards = small_shards(n=6, m=4, d=3, seed=2, empty=False)
    discrete = setup(shards, method, graph="ring", kind="lazy")
    continuized = setup(shards, replace(method, continuized=True), graph="ring", kind="lazy")
    steps, rings = discrete.events(6000), continuized.events(6000)
    for name in set(steps._fields) - {"at"}:
        assert np.array_equal(getattr(steps, name), getattr(rings, name)), name
    with discrete.engine() as one, continuized.engine() as other:
        one.run(steps)
        other.run(rings)
        assert np.array_equal(one.nodes.theta, other.nodes.theta)
        assert np.array_equal(one.models(steps.at[-1]).tokens, other.models(rings.at[-1]).tokens)
    gaps = np.diff(rings.at[rings.kind != MOVE], prepend=0.0)
    assert stats.kstest(gaps, "expon").pvalue > 1e-4
    assert not np.array_equal(steps.at, rings.at)
