"""tavr: lazy production code against eager and dual transcriptions, its two clocks, and the walks that it can use."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.optimize import brentq

from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.errors import InputError
from dtoken.schedule.events import KINDS, MOVE, Events
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import CURVATURE, slope
from tests.engine.small import Setup, setup, small_shards, solve

Floats = NDArray[np.float64]


class Constants:
    """All constants of the method, from its formulas (c = 1)."""

    def __init__(self, case: Setup) -> None:
        method, A, pi = case.method, case.shards.A, case.facts.walk.stationary
        n, K, c = len(A), method.tokens, CURVATURE[case.problem.loss.name]
        s = self.sigma_t = n * case.problem.sigma / (n + K)
        self.c = [c / len(A_i) for A_i in A]
        self.q = [(A_i**2).sum(axis=1) for A_i in A]
        self.L = [c_i * q_i for c_i, q_i in zip(self.c, self.q, strict=True)]
        if method.smoothness == "theory":
            L_b = max(L.sum() for L in self.L)
        else:
            L_b = max(np.linalg.eigvalsh(c_i * A_i.T @ A_i)[-1] for c_i, A_i in zip(self.c, A, strict=True))
        kappa = 1 + L_b / s
        self.alpha = K / (s * kappa)
        self.sigma_A = self.alpha * kappa / (kappa + np.sqrt(kappa**2 - kappa))
        self.R = (n + K - 1) / (n * K)
        used = np.concatenate([L[L > 0] for L in self.L])
        if method.sampling == "importance":
            S = np.sqrt(1 + used / s).sum()
            self.p = [np.sqrt(1 + L / s) / S for L in self.L]
        else:
            S = len(used) * np.sqrt(1 + used.max() / s)
            self.p = [np.full(len(L), 1 / len(used)) for L in self.L]
        c_comm = pi.min() / K * np.sqrt(self.sigma_A * s / (2 * self.R))
        c_comp = np.sqrt(self.sigma_A / self.alpha) / S
        self.p_comp = c_comm / (c_comm + c_comp)
        self.rho = c_comm * c_comp / (c_comm + c_comp)
        self.p_e = (1 - self.p_comp) * pi / K


def increasing_root(h: Any, low: float, high: float) -> float:
    """The root of an increasing function in a bracket that may be a little too small."""
    slack = 1e-9 * (1 + abs(low) + abs(high))
    return float(brentq(h, low - slack, high + slack, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))


class Eager:
    """Every pair (x, v) relaxes at every step; ``relax(dt)`` gives the weights of the old values."""

    def __init__(self, case: Setup) -> None:
        self.k, self.A, self.y, self.loss = Constants(case), case.shards.A, case.shards.y, case.problem.loss.name
        d, K = case.shards.d, case.method.tokens
        self.nodes, self.tokens = np.zeros((2, len(self.A), d)), np.zeros((2, K, d))  # x, v
        self.g = [np.zeros((2, len(y))) for y in self.y]
        self.negative = False  # whether a beta was below 0
        self.t = 0.0

    def relax(self, mixing: Floats) -> None:
        """(x, v) <- mixing (x, v), everywhere."""
        self.nodes, self.tokens = np.tensordot(mixing, self.nodes, 1), np.tensordot(mixing, self.tokens, 1)
        self.g = [mixing @ pair for pair in self.g]

    def relax_step(self) -> None:
        f = self.k.rho / (1 + self.k.rho)
        self.relax(np.array([[1 - f, f], [f, 1 - f]]))

    def relax_until(self, t: float) -> None:
        self.relax(expm(self.k.rho * (t - self.t) * np.array([[-1.0, 1.0], [1.0, -1.0]])))
        self.t = t

    def happen(self, kind: str, i: int, j: int, k: int) -> None:
        s = self.k.sigma_t
        if kind == "visit":
            D = self.k.rho / (self.k.p_e[i] * self.k.sigma_A) * (self.nodes[0, i] - self.tokens[0, k]) / s
            b = self.k.rho * self.k.R / self.k.p_e[i]
            for pair, weight in ((0, b), (1, 1.0)):
                self.nodes[pair, i] -= weight * D
                self.tokens[pair, k] += weight * D
            return
        a, y, p = self.A[i][j], self.y[i][j], self.k.p_comp * self.k.p[i][j]
        gx, gv = self.g[i][:, j]
        w, L, q = 1 / len(self.y[i]), self.k.L[i][j], self.k.q[i][j]
        s_ij = self.k.rho * self.k.alpha * L / (p * self.k.sigma_A)
        beta = q * (1 / s_ij - 1 / L)
        self.negative |= beta < 0
        t0 = a @ self.nodes[0, i] / s - (gx - gv) / self.k.c[i]

        def h(u: float) -> float:
            return float((u - t0) + beta * (w * slope(self.loss, u, y) - gv))

        if self.loss == "squared":
            u = (t0 + beta * (w * y + gv)) / (1 + beta * w)
        else:
            ends = t0 + beta * gv, t0 + beta * (gv + w * y)
            u = increasing_root(h, min(ends), max(ends))
        delta, b = w * slope(self.loss, u, y) - gv, self.k.rho / p
        self.g[i][:, j] += [b * delta, delta]
        self.nodes[0, i] -= b * delta * a
        self.nodes[1, i] -= delta * a


def written_out(engine: Any, events: Events) -> list[tuple[str, int, int, int]]:
    """(kind, node, sample, token) of every step."""
    found = []
    for e in np.flatnonzero(events.kind != MOVE):
        node = int(events.node[e])
        row = row_of(engine.samples(), engine.rows.first, node, float(events.draw[e]))
        found.append((KINDS[events.kind[e]], node, int(row - engine.rows.first[node]), int(events.token[e])))
    return found


def make(method: TAVR, loss: str = "logistic", sigma: float = 0.05, graph: str = "complete", **settings: Any) -> Setup:
    shards = small_shards(n=5, m=4, d=3, seed=4, classes=loss != "squared")
    return setup(shards, method, loss=loss, sigma=sigma, graph=graph, **settings)


def assert_models(case: Setup, engine: Any, t: float, nodes: Floats, tokens: Floats, tolerance: float) -> None:
    models, s = engine.models(t), Constants(case).sigma_t
    scale = max(np.abs(nodes).max(), np.abs(tokens).max()) / s
    np.testing.assert_allclose(models.nodes, nodes / s, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(models.tokens, tokens / s, rtol=0, atol=tolerance * scale)


CASES = [
    (TAVR(start="zero", tokens=tokens, sampling=sampling, smoothness=smoothness), loss)
    for tokens, sampling, smoothness in (
        (1, "importance", "batch"),
        (2, "uniform", "theory"),
        (4, "importance", "theory"),
        (2, "permuted", "batch"),
    )
    for loss in ("logistic", "squared", "smooth_hinge")
]


@pytest.mark.parametrize(("method", "loss"), CASES)
def test_lazy_equals_eager(method: TAVR, loss: str) -> None:
    """Every pair mixed at every step with coefficient rho / (1 + rho)."""
    case = make(method, loss)
    events, eager = case.events(700), Eager(case)
    assert case.constants.rho == pytest.approx(eager.k.rho, rel=1e-11)
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            eager.relax_step()
            eager.happen(*event)
        assert_models(case, engine, float(events.at[-1]), eager.nodes[0], eager.tokens[0], 1e-12)


@pytest.mark.parametrize(("method", "loss"), CASES[:3])
def test_skipping_visits_are_plain_steps(method: TAVR, loss: str) -> None:
    """Only the last of several jumps is a step."""
    case = make(method, loss, graph="ring", kind="lazy")
    events, eager = case.events(700), Eager(case)
    events = events.between(0, int(np.flatnonzero(events.kind != MOVE)[-1]) + 1)
    assert (events.kind == MOVE).any()
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            eager.relax_step()
            eager.happen(*event)
        assert_models(case, engine, float(events.at[-1]), eager.nodes[0], eager.tokens[0], 1e-12)


@pytest.mark.parametrize("tokens", [1, 3])
def test_continuized_follows_its_differential_equation(tokens: int) -> None:
    """Between events dx/dt = rho (v - x), dv/dt = rho (x - v), by a matrix exponential."""
    case = make(TAVR(start="zero", tokens=tokens, continuized=True))
    events, eager = case.events(700), Eager(case)
    gaps = np.diff(events.at)
    assert gaps.std() > 0.5  # Poisson, not a step counter
    with case.engine() as engine:
        engine.run(events)
        for event, at in zip(written_out(engine, events), events.at, strict=True):
            eager.relax_until(float(at))
            eager.happen(*event)
        eager.relax_until(float(events.at[-1]) + 3.0)
        assert_models(case, engine, eager.t, eager.nodes[0], eager.tokens[0], 1e-12)


def test_discrete_is_continuized_at_regular_times() -> None:
    """Steps at (t + 1) atanh(rho) / rho: the differential equation then mixes with rho / (1 + rho) a step."""
    case = make(TAVR(start="zero", tokens=2))
    events, eager, rho = case.events(700), Eager(case), Constants(case).rho
    times = np.arctanh(rho) / rho * np.arange(1, 701)
    np.testing.assert_allclose(events.at, times, rtol=1e-14)
    with case.engine() as engine:
        engine.run(events)
        for event, at in zip(written_out(engine, events), times, strict=True):
            eager.relax_until(float(at))
            eager.happen(*event)
        assert_models(case, engine, float(times[-1]), eager.nodes[0], eager.tokens[0], 1e-12)


class Dual:
    """Accelerated proximal coordinate gradient on the edges of the conceptual graph, with its incidence matrix A.

    F(x) = q_A(x) + sum psi_ij, q_A(x) = |A x|^2_{Sigma^-1} / 2, f*_ij = psi_ij + |.|^2 / (2 L_ij). A step on edge e:
    y = (x + rho v) / (1 + rho), w = (1 - rho) v + rho y; v is the proximal step of length rho / (sigma_A p_e) from w
    along the projection (A^+ A) of e, at the gradient in y; and x = y + (rho R_e / p_e) (v - w).
    """

    def __init__(self, case: Setup) -> None:
        self.k, self.data, self.y, self.loss = Constants(case), case.shards.A, case.shards.y, case.problem.loss.name
        n, K, k = case.shards.n, case.method.tokens, self.k
        self.edges: list[tuple[Any, ...]] = [("visit", i, token) for i in range(n) for token in range(K)]
        self.edges += [("local", i, j) for i in range(n) for j in range(len(self.y[i])) if k.L[i][j] > 0]
        samples = [edge for edge in self.edges if edge[0] == "local"]
        self.A = np.zeros((n + K + len(samples), len(self.edges)))
        for e, (kind, i, other) in enumerate(self.edges):
            mu = 1.0 if kind == "visit" else np.sqrt(k.alpha * k.L[i][other])
            vertex = n + other if kind == "visit" else n + K + samples.index((kind, i, other))
            self.A[i, e], self.A[vertex, e] = mu, -mu
        L = [k.L[i][j] for _, i, j in samples]
        self.inverse = 1 / np.concatenate([np.full(n + K, k.sigma_t), L])  # Sigma^-1
        self.projection = np.linalg.pinv(self.A) @ self.A
        self.x = np.zeros((len(self.edges), case.shards.d))
        self.v = self.x.copy()

    def happen(self, kind: str, i: int, j: int, token: int) -> None:
        k, rho = self.k, self.k.rho
        e = self.edges.index((kind, i, token if kind == "visit" else j))
        R = self.projection[e, e]
        y = (self.x + rho * self.v) / (1 + rho)
        w = (1 - rho) * self.v + rho * y
        gradient = self.A[:, e] @ (self.inverse[:, None] * (self.A @ y))
        p = k.p_e[i] if kind == "visit" else k.p_comp * k.p[i][j]
        step = rho / (p * k.sigma_A)
        self.v = w - step * np.outer(self.projection[:, e], gradient)
        if kind == "local":
            self.v[e] = self.proximal(i, j, self.v[e], step)
        self.x = y + rho * R / p * (self.v - w)

    def proximal(self, i: int, j: int, target: Floats, step: float) -> Floats:
        """argmin over v = -g a / mu of psi(g) + |v - target|^2 / (2 step), psi(g) = phi*(g) - g^2 / (2 c)."""
        k, a, y, w = self.k, self.data[i][j], self.y[i][j], 1 / len(self.y[i])
        mu = np.sqrt(k.alpha * k.L[i][j])
        q, c = a @ a, k.c[i]
        goal = -mu * (a @ target) / q
        pull = q / (step * mu**2)
        beta = pull - 1 / c

        def h(u: float) -> float:  # phi*'(g) = u where g = phi'(u)
            return float(u + beta * w * slope(self.loss, u, y) - pull * goal)

        ends = pull * goal, pull * goal + beta * w * y
        u = increasing_root(h, min(ends), max(ends))
        return -w * slope(self.loss, u, y) * a / mu


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_primal_equals_dual_transcription(tokens: int) -> None:
    case = make(TAVR(start="zero", tokens=tokens))
    events, dual = case.events(500), Dual(case)
    n = case.shards.n
    resistances = np.diag(dual.projection)
    np.testing.assert_allclose(resistances[: n * tokens], (n + tokens - 1) / (n * tokens))
    np.testing.assert_allclose(resistances[n * tokens :], 1)
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            dual.happen(*event)
        states = dual.A @ dual.x
        assert_models(case, engine, float(events.at[-1]), states[:n], states[n : n + tokens], 1e-12)


def test_negative_beta() -> None:
    """With a small L_ij against sigma~ the primal proximal form does not exist; the difference form does."""
    case = make(TAVR(start="zero", tokens=1), sigma=5.0)
    events, eager = case.events(3000), Eager(case)
    with case.engine() as engine:
        engine.run(events)
        for event in written_out(engine, events):
            eager.relax_step()
            eager.happen(*event)
        assert eager.negative
        assert_models(case, engine, float(events.at[-1]), eager.nodes[0], eager.tokens[0], 1e-12)
        models = engine.models(float(events.at[-1]))
        assert np.abs(models.tokens - solve(case.shards, "logistic", 5.0)).max() <= 1e-10


WALKS: dict[str, dict[str, Any]] = {
    "complete": {"graph": "complete"},
    "ring": {"graph": "ring"},
    "grid": {"graph": "grid", "shape": [3, 3], "kind": "lazy"},
    "grid metropolis": {"graph": "grid", "shape": [3, 3], "kind": "metropolis"},
    "directed cycle": {"graph": "directed_cycle"},
    "lazy directed cycle": {"graph": "directed_cycle", "kind": "lazy"},
    "directed random": {"graph": "directed_random", "degree": 2},
    "time-varying rings": {"graph": "time_varying", "period": 7},
}


def error_after(method: Any, events: int, sigma: float, **graph: Any) -> float:
    """Largest error of a model relative to the optimum, n = 9; infinite where it is not finite."""
    shards = small_shards(n=9, m=20, d=6, seed=1, unequal=False, empty=False)
    case = setup(shards, method, sigma=sigma, **graph)
    best = solve(shards, "logistic", sigma)
    with case.engine() as engine:
        stretch = case.events(events)
        engine.run(stretch)
        models = engine.models(float(stretch.at[-1]))
    error = float(max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max()) / np.abs(best).max())
    return error if np.isfinite(error) else np.inf


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("walk", WALKS)
def test_tvr_is_stable_on_all_walks(walk: str, tokens: int) -> None:
    assert error_after(TVR(tokens=tokens), 600_000, 0.05, **WALKS[walk]) <= 3.2e-10


@pytest.mark.parametrize(
    ("walk", "tokens", "converges"),
    [
        ("complete", 1, True),
        ("complete", 4, True),
        ("ring", 1, False),
        ("ring", 4, True),
        ("grid", 1, False),
        ("grid", 4, True),
        ("grid metropolis", 1, False),
        ("grid metropolis", 4, True),
        ("lazy directed cycle", 1, False),
        ("lazy directed cycle", 4, False),
        ("directed cycle", 1, False),
        ("directed cycle", 4, False),
        ("directed random", 1, True),
        ("directed random", 4, True),
        ("time-varying rings", 1, True),
        ("time-varying rings", 4, True),
    ],
)
def test_tavr_with_one_jump(walk: str, tokens: int, converges: bool) -> None:
    """Where it diverges on a problem with kappa of about 10,000, and hence what is refused unless unsafe=true."""
    error = error_after(TAVR(start="zero", tokens=tokens, jumps=1, unsafe=True), 600_000, 1e-4, **WALKS[walk])
    assert error <= 1e-9 if converges else error > 1


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize(
    ("walk", "jumps"),
    [
        ("ring", "auto"),
        ("ring", 8),
        ("grid", "auto"),
        ("grid metropolis", "auto"),
        ("directed random", "auto"),
        ("time-varying rings", "auto"),
        ("lazy directed cycle", "auto"),
        ("lazy directed cycle", 4),
    ],
)
def test_tavr_converges_with_enough_jumps(walk: str, jumps: Any, tokens: int) -> None:
    assert error_after(TAVR(tokens=tokens, jumps=jumps), 2_000_000, 1e-3, **WALKS[walk]) <= 1e-9


@pytest.mark.parametrize("walk", [name for name in WALKS if name not in ("complete", "directed cycle")])
def test_tavr_refuses_one_jump_where_visits_are_not_nearly_independent(walk: str) -> None:
    with pytest.raises(InputError, match=r"algorithm.jumps=1 .* may diverge; use algorithm.jumps=auto \(N=\d+\)"):
        error_after(TAVR(jumps=1), 1, 0.05, **WALKS[walk])


def test_few_jumps_are_announced() -> None:
    """Between one jump and enough of them nothing is known: 4 diverge on the ring of 9 nodes, 3 do not."""
    assert error_after(TAVR(jumps=4), 700_000, 1e-3, graph="ring") > 1
    case = make(TAVR(jumps=4), graph="ring")
    (note,) = case.method.notes(case.constants, case.facts)
    assert "algorithm.jumps=4 is less than the" in note
    case = make(TAVR(), graph="ring")
    assert case.method.notes(case.constants, case.facts) == ()


@pytest.mark.parametrize("jumps", [1, "auto"])
def test_tavr_refuses_walks_that_never_mix(jumps: Any) -> None:
    with pytest.raises(InputError, match="periodic"):
        error_after(TAVR(jumps=jumps), 1, 0.05, graph="directed_cycle")
