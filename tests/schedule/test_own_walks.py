"""Walks by laws of their own, against chains, plain Python and the formulas of their papers."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dtoken.errors import InputError
from dtoken.graph import build
from dtoken.schedule.events import MOVE, VISIT
from dtoken.schedule.random import bits, uniform
from dtoken.schedule.stream import Drawn, Law, first_start
from dtoken.schedule.walks.contract import OwnWalk
from dtoken.schedule.walks.levy import Levy
from dtoken.schedule.walks.registry import check_law, make_walk
from dtoken.schedule.walks.rounds import Rounds
from dtoken.schedule.walks.self_repelling import SelfRepelling
from dtoken.schedule.walks.weighted import Weighted

BARBELL = build("barbell", 10, clique=4)
HEAVY = (1, 8)  # of its nodes, one on each side, and neither on the way to the other
WEIGHTS = (1.0, 5.0, 2.0, 3.0, 1.0, 1.0, 4.0, 2.0, 2.0, 9.0)


def drawn(topology: Any, law: Any, tokens: int = 1, seed: int = 5) -> Drawn:
    visits = Law(tokens=tokens, p_visit=1.0, p_meet=0.0, nodes=np.full(topology.n, 1 / topology.n))
    return Drawn(seed, visits, make_walk(topology, law.name, None, law))


def path_of(schedule: Drawn, tokens: int = 1, segments: int = 1) -> tuple[Any, Any]:
    start = first_start(schedule.walk.n, tokens)
    return [events for events, _ in islice(schedule.segments(start), segments)], start


def perron(P: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(P.T)
    found = np.real(vectors[:, np.argmax(np.real(values))])
    return found / found.sum()


def test_weighted_walk_has_the_law_that_is_given_and_detailed_balance() -> None:
    schedule = drawn(BARBELL, Weighted(WEIGHTS))
    P, pi = schedule.walk.transition().toarray(), np.array(WEIGHTS) / sum(WEIGHTS)
    np.testing.assert_allclose(perron(P), pi, atol=1e-12)
    np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=1e-15)
    assert schedule.walk.stationary.tolist() == pytest.approx(pi.tolist(), abs=1e-15)
    off = ~np.eye(10, dtype=bool)
    assert (P[off] > 0).tolist() == (BARBELL.adjacency[0].toarray()[off] > 0).tolist()


def test_levy_visits_are_the_chain_of_steps_and_jumps_along_edges() -> None:
    law = Levy(p_jump=0.4, p_distance=0.5, longest=3)
    schedule = drawn(BARBELL, law)
    A = BARBELL.adjacency[0].toarray().astype(float)
    W = A / A.sum(axis=1, keepdims=True)
    degree = A.sum(axis=1)
    MH = A / np.maximum(degree[:, None], degree[None])
    MH += np.diag(1 - MH.sum(axis=1))
    q = np.array([4, 2, 1]) / 7
    P = 0.6 * MH + 0.4 * (q[0] * W + q[1] * W @ W + q[2] * W @ W @ W)
    np.testing.assert_allclose(schedule.walk.transition().toarray(), P, atol=1e-15)
    np.testing.assert_allclose(schedule.walk.stationary, perron(P), atol=1e-10)
    (events,), _ = path_of(schedule)
    assert A[events.source, events.node][events.source != events.node].all()  # every move is along an edge
    assert events.size / np.count_nonzero(events.kind == VISIT) == pytest.approx(law.mean_moves, rel=0.01)
    assert set(events.kind) == {MOVE, VISIT}
    nodes = events.node[events.kind == VISIT]
    counts = np.zeros((10, 10))
    np.add.at(counts, (nodes[:-1], nodes[1:]), 1)
    seen = counts.sum(axis=1)
    sigma = np.sqrt(P * (1 - P) / seen[:, None]) + 1e-12
    assert np.abs((counts / seen[:, None] - P) / sigma).max() < 4.5


def crossings(law: Any, seed: int) -> np.ndarray:
    """Jumps that one token took each time from the heavy node of a side to that of the other."""
    parts, _ = path_of(drawn(BARBELL, law, seed=seed), segments=4)
    kind, node = np.concatenate([part.kind for part in parts]), np.concatenate([part.node for part in parts])
    there = np.flatnonzero((kind == VISIT) & np.isin(node, HEAVY))
    first = np.append(True, node[there[1:]] != node[there[:-1]])
    return np.diff(there[first])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_jumps_heavy_nodes_of_a_barbell_are_no_trap(seed: int) -> None:
    A = BARBELL.adjacency[0].toarray().astype(float)
    degree = A.sum(axis=1)
    W, others = A / degree[:, None], np.arange(10) != HEAVY[1]
    found = {}
    for weight in (10.0, 40.0):
        w = np.where(np.isin(np.arange(10), HEAVY), weight, 1.0)
        MH = A * np.minimum(1 / degree[:, None], w / w[:, None] / degree)
        MH += np.diag(1 - MH.sum(axis=1))
        P = 0.7 * MH + 0.3 * (4 * W + 2 * W @ W + W @ W @ W) / 7
        levy = Levy(p_jump=0.3, weights=tuple(w))
        for law, chain, moves in ((Weighted(tuple(w)), MH, 1.0), (levy, P, 0.7 + 0.3 * (4 + 2 * 2 + 3) / 7)):
            expected = moves * np.linalg.solve(np.eye(9) - chain[np.ix_(others, others)], np.ones(9))[HEAVY[0]]
            taken = crossings(law, seed)
            assert abs(taken.mean() - expected) < 4 * taken.std() / np.sqrt(len(taken))
            found[law.name, weight] = taken.mean()
    assert found["weighted", 40.0] > 2.5 * found["weighted", 10.0]  # as the weight grows, so does the time in the trap
    assert found["levy", 40.0] < 1.2 * found["levy", 10.0]
    assert found["levy", 40.0] < found["weighted", 40.0] / 5


def test_self_repelling_walk_is_the_formula_of_the_paper_step_by_step() -> None:
    law = SelfRepelling(alpha=3.0, weights=WEIGHTS)
    schedule = drawn(BARBELL, law, tokens=2)
    (first, second), start = path_of(schedule, 2, 2)
    P, pi = schedule.walk.transition().toarray(), np.array(WEIGHTS) / sum(WEIGHTS)
    visits, where, taken = np.ones((2, 10)), start.positions.tolist(), [0, 0]
    nodes, tokens = np.append(first.node, second.node), np.append(first.token, second.token)
    for event in [*range(500), *range(65000, 66000)]:  # across the end of a segment
        if event == 65000:
            for k in (0, 1):
                mine = nodes[:event][tokens[:event] == k]
                visits[k], where[k], taken[k] = 1.0 + np.bincount(mine, minlength=10), int(mine[-1]), len(mine)
        k = int(tokens[event])
        r = P[where[k]] * (visits[k] / pi) ** -3.0
        key = np.uint64(bits(np.uint64(bits(np.uint64(5), 2)), k))
        u = uniform(np.uint64(bits(key, taken[k])), 0)
        where[k] = int(np.searchsorted(np.cumsum(r) / r.sum(), u, side="right"))
        assert nodes[event] == where[k]
        visits[k, where[k]] += 1
        taken[k] += 1


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
def test_variance_of_averages_falls_as_the_paper_proves(alpha: float) -> None:
    n, tokens = 6, 1500
    schedule = drawn(build("complete", n), SelfRepelling(alpha=alpha), tokens=tokens)
    # on the complete graph with loops all other eigenvalues are 0: 1 / (2 alpha + 1) of the variance of draws
    events = path_of(schedule, tokens, 6)[0]
    shares = np.zeros((tokens, n))
    for part in events:
        np.add.at(shares, (part.token, part.node), 1)
    steps = shares.sum(axis=1)
    x = (shares[:, 0] / steps - 1 / n) * np.sqrt(steps)
    expected = (1 / n) * (1 - 1 / n) / (2 * alpha + 1)
    # 262 steps a token: the finite start with one visit each is felt, least without repulsion
    assert np.mean(x**2) == pytest.approx(expected, rel=0.12)


def test_rounds_visit_every_node_once_a_round() -> None:
    (events,), _ = path_of(drawn(build("complete", 7), Rounds(), tokens=3), 3)
    rounds = events.node[: 7 * 9000].reshape(-1, 7)
    assert (np.sort(rounds, axis=1) == np.arange(7)).all()
    share = np.array([np.bincount(rounds[:, place], minlength=7) for place in range(7)]) / len(rounds)
    assert np.abs(share - 1 / 7).max() < 0.02


@pytest.mark.parametrize(
    "law", [SelfRepelling(), SelfRepelling(shared=True), Levy(p_jump=0.5)], ids=lambda law: law.name
)
def test_any_segment_follows_from_its_start_alone(law: Any) -> None:
    schedule = drawn(BARBELL, law, tokens=3)
    parts = list(islice(schedule.segments(first_start(10, 3)), 3))
    again = replace(schedule)
    for _ in range(2):  # drawing changes nothing of a start
        events, following = again.segment(parts[1][1])
        assert all((a == b).all() for a, b in zip(events, parts[2][0], strict=True))
        assert (following.walk == parts[2][1].walk).all()


@dataclass(frozen=True)
class OneWay(OwnWalk):
    name = "one_way"

    def transition(self, topology: Any) -> Any:
        P = np.eye(topology.n)
        P[0] = 1 / topology.n
        return csr_array(P)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Weighted((1.0, 0.0)), "graph.weights has 0.0, but each node needs a positive number"),
        (lambda: Weighted("rows"), "graph.weights=rows is not known; use uniform or smoothness"),
        (lambda: drawn(BARBELL, Weighted((1.0, 2.0))), "graph.weights has 2 numbers, but there are 10 nodes"),
        (lambda: SelfRepelling(alpha=-1.0), "graph.alpha=-1.0 must be a finite number"),
        (lambda: Levy(p_jump=1.5), "graph.p_jump=1.5 is a probability"),
        (lambda: Levy(longest=0), "graph.longest=0, but a jump has from 1"),
        (lambda: drawn(BARBELL, Rounds()), "graph.walk=rounds needs graph=complete"),
        (lambda: drawn(BARBELL, OneWay()), "cannot get from node 0 to node 1 and back"),
        (lambda: drawn(build("directed_cycle", 4), Weighted()), "needs an undirected graph"),
        (lambda: drawn(build("time_varying", 5), Levy()), "needs one graph"),
        (lambda: drawn(BARBELL, SelfRepelling()).walk.mixing(0.1), "remembers where it was"),
        (lambda: check_law(int, "builtins.int"), "graph.walk=builtins.int is not a dataclass that inherits"),
    ],
)
def test_bad_input_is_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make()
