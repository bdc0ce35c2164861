"""Walks against closed forms and brute force."""

import numpy as np
import pytest
from scipy import stats

from dtoken.errors import InputError
from dtoken.graph import REGISTRY, build, chain, step, walk

UNDIRECTED = ["ring", "path", "grid", "torus", "star", "hypercube", "erdos_renyi", "geometric", "barbell"]


def made(kind, n=16):
    return build(kind, n)


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY if kind != "edge_list"])
@pytest.mark.parametrize("law", ["simple", "lazy", "metropolis"])
def test_tables_are_stochastic_and_pi_is_their_law(kind, law):
    topology = made(kind)
    if topology.directed and law == "metropolis":
        pytest.skip("needs an undirected graph")
    w = walk(topology, law)
    assert w.indptr.dtype == np.int64
    assert w.neighbours.dtype == np.int32
    product = np.eye(w.n)
    for table in range(w.period):
        P = w.transition(table).toarray()
        assert P.min() >= 0
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-14)
        product = product @ P
    np.testing.assert_allclose(w.phase_laws[0] @ product, w.phase_laws[0], rtol=0, atol=1e-14)
    assert w.stationary.min() > 0
    assert w.stationary.sum() == pytest.approx(1, abs=1e-14)
    if not w.iid:
        ends = w.cumulative[w.indptr[:, 1:] - 1]
        assert (ends == 1.0).all()


@pytest.mark.parametrize("kind", UNDIRECTED)
def test_metropolis_is_reversible_and_uniform(kind):
    P = walk(made(kind), "metropolis").transition().toarray()
    np.testing.assert_allclose(P, P.T, rtol=0, atol=1e-15)  # detailed balance for the uniform law


@pytest.mark.parametrize("kind", UNDIRECTED)
def test_simple_walk_is_reversible(kind):
    w = walk(made(kind))
    flow = w.stationary[:, None] * w.transition().toarray()
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-15)


def test_stationary_laws_in_closed_form():
    np.testing.assert_allclose(walk(build("star", 6)).stationary, [0.5, *[0.1] * 5])
    np.testing.assert_allclose(walk(build("path", 5)).stationary, [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8])
    np.testing.assert_allclose(walk(build("directed_cycle", 5)).stationary, np.full(5, 0.2))
    np.testing.assert_allclose(walk(build("time_varying", 8)).stationary, np.full(8, 1 / 8))


def test_stationary_law_of_a_sequence_is_the_average_over_its_jumps():
    w = walk(build("time_varying", 5, graphs=["star", "ring"], hold=2), "lazy")
    star, ring = w.transition(0).toarray(), w.transition(1).toarray()
    law, total = np.full(5, 0.2), np.zeros(5)
    for jump in range(4000):
        law = law @ (star, ring)[w.table(jump)]
        total += law * (jump >= 2000)
    assert [w.table(jump) for jump in range(6)] == [0, 0, 1, 1, 0, 0]
    np.testing.assert_allclose(w.stationary, total / 2000, atol=1e-12)


@pytest.mark.parametrize("n", [5, 8, 501, 600])
def test_ring_spectral_gap(n):
    assert walk(build("ring", n), "lazy").spectral_gap == pytest.approx((1 - np.cos(2 * np.pi / n)) / 2, rel=1e-6)
    simple = 1 - np.cos(np.pi / n) if n % 2 else 0.0  # the eigenvalue nearest to -1 decides on odd rings
    assert walk(build("ring", n)).spectral_gap == pytest.approx(simple, rel=1e-6)


def test_spectral_gaps_in_closed_form():
    assert walk(build("complete", 50)).spectral_gap == 1
    assert walk(build("complete", 50), "lazy").spectral_gap == pytest.approx(0.5)
    assert walk(build("star", 9), "lazy").spectral_gap == pytest.approx(0.5)
    assert walk(build("hypercube", 16), "lazy").spectral_gap == pytest.approx(1 / 4)
    # (1 + e^{i t}) / 2 has modulus cos(t / 2)
    assert walk(build("directed_cycle", 7), "lazy").spectral_gap == pytest.approx(1 - np.cos(np.pi / 7))


@pytest.mark.parametrize("stay", [0.0, 1 / 3, 0.5, 0.9])
@pytest.mark.parametrize("n", [5, 8])
def test_a_lazy_walk_with_a_probability_to_stay(n, stay):
    """Eigenvalues of the ring are s + (1 - s) cos(2 pi k / n); s = 1/3: to the left, to the right or nowhere."""
    w = walk(build("ring", n), "lazy", stay)
    P = w.transition().toarray()
    expected = stay * np.eye(n) + (1 - stay) / 2 * (np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    np.testing.assert_allclose(P, expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(w.stationary, np.full(n, 1 / n))
    moduli = np.sort(np.abs(stay + (1 - stay) * np.cos(2 * np.pi * np.arange(n) / n)))
    assert w.spectral_gap == pytest.approx(1 - moduli[-2], abs=1e-12)
    assert w.aperiodic == (stay > 0 or n % 2 == 1)
    if w.aperiodic:
        assert w.mixing(0.02) == brute_force_mixing(w, 0.02)


def test_staying_does_not_change_the_law():
    star = walk(build("star", 5), "lazy", 1 / 3)
    np.testing.assert_allclose(star.stationary, [0.5, 0.125, 0.125, 0.125, 0.125])
    np.testing.assert_allclose(star.stationary @ star.transition().toarray(), star.stationary, atol=1e-15)
    complete = walk(build("complete", 4), "lazy", 0.2).transition().toarray()
    np.testing.assert_allclose(complete, np.full((4, 4), 0.2) + 0.2 * np.eye(4))
    assert walk(build("complete", 4), "lazy", 0.0).iid


@pytest.mark.parametrize("kind", ["random_regular", "erdos_renyi"])
def test_sparse_and_dense_spectra_agree(kind):
    w = walk(build(kind, 600))
    values = np.sort(np.abs(np.linalg.eigvals(w.transition().toarray())))
    assert w.spectral_gap == pytest.approx(1 - values[-2], rel=1e-8)


@pytest.mark.parametrize(("kind", "law"), [("random_regular", "simple"), ("grid", "lazy"), ("power_law", "metropolis")])
def test_the_estimate_of_lanczos_is_within_its_error(kind, law, monkeypatch):
    exact = walk(build(kind, 900), law)
    assert exact.gap_error == 0
    monkeypatch.setattr(chain, "LANCZOS", 500)
    monkeypatch.setattr(chain, "MIXING_ENTRIES", 1)
    w = walk(build(kind, 900), law)
    assert 0 < w.gap_error < 2e-3 * w.spectral_gap
    assert abs(w.spectral_gap - exact.spectral_gap) <= w.gap_error
    assert w.mixing(1e-5) >= exact.mixing(1e-5)


def test_a_gap_that_lanczos_cannot_tell_from_zero_has_no_mixing(monkeypatch):
    monkeypatch.setattr(chain, "LANCZOS", 500)
    monkeypatch.setattr(chain, "LANCZOS_STEPS", 20)
    with pytest.raises(InputError, match=r"too small to be told from 0 .* set algorithm.jumps"):
        walk(build("ring", 2500), "lazy").mixing(1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_large_directed_chain_has_the_perron_law_and_its_gap(seed):
    w = walk(build("directed_random", 600, seed=seed))
    P = w.transition().toarray()
    np.testing.assert_allclose(w.stationary @ P, w.stationary, rtol=0, atol=1e-13)
    assert w.spectral_gap == pytest.approx(1 - np.sort(np.abs(np.linalg.eigvals(P)))[-2], rel=1e-8)


def brute_force_mixing(w, eps):
    starts = [np.eye(w.n) for _ in range(w.period * w.hold)]
    for length in range(1, 5000):
        starts = [Q @ w.transition(w.table(s + length - 1)).toarray() for s, Q in enumerate(starts)]
        if max(np.abs(Q - w.stationary).max() for Q in starts) <= eps:
            return length
    raise AssertionError("does not mix")


@pytest.mark.parametrize(
    ("topology", "law"),
    [
        (build("ring", 7), "simple"),
        (build("ring", 8), "lazy"),
        (build("grid", 9), "metropolis"),
        (build("star", 6), "lazy"),
        (build("complete", 5), "lazy"),
        (build("directed_random", 9), "simple"),
        (build("directed_cycle", 5), "lazy"),
        (build("time_varying", 7, period=3), "simple"),
        (build("time_varying", 6, graphs=["path", "ring"], hold=2), "metropolis"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
@pytest.mark.parametrize("eps", [0.3, 0.02, 1e-7])
def test_mixing_is_the_smallest_number_of_jumps(topology, law, eps):
    w = walk(topology, law)
    assert w.mixing(eps) == brute_force_mixing(w, eps)


def test_mixing_of_the_complete_graph_is_one_jump():
    assert walk(build("complete", 10_000)).mixing(1e-9) == 1


def test_mixing_bound_of_a_large_graph_is_not_below_the_exact_value(monkeypatch):
    exact = walk(build("grid", 36), "metropolis").mixing(1e-4)
    monkeypatch.setattr("dtoken.graph.chain.MIXING_ENTRIES", 10)
    assert exact <= walk(build("grid", 36), "metropolis").mixing(1e-4) <= 3 * exact
    with pytest.raises(InputError, match=r"too large to find its mixing; set algorithm\.jumps"):
        walk(build("directed_random", 36)).mixing(1e-4)


@pytest.mark.parametrize(
    ("kind", "n", "period"),
    [
        ("ring", 6, 2),
        ("ring", 7, 1),
        ("path", 5, 2),
        ("grid", 12, 2),
        ("star", 5, 2),
        ("hypercube", 8, 2),
        ("torus", 9, 1),
        ("barbell", 8, 1),
        ("complete", 4, 1),
        ("directed_cycle", 5, 5),
    ],
)
def test_periods(kind, n, period):
    w = walk(build(kind, n))
    assert w.period_of_chain == period
    assert w.aperiodic == (period == 1)
    assert walk(build(kind, n), "lazy").aperiodic
    if period > 1:
        assert w.spectral_gap == 0
        with pytest.raises(InputError, match=f"period {period}.*never mixes; use graph.walk=lazy"):
            w.mixing(0.1)


def test_metropolis_period():
    assert walk(build("ring", 6), "metropolis").period_of_chain == 2  # every move is accepted: the simple walk
    assert walk(build("path", 6), "metropolis").period_of_chain == 1  # the ends refuse half of their moves


def test_a_walk_caught_by_the_order_of_the_graphs_is_refused():
    # From phase to phase, both rings swap even and odd nodes: a token never changes its side.
    caught = build("time_varying", 6, graphs=["ring", {"kind": "grid", "shape": [2, 3]}])
    with pytest.raises(InputError, match=r"falls into 2 parts that it never leaves.*graph\.walk=lazy"):
        walk(caught)
    assert walk(caught, "lazy").aperiodic
    # The star sends every token to node 0, the ring from there to 1 or 4: nodes 2 and 3 are never seen again.
    with pytest.raises(InputError, match="only 3 of the 5 nodes"):
        walk(build("time_varying", 5, graphs=["star", "ring"]))


@pytest.mark.parametrize("hold", [1, 2, 3])
@pytest.mark.parametrize("jumps", [1, 2, 3, 4, 6, 7])
def test_law_of_visits_is_the_mean_over_every_nth_jump(jumps, hold):
    w = walk(build("time_varying", 5, graphs=["star", "ring", "path", "directed_cycle"], hold=hold), "lazy")
    tables = [w.transition(table).toarray() for table in range(4)]
    law, at_visits = np.eye(5)[2], []
    for jump in range(jumps * 600):
        law = law @ tables[w.table(jump)]
        if (jump + 1) % jumps == 0:
            at_visits.append(law)
    cycle = 4 * hold  # after so many visits the sequence of graphs is where it was
    np.testing.assert_allclose(w.visit_law(jumps), np.mean(at_visits[-cycle:], axis=0), rtol=0, atol=1e-12)


def test_visits_that_never_reach_some_nodes_are_refused(tmp_path):
    """On an even ring every second jump ends on the same side; where all edges lead to node 0, there."""
    assert walk(build("ring", 6)).visit_law(3) == pytest.approx(np.full(6, 1 / 6))
    assert walk(build("ring", 5)).visit_law(2) == pytest.approx(np.full(5, 1 / 5))
    for kind, n, jumps in [("ring", 6, 2), ("directed_cycle", 6, 3), ("star", 5, 4)]:
        with pytest.raises(InputError, match=f"jumps={jumps}, but the simple walk .* only some of the nodes"):
            walk(build(kind, n)).visit_law(jumps)
    assert walk(build("ring", 6), "lazy").visit_law(2) == pytest.approx(np.full(6, 1 / 6))
    (tmp_path / "home").write_text("1 0\n2 0\n")
    home = {"kind": "edge_list", "path": str(tmp_path / "home"), "directed": True}
    in_turns = walk(build("time_varying", 3, graphs=["complete", home]))
    assert in_turns.visit_law(3) == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    with pytest.raises(InputError, match=r"every 2 jumps the simple walk .* is never at node 1; use algorithm.jumps=1"):
        in_turns.visit_law(2)


def test_a_law_that_changes_inside_the_period_is_refused_for_mixing():
    w = walk(build("time_varying", 5, graphs=["star", "ring"]), "lazy")
    with pytest.raises(InputError, match=r"never comes within 1e-06 .* use algorithm\.mixing above 0\.\d+ or"):
        w.mixing(1e-6)
    needed = float(np.abs(w.phase_laws - w.stationary).max())
    assert w.mixing(1.01 * needed) > 1


@pytest.mark.parametrize(
    ("kind", "law", "words"),
    [
        ("ring", "levy", "graph.walk=levy is not known; use one of simple, lazy, metropolis"),
        ("directed_cycle", "metropolis", "needs an undirected graph"),
    ],
)
def test_refusals(kind, law, words):
    with pytest.raises(InputError, match=words):
        walk(build(kind, 6), law)


def test_eps_and_table_limits():
    with pytest.raises(InputError, match=r"use a larger algorithm\.mixing"):
        walk(build("ring", 5)).mixing(0)
    with pytest.raises(InputError, match=r"too many for nodes=10000; use graph=complete with graph\.walk=simple"):
        walk(build("complete", 10_000), "lazy")


@pytest.mark.parametrize("law", ["simple", "lazy", "metropolis"])
@pytest.mark.parametrize("kind", ["grid", "star", "complete", "directed_random", "time_varying"])
def test_step_has_the_law_of_the_table(kind, law):
    topology = build(kind, 9)
    if topology.directed and law == "metropolis":
        pytest.skip("needs an undirected graph")
    w = walk(topology, law)
    draws = np.random.default_rng(7).random(4000)
    for position, table in [(0, 0), (4, w.period - 1)]:
        landed = [step(w.indptr, w.neighbours, w.cumulative, position, table, u) for u in draws]
        counts = np.bincount(landed, minlength=9)
        P = w.transition(table).toarray()[position]
        assert counts[P == 0].sum() == 0
        if (P > 0).sum() > 1:
            assert stats.chisquare(counts[P > 0], P[P > 0] * len(draws)).pvalue > 1e-3


def test_step_stays_inside_at_both_ends_of_the_unit_interval():
    last = np.nextafter(1.0, 0.0)
    for kind, law, ends in [
        ("ring", "simple", (1, 9)),
        ("complete", "simple", (0, 9)),
        ("ring", "lazy", (0, 9)),
    ]:
        w = walk(build(kind, 10), law)
        got = tuple(step(w.indptr, w.neighbours, w.cumulative, 0, 0, u) for u in (0.0, last))
        assert got == ends


@pytest.mark.parametrize("kind", ["ring", "grid"])
def test_ten_thousand_nodes(kind):
    w = walk(build(kind, 10_000), "lazy")
    degree = np.diff(w.topology.adjacency[0].indptr)
    np.testing.assert_allclose(w.stationary, degree / degree.sum())
    assert w.aperiodic
