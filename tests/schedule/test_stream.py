"""The drawn schedule: a pure function of its seed, with the laws that it promises."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dtoken.graph import build, walk
from dtoken.schedule.events import KINDS, LOCAL, MEET, MOVE, VISIT, Events, concatenate
from dtoken.schedule.permuted import Order, slots
from dtoken.schedule.stream import SEGMENT_STEPS, Drawn, Law, Start, first_start

UNLIKELY = 1e-4  # a p-value below this fails; seeds are fixed, so a test that passes once always does


def drawn(
    n: int = 6, graph: str = "complete", kind: str = "simple", seed: int = 0, params: Any = None, **law: Any
) -> Drawn:
    settings = {"tokens": 2, "p_visit": 0.3, "p_meet": 0.0, "nodes": np.full(n, 1 / n)} | law
    return Drawn(seed, Law(**settings), walk(build(graph, n, **(params or {})), kind))


def first(schedule: Drawn, segments: int = 1) -> Events:
    start, parts = first_start(schedule.walk.n, schedule.law.tokens), []
    for _ in range(segments):
        events, start = schedule.segment(start)
        parts.append(events)
    return concatenate(parts)


def assert_law(observed: Any, expected: Any) -> None:
    """Chi-square test of counts against probabilities; what has probability 0 must not occur."""
    observed, expected = np.asarray(observed, float).ravel(), np.asarray(expected, float).ravel()
    assert (observed[expected == 0] == 0).all()
    observed, expected = observed[expected > 0], expected[expected > 0]
    if len(expected) > 1:
        assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > UNLIKELY


def equal(a: Events, b: Events) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


SCHEDULES = {
    "complete": drawn(),
    "ring, 3 jumps": drawn(graph="ring", jumps=3),
    "varying": drawn(graph="time_varying", params={"period": 4, "hold": 2}),
    "meets at nodes": drawn(tokens=4, graph="ring", jumps=2, kind="lazy", p_here=0.5),
    "continuized, meets": drawn(tokens=3, p_meet=0.2, continuized=True, computing_visits=True),
    "permuted": drawn(order=Order(np.array([1, 40, 77, 300_000, 64, 5]), 4)),
    "permuted, on arrival": drawn(order=Order(np.arange(20, 26), 1), p_visit=1.0, computing_visits=True),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_pure_function_of_the_seed(schedule: Drawn) -> None:
    """A segment is the same in the sequence, alone from its start, by a copy, and after others were drawn."""
    stream = schedule.segments(first_start(6, schedule.law.tokens))
    start, sequence = first_start(6, schedule.law.tokens), []
    for _ in range(3):
        events, following = next(stream)
        sequence.append((start, events))
        start = following
    copy = pickle.loads(pickle.dumps(schedule))
    for start, events in reversed(sequence):
        own = Start(start.segment, start.positions.copy(), start.jumps.copy(), start.at, start.used.copy())
        assert equal(copy.segment(own)[0], events)
        assert np.array_equal(own.positions, start.positions)  # not touched
        assert np.array_equal(own.jumps, start.jumps)
        assert np.array_equal(own.used, start.used)
    assert not equal(sequence[0][1], sequence[1][1])
    other = Drawn(1, schedule.law, schedule.walk)
    assert not np.array_equal(first(other).draw, sequence[0][1].draw)


@pytest.mark.parametrize("computing_visits", [False, True])
def test_permuted_events_go_through_the_samples_of_their_nodes_in_order(computing_visits: bool) -> None:
    """Across segments; only events that use a sample count, and nothing else of the schedule changes."""
    sizes, bucket = np.array([1, 40, 77, 300_000, 64, 5]), 4
    independent = first(drawn(computing_visits=computing_visits, seed=5), 3)
    events = first(drawn(computing_visits=computing_visits, seed=5, order=Order(sizes, bucket)), 3)
    assert equal(events._replace(draw=independent.draw), independent)
    drawing = events.draw >= 0
    assert np.array_equal(drawing, independent.draw >= 0)
    assert drawing[events.kind == VISIT].all() == computing_visits
    for node, size in enumerate(sizes):
        own = (events.draw[drawing & (events.node == node)] * size).astype(int)  # as hosts of uniform samples read it
        assert own.tolist() == slots(5, node, size, bucket, 0, len(own)).tolist()


def test_numbers_of_segments_and_seeds_do_not_overlap() -> None:
    """No draw occurs twice in two segments of two seeds: a shared stretch of the generator would show."""
    draws = [first(drawn(seed=seed), 2).draw for seed in (0, 1)]
    used = np.concatenate([draw[draw >= 0] for draw in draws])
    assert len(np.unique(used)) == len(used)


def test_kinds_nodes_tokens() -> None:
    nodes = np.array([0.1, 0.3, 0.0, 0.25, 0.25, 0.1])
    events = first(drawn(nodes=nodes, tokens=3, p_visit=0.2, p_meet=0.1), 3)
    kinds = np.bincount(events.kind, minlength=4)
    assert kinds.sum() == 3 * SEGMENT_STEPS
    assert_law(kinds, [0.7, 0.2, 0.1, 0.0])
    assert_law(np.bincount(events.node[events.kind == LOCAL], minlength=6), nodes)
    assert_law(np.bincount(events.node[events.kind == VISIT], minlength=6), np.full(6, 1 / 6))
    assert_law(np.bincount(events.token[events.kind == VISIT], minlength=3), np.full(3, 1 / 3))
    # independent: consecutive kinds, and the node and the draw of a local step
    pairs = np.bincount(4 * events.kind[:-1] + events.kind[1:], minlength=16)
    assert_law(pairs, np.outer([0.7, 0.2, 0.1, 0], [0.7, 0.2, 0.1, 0]))
    local = events.kind == LOCAL
    table = np.bincount(4 * events.node[local] + (4 * events.draw[local]).astype(int), minlength=24)
    assert_law(table, np.outer(nodes, np.full(4, 0.25)))
    assert stats.kstest(events.draw[local], "uniform").pvalue > UNLIKELY


def test_many_nodes_with_very_different_rates() -> None:
    """The search for the node of a step, by a table of guides, against the law of 1000 nodes."""
    nodes = np.random.default_rng(0).lognormal(0, 2, 1000)
    nodes /= nodes.sum()
    events = first(drawn(n=1000, nodes=nodes), 2)
    counts = np.bincount(events.node[events.kind == LOCAL], minlength=1000)
    order = np.argsort(nodes)
    groups = [order[np.cumsum(nodes[order]) // 0.02 == part] for part in range(50)]
    assert_law([counts[group].sum() for group in groups], [nodes[group].sum() for group in groups])


def test_meets_pair_two_tokens_uniformly() -> None:
    events = first(drawn(tokens=4, p_visit=0.1, p_meet=0.5))
    meets = events.kind == MEET
    k, other = events.token[meets], events.other[meets]
    assert_law(np.bincount(4 * k + other, minlength=16), 1 - np.eye(4))
    # it happens where token k is, the other one comes from where it is
    where = first_start(6, 4).positions.copy()
    columns = (events.kind, events.node, events.source, events.token, events.other)
    for kind, node, source, token, other in zip(*columns, strict=True):
        if kind == VISIT:
            where[token] = node
        elif kind == MEET:
            assert (node, source) == (where[token], where[other])


@pytest.mark.parametrize("jumps", [1, 2])
def test_tokens_meet_where_they_are(jumps: int) -> None:
    """With probability P after a visit to a node where others are, with one of them; the rest is as without."""
    settings: dict[str, Any] = {"n": 4, "graph": "ring", "kind": "lazy", "tokens": 4, "jumps": jumps, "p_visit": 0.5}
    events, alone = first(drawn(**settings, p_here=0.3), 2), first(drawn(**settings), 2)
    meets = events.kind == MEET
    assert equal(Events(*(column[~meets] for column in events)), alone)
    where = first_start(4, 4).positions.copy()
    chances, ranks = np.zeros(2, int), np.zeros((4, 3), int)  # not met, met; by company, which of it
    for e in range(events.size):
        if events.kind[e] in (VISIT, MOVE):
            where[events.token[e]] = events.node[e]
        if events.kind[e] == VISIT:
            others = [k for k in range(4) if k != events.token[e] and where[k] == events.node[e]]
            met = e + 1 < events.size and bool(meets[e + 1])
            assert not met or others
            chances[int(met)] += bool(others)
            if met:
                found = (events.token[e + 1], events.node[e + 1], events.source[e + 1], events.at[e + 1])
                assert found == (events.token[e], events.node[e], events.node[e], events.at[e])
                ranks[len(others), others.index(events.other[e + 1])] += 1
    assert_law(chances, [0.7, 0.3])
    assert chances[1] == meets.sum() > 1000
    for company in (2, 3):
        assert_law(ranks[company, :company], np.ones(company))


@pytest.mark.parametrize(
    ("graph", "kind", "params"),
    [
        ("ring", "simple", {}),
        ("grid", "metropolis", {}),
        ("star", "lazy", {}),
        ("directed_cycle", "simple", {}),
        ("directed_random", "simple", {"degree": 2}),
        ("time_varying", "simple", {"period": 3, "hold": 2}),
        ("time_varying", "simple", {"graphs": ["ring", "star", "complete"], "hold": 5}),
    ],
)
@pytest.mark.parametrize("jumps", [1, 3])
def test_walks(graph: str, kind: str, params: dict[str, Any], jumps: int) -> None:
    """Tokens go from where they were along edges of the graph of that jump, with the probabilities of its table."""
    schedule = drawn(graph=graph, kind=kind, params=params, jumps=jumps, p_visit=0.6)
    events = first(schedule, 2)
    jump = events.kind != LOCAL
    where = first_start(6, 2).positions.copy()
    assert where.tolist() == [0, 3]
    for source, node, token in zip(events.source[jump], events.node[jump], events.token[jump], strict=True):
        assert source == where[token]  # also from one segment to the next
        where[token] = node
    tables = np.empty(jump.sum(), int)
    for token in range(2):  # its own jumps are its clock
        own = np.flatnonzero(events.token[jump] == token)
        tables[own] = np.arange(len(own)) // schedule.walk.hold % schedule.walk.period
    for table in range(schedule.walk.period):
        P = schedule.walk.transition(table).toarray()
        used = tables == table
        counts = np.bincount(6 * events.source[jump][used] + events.node[jump][used], minlength=36).reshape(6, 6)
        for i in range(6):
            if counts[i].sum():
                assert_law(counts[i], P[i])


@pytest.mark.parametrize("hold", [1, 2, 5])
@pytest.mark.parametrize("jumps", [1, 2, 3])
@pytest.mark.parametrize("tokens", [1, 3, 7])
def test_visits_on_graphs_that_vary(tokens: int, jumps: int, hold: int) -> None:
    """Each node gets its share of the visits, within 4.5 standard errors (of the means of 64 stretches)."""
    params = {"graphs": ["star", "ring", "path"], "hold": hold}
    schedule = drawn(graph="time_varying", kind="lazy", params=params, jumps=jumps, tokens=tokens, p_visit=0.9)
    events = first(schedule, 3)
    node = events.node[events.kind == VISIT]
    node = node[: len(node) // 64 * 64].reshape(64, -1)
    shares = np.stack([np.bincount(stretch, minlength=6) for stretch in node]) / node.shape[1]
    error = shares.std(axis=0, ddof=1) / 8
    assert (np.abs(shares.mean(axis=0) - schedule.walk.visit_law(jumps)) < 4.5 * error).all()
    assert error.max() < 0.005


@pytest.mark.parametrize("jumps", [1, 2, 5])
def test_moves_come_before_a_visit(jumps: int) -> None:
    """A step of N jumps is N - 1 moves and a visit of the same token at the same time, with nothing in between."""
    events = first(drawn(graph="ring", jumps=jumps))
    assert events.kind.max() <= MOVE
    visits = np.flatnonzero(events.kind == VISIT)
    assert (events.kind == MOVE).sum() == (jumps - 1) * len(visits)
    for back in range(1, jumps):
        assert (events.kind[visits - back] == MOVE).all()
        assert (events.token[visits - back] == events.token[visits]).all()
        assert (events.at[visits - back] == events.at[visits]).all()
        assert (events.node[visits - back] == events.source[visits - back + 1]).all()
    assert (events.kind != MOVE).sum() == SEGMENT_STEPS


def test_columns_that_do_not_apply_are_minus_one() -> None:
    events = first(drawn(p_meet=0.2, jumps=2))
    for kind, columns in {
        LOCAL: ("source", "token", "other"),
        VISIT: ("other", "draw"),
        MOVE: ("other", "draw"),
        MEET: ("draw",),
    }.items():
        for column in columns:
            assert (getattr(events, column)[events.kind == kind] == -1).all(), (KINDS[kind], column)


def test_computing_visits_have_a_draw() -> None:
    events = first(drawn(computing_visits=True, jumps=2))
    assert stats.kstest(events.draw[events.kind == VISIT], "uniform").pvalue > UNLIKELY
    assert (events.draw[events.kind == MOVE] == -1).all()


def test_time_of_discrete_steps() -> None:
    """Step t, from 0, happens at (t + 1) * unit: exactly, in any segment."""
    events = first(drawn(unit=0.1, jumps=2), 2)
    steps = events.at[events.kind != MOVE]
    assert np.array_equal(steps, 0.1 * np.arange(1, 2 * SEGMENT_STEPS + 1))


def test_time_of_continuized_steps() -> None:
    events = first(drawn(continuized=True), 2)
    gaps = np.diff(events.at, prepend=0.0)
    assert stats.kstest(gaps, "expon").pvalue > UNLIKELY
    local = np.diff(events.at[events.kind == LOCAL])  # thinning: again a Poisson process
    assert stats.kstest(local * 0.7, "expon").pvalue > UNLIKELY


def test_tokens_begin_evenly_spread() -> None:
    assert first_start(10, 4).positions.tolist() == [0, 2, 5, 7]
    assert first_start(3, 3).positions.tolist() == [0, 1, 2]


def test_complete_graph_jumps_are_independent_and_uniform() -> None:
    """Also to the node where the token is, as in the paper."""
    events = first(drawn(p_visit=0.8), 2)
    visits = events.kind == VISIT
    assert_law(np.bincount(6 * events.source[visits] + events.node[visits], minlength=36), np.ones(36))
