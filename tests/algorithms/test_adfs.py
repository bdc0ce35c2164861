"""ADFS: against the method on pairs in plain numpy, event by event, and what an exchange costs."""

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from dtoken.algorithms.adfs import ADFS
from dtoken.errors import InputError
from dtoken.schedule.events import DELIVER, LOAD, LOCAL
from dtoken.schedule.samples import row_of
from tests.algorithms.reference import slope
from tests.algorithms.test_rounds import NETWORKS, SIGMA, clock_after, inverse_step, laplacian, make
from tests.engine.small import Setup

Floats = NDArray[np.float64]


def reference(case: Setup, graph: str, count: int) -> Floats:
    """All pairs relax by one step before each event, with the constants by the formulas again."""
    A, y, Lap = case.shards.A, case.shards.y, laplacian(graph)
    values, E = np.linalg.eigvalsh(Lap), NETWORKS[graph].number_of_edges()
    R = max(nx.resistance_distance(NETWORKS[graph], i, j) for i, j in NETWORKS[graph].edges)
    L = [0.25 * (A_i**2).sum(axis=1) / len(A_i) for A_i in A]
    kappa = inverse_step(case) / SIGMA
    alpha = values[1] / (SIGMA * kappa)
    sigma_A = alpha * (kappa - np.sqrt(kappa**2 - kappa))  # r^2 - 2 kappa r + kappa = 0
    S = sum(np.sqrt(1 + L_i[L_i > 0] / SIGMA).sum() for L_i in L)
    c_comm, c_comp = np.sqrt(sigma_A * SIGMA / (2 * R)) / E, np.sqrt(sigma_A / alpha) / S
    rho, p_comm = c_comm * c_comp / (c_comm + c_comp), c_comp / (c_comm + c_comp)
    assert case.constants.rho == pytest.approx(rho, rel=1e-12)
    x, v = np.zeros((6, 4)), np.zeros((6, 4))
    gx, gv = [np.zeros(len(y_i)) for y_i in y], [np.zeros(len(y_i)) for y_i in y]
    share = (1 - np.exp(-2 * np.arctanh(rho))) / 2
    events, before = case.events(count), 0.0
    with case.engine() as engine:
        rows = [
            row_of(engine.samples(), engine.rows.first, i, u) for i, u in zip(events.node, events.draw, strict=True)
        ]
        first = engine.rows.first
    for event in range(count):
        i, kind = int(events.node[event]), events.kind[event]
        if events.at[event] != before:
            before = events.at[event]
            x, v = x + share * (v - x), v - share * (v - x)
            gx, gv = (
                [a + share * (b - a) for a, b in zip(gx, gv, strict=True)],
                [b - share * (b - a) for a, b in zip(gx, gv, strict=True)],
            )
        if kind == LOCAL:
            j = int(rows[event] - first[i])
            a, w, c = A[i][j], 1 / len(y[i]), 0.25 / len(y[i])
            b = rho / ((1 - p_comm) * np.sqrt(1 + L[i][j] / SIGMA) / S)
            t0 = a @ x[i] / SIGMA - (gx[i][j] - gv[i][j]) / c
            beta, label = (sigma_A / (b * alpha) - 1) / c, y[i][j]

            def equation(u: float, at: tuple[float, ...] = (t0, beta, w, gv[i][j], label)) -> float:
                return float(u - at[0] + at[1] * (at[2] * slope("logistic", u, at[4]) - at[3]))

            u = brentq(equation, t0 - 500, t0 + 500, xtol=1e-15, rtol=1e-15)
            change = w * slope("logistic", u, label) - gv[i][j]
            gv[i][j] += change
            gx[i][j] += b * change
            v[i], x[i] = v[i] - change * a, x[i] - b * change * a
        elif kind == DELIVER and events.kind[event - 1] == LOAD:  # the first of the two: both nodes at once
            j = int(events.token[event])
            p_edge = p_comm / E
            D = rho / (p_edge * sigma_A) / SIGMA * (x[i] - x[j])
            v[i], v[j] = v[i] - D, v[j] + D
            x[i], x[j] = x[i] - rho * R / p_edge * D, x[j] + rho * R / p_edge * D
    return x / SIGMA


@pytest.mark.parametrize("graph", ["complete", "ring", "star"])
def test_follows_the_formulas(graph: str) -> None:
    case = make(ADFS(start="zero"), graph=graph)
    count = 2000
    events = case.events(count)
    while events.kind[count - 1] != LOCAL:  # not inside an exchange
        count -= 1
    with case.engine() as engine:
        engine.run(events.between(0, count))
        found = engine.models(float(events.at[count - 1])).nodes
    expected = reference(case, graph, count)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_what_steps_cost() -> None:
    """An exchange is two messages, one tau_comm; nodes that are not part of it go on."""
    case = make(ADFS(), graph="ring")
    events = case.events(5000)
    clock = clock_after(case, events, tau_comp=2.0, tau_comm=100.0)
    assert clock.jumps == clock.messages == np.count_nonzero(events.kind == DELIVER)
    assert clock.gradients == np.count_nonzero(events.kind == LOCAL)
    share = np.count_nonzero(events.kind == LOCAL) / len(np.unique(events.at))
    assert share == pytest.approx(case.constants.p_comp, abs=0.05)


def test_directed_graphs_are_refused() -> None:
    with pytest.raises(InputError, match="adfs averages over neighbours in both directions"):
        make(ADFS(), graph="directed_cycle")
