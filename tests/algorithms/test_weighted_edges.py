"""Edges whose weight follows the smoothness of their node: rates by pi_i and L_i of each node."""

from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.errors import InputError
from tests.algorithms.reference import Reference
from tests.algorithms.test_rate import expected_lyapunov
from tests.algorithms.test_reference import written_out
from tests.engine.small import InMemory, setup, small_shards, solve


class Weighted(Reference):
    """Edges of weight w_i = e_i / max e, e_i = sigma~ + 3 L_i / 2: everything else as in Token GD and TVR."""

    def constants(self) -> None:
        super().constants()
        n, K, s = self.n, self.K, self.sigma_t
        e = np.array([s + 1.5 * np.sum(L) for L in self.L])
        self.w, mu = e / e.max(), K / e.max()
        self.alpha = 3 * mu
        visits, samples = s / (2 * K) * (self.pi / self.w).min(), 1 / (self.alpha * self.N_c)
        self.p_comm = samples / (visits + samples)
        self.p_comp = 1 - self.p_comm
        self.eta = self.p_comm * visits
        self.rate = self.eta * mu
        self.rho_comm = self.eta * K * self.w / (self.p_comm * self.pi * s)
        self.rho = [self.alpha * self.eta / (self.p_comp * p_i) for p_i in self.p]
        edges = np.array([np.eye(n + K)[i] - np.eye(n + K)[n + k] for i in range(n) for k in range(K)])
        self.inverse = np.linalg.pinv(edges.T @ (np.repeat(self.w, K)[:, None] * edges))
        self.R = [self.w[e // K] * edges[e] @ self.inverse @ edges[e] for e in range(n * K)]

    def norm(self, missing: Any) -> float:
        return float(np.sum(missing * (self.inverse @ missing)))

    def R_p(self) -> float:
        comm = min(self.p_comm * self.pi[e // self.K] / self.K / R for e, R in enumerate(self.R))
        comp = min(np.min(p if np.isscalar(p) else p[L > 0]) for p, L in zip(self.p, self.L, strict=True))
        return float(min(comm, self.p_comp * comp))


def rarely_visited(n: int = 5) -> InMemory:
    """The hub of a star has rows twenty times as long as those of the leaves, which are visited less often."""
    shards = small_shards(n=n, m=3, d=2, seed=4, unequal=False, empty=False)
    return InMemory([A * (4.0 if i == 0 else 0.2) for i, A in enumerate(shards.A)], shards.y)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", ["token", "tvr"])
def test_one_step_with_weighted_edges_contracts_in_expectation(name: str, K: int) -> None:
    """E L_{t+1} <= (1 - eta mu) L_t, by going through all steps, for visits by the law of the walk on a star."""
    method = (TVR if name == "tvr" else Token)(tokens=K, smoothness="theory", edges="weighted", start="zero")
    case = setup(rarely_visited(), method, graph="star", kind="lazy")
    pi, best = case.facts.walk.stationary, solve(case.shards, "logistic", 0.05)
    reference = Weighted(case.shards.A, case.shards.y, "logistic", 0.05, K, pi, name)
    assert case.constants.rate == pytest.approx(reference.rate, rel=1e-9)
    np.testing.assert_allclose(case.constants.rho_comm, reference.rho_comm, rtol=1e-9)
    assert case.constants.rho_comm.max() <= 0.5 + 1e-12
    with case.engine() as engine:
        for number, event in enumerate(written_out(engine, case.events(300))):
            if number % 30 == 0:
                assert expected_lyapunov(reference, best) <= (1 - reference.rate) * reference.lyapunov(best)
            reference.happen(*event)
        engine.run(case.events(300))
        np.testing.assert_allclose(engine.nodes.theta, reference.theta, rtol=0, atol=1e-9)


def test_nodes_that_are_rarely_visited_cost_nothing_if_they_are_smooth() -> None:
    """Jumps per factor e go as max kappa_i / pi_i, where equal edges need max kappa_i / min pi_i."""
    shards = rarely_visited(12)
    equal, weighted = (setup(shards, TVR(edges=edges), graph="star", kind="lazy") for edges in ("equal", "weighted"))
    jumps = [case.constants.p_comm / case.constants.rate for case in (equal, weighted)]
    pi, s = weighted.facts.walk.stationary, weighted.constants.sigma_t
    kappa = 1 + 1.5 * weighted.facts.batch_L() / s
    assert jumps[1] == pytest.approx(2 * (kappa / pi).max())
    assert jumps[1] < 0.15 * jumps[0]
    best = solve(shards, "logistic", 0.05)
    with weighted.engine() as engine:
        engine.run(weighted.events(round(25 / weighted.constants.rate)))
        assert np.abs(engine.tokens.theta - best).max() <= 1e-9


@pytest.mark.parametrize("settings", [{"compute": "on_arrival"}, {"tokens": 2, "interactions": 0.1}])
def test_weighted_edges_have_no_theory_for_other_variants(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"algorithm.edges=weighted has no theory for"):
        TVR(edges="weighted", **settings)
