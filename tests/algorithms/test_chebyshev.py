"""EXTRA and DVR with Chebyshev acceleration: against matrix polynomials, what a round costs, and what is refused."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from distributed import Client
from numpy.polynomial import chebyshev as series
from numpy.typing import NDArray

from dtoken.algorithms.contract import Method
from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.extra import EXTRA
from dtoken.errors import InputError
from dtoken.graph import build
from dtoken.testing import check_method
from dtoken.theory.chebyshev import chebyshev
from dtoken.theory.gossip import network
from tests.algorithms.reference import slope
from tests.algorithms.test_rounds import (
    SIGMA,
    clock_after,
    gradients,
    inverse_step,
    laplacian,
    make,
    steps_of,
    whole_rounds,
    whole_steps,
)
from tests.contract.test_methods import client
from tests.engine.small import Setup, solve

__all__ = ["client"]  # a fixture

Floats = NDArray[np.float64]


def polynomial(Lap: Floats, rounds: int) -> Floats:
    """P(Lap), by the eigenvalues of Lap and numpy's Chebyshev series."""
    values, vectors = np.linalg.eigh(Lap)
    gamma = values[1] / values[-1]
    if gamma > 1 - 1e-9:
        return Lap / values[-1]
    c, one = (1 + gamma) / (1 - gamma), [0.0] * rounds + [1.0]
    shifted = c * (1 - 2 * values / ((1 + gamma) * values[-1]))
    found: Floats = vectors @ np.diag(1 - series.chebval(shifted, one) / series.chebval(c, one)) @ vectors.T
    return found


@pytest.mark.parametrize("kind", ["ring", "path", "grid", "star"])
def test_eigenvalues_are_where_the_theory_says(kind: str) -> None:
    net = network(build(kind, 25), "extra")
    Lap = nx.laplacian_matrix(
        {
            "ring": nx.cycle_graph(25),
            "path": nx.path_graph(25),
            "star": nx.star_graph(24),
            "grid": nx.grid_2d_graph(5, 5),
        }[kind]
    ).toarray()
    found = chebyshev(net, None)
    eigenvalues = np.linalg.eigvalsh(polynomial(Lap.astype(float), found.rounds))
    assert found.rounds == np.ceil(1 / np.sqrt(net.gap) - 1e-9)
    assert abs(eigenvalues[0]) < 1e-12
    assert eigenvalues[1] == pytest.approx(1 - found.delta)
    assert eigenvalues[-1] <= 1 + found.delta + 1e-12
    assert (1 - found.delta) / (1 + found.delta) > 0.58


@pytest.mark.parametrize("graph", ["complete", "ring", "path", "star"])
@pytest.mark.parametrize("rounds", [True, 1, 3])
def test_extra_follows_the_formulas(graph: str, rounds: Any) -> None:
    if graph == "complete" and rounds == 3:
        rounds = 1  # there is nothing to accelerate
    case = make(EXTRA(chebyshev=rounds), graph=graph)
    P = polynomial(laplacian(graph), case.constants.rounds)
    W, s = np.eye(6) - P / (1 + delta(P)), 1 / inverse_step(case)
    before = np.zeros((6, 4))
    x = W @ before - s * gradients(case, before)
    for _ in range(24):
        before, x = x, (np.eye(6) + W) / 2 @ (2 * x - before) - s * (gradients(case, x) - gradients(case, before))
    with case.engine() as engine:
        engine.run(whole_rounds(case, 25))
        np.testing.assert_allclose(engine.models(0.0).nodes, x, rtol=0, atol=1e-12 * np.abs(x).max())


def delta(P: Floats) -> float:
    return 1 - float(np.linalg.eigvalsh(P)[1])


@pytest.mark.parametrize("graph", ["ring", "path"])
def test_dvr_follows_the_formulas(graph: str) -> None:
    case = make(DVR(start="zero", chebyshev=True), "logistic", graph)
    events = whole_steps(case.events(6000))
    with case.engine() as engine:
        engine.run(events)
        theta = dvr(case, graph, steps_of(case, engine, events))
        np.testing.assert_allclose(engine.nodes.theta, theta, rtol=0, atol=1e-12 * np.abs(theta).max())


def dvr(case: Setup, graph: str, steps: list[tuple[str, int, int]]) -> Floats:
    A, y, K = case.shards.A, case.shards.y, case.constants.rounds
    P = polynomial(laplacian(graph), K)
    low, high = 1 - delta(P), 1 + delta(P)
    L = [0.25 * (A_i**2).sum(axis=1) / len(A_i) for A_i in A]
    kappa = inverse_step(case) / SIGMA
    alpha = 2 * low / (SIGMA * kappa)
    used = [L_i > 0 for L_i in L]
    p = [(1 + L_i / SIGMA) / np.sum((1 + L_i / SIGMA)[u]) for L_i, u in zip(L, used, strict=True)]
    N_c = max(np.sum((1 + L_i / SIGMA)[u]) for L_i, u in zip(L, used, strict=True))
    ratio = kappa / (2 * low / high * N_c)
    p_comm, p_comp = ratio / (1 + ratio), 1 / (1 + ratio)
    eta = min(p_comm * SIGMA / high, p_comp / (alpha * N_c))
    z = [np.zeros(len(y_i)) for y_i in y]

    def g(i: int, j: int) -> float:
        return float(slope("logistic", z[i][j], y[i][j]) / len(y[i]))

    theta = np.array([-sum(g(i, j) * A[i][j] for j in range(len(y[i]))) / SIGMA for i in range(6)])
    loads = 0
    for kind, i, j in steps:
        if kind == "exchange":  # loads of node 0: one before each of K exchanges, and one that ends them
            loads += 1
            if loads % (K + 1) == 0:
                theta = theta - eta / (p_comm * SIGMA) * P @ theta
        else:
            before, rho = g(i, j), alpha * eta / (p_comp * p[i][j])
            z[i][j] = (1 - rho) * z[i][j] + rho * (A[i][j] @ theta[i])
            theta[i] = theta[i] - (g(i, j) - before) * A[i][j] / SIGMA
    return theta


@pytest.mark.parametrize("method", [EXTRA(chebyshev=True), DVR(chebyshev=True), DVR(chebyshev=2)])
def test_reaches_the_optimum(method: Method) -> None:
    case = make(method, graph="path")
    best = solve(case.shards, "logistic", SIGMA)
    with case.engine() as engine:
        engine.run(case.events(300_000))
        assert np.abs(engine.models(0.0).nodes - best).max() <= 1e-10


def test_a_round_costs_k_exchanges() -> None:
    """n = 6 nodes of 5 rows on a path: 2 |E| = 10 messages an exchange, tau_comp = 2, tau_comm = 100."""
    case = make(EXTRA(chebyshev=4), graph="path", unequal=False)
    clock = clock_after(case, whole_rounds(case, 7), tau_comp=2.0, tau_comm=100.0)
    assert (clock.jumps, clock.messages) == (7 * 40, 7 * 40)
    assert clock.gradients == 7 * 30
    assert clock.elapsed == 7 * (5 * 2.0 + 4 * 100.0)


def test_rates_are_those_of_the_better_graph() -> None:
    plain, fast = (make(EXTRA(chebyshev=on), graph="path") for on in (False, True))
    assert fast.constants.gap > 0.58 > plain.constants.gap
    promises = [case.method.promise(case.constants, case.facts) for case in (plain, fast)]
    assert promises[1].rate >= promises[0].rate
    assert all(not promise.basis.startswith("proved") for promise in promises)
    slow, quick = (make(DVR(chebyshev=on), graph="path").constants for on in (False, True))
    assert quick.p_comm < slow.p_comm


@pytest.mark.parametrize("method", [EXTRA, DVR])
def test_keeps_the_contract(method: Any, client: Client) -> None:
    check_method(method, client=client, chebyshev=2)


@pytest.mark.parametrize("method", [EXTRA, DVR])
def test_what_is_refused(method: Any) -> None:
    for rounds in (0, -3, 100_000):
        with pytest.raises(InputError, match=f"chebyshev={rounds} is neither true nor false nor a number from 1"):
            method(chebyshev=rounds)
    with pytest.raises(InputError, match="is directed"):
        make(method(chebyshev=True), graph="directed_cycle")
