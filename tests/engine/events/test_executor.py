"""The executor and its plans: any groups of nodes, cuts and waiting, and the result is that of one event at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoken.engine.events import executor as executor_module
from dtoken.engine.events import sleeping
from dtoken.engine.events.executor import DONE, WAITING, executor
from dtoken.engine.events.plan import FLUSH, Plan, Traffic, make_plan
from dtoken.engine.events.sleeping import AWAKE
from dtoken.engine.local import LocalEngine
from dtoken.engine.placement import balanced_groups
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.events import DELIVER, LOAD, LOCAL, MEET, MOVE, VISIT, Events
from dtoken.schedule.samples import Samples
from tests.engine.events.ordered import Ordered, happen
from tests.engine.small import setup, small_shards

N, K = 5, 3
METHOD = Ordered(tokens=K)
NOBODY = np.full(1, AWAKE)
CASE = setup(small_shards(n=N, m=4, seed=1), METHOD, graph="ring")


@pytest.fixture(scope="module")
def hosted() -> tuple[HostedRows, Samples]:
    with CASE.engine() as engine:
        return engine.rows, engine.samples()


def ordered_state(engine: LocalEngine) -> list[list[int]]:
    return [engine.nodes.h.tolist(), engine.nodes.rows.tolist(), engine.tokens.h.tolist()]


@st.composite
def event_lists(draw: st.DrawFn) -> Events:
    """Any events that are possible: tokens jump anywhere, meets happen where the first token is."""
    kinds = st.sampled_from([LOCAL, LOCAL, LOCAL, LOCAL, VISIT, VISIT, MEET, MOVE, LOAD, DELIVER])
    size = draw(st.integers(0, 120))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kind = np.array([draw(kinds) for _ in range(min(size, 30))] * 4, np.int8)[:size]
    node, token = rng.integers(0, N, len(kind)), rng.integers(0, K, len(kind))
    if draw(st.booleans()):
        node[: len(node) // 2] = node[0] if len(node) else 0  # long queues at one node
    other = (token + rng.integers(1, K, len(kind))) % K
    where = list(range(K))
    for e in range(len(kind)):
        if kind[e] in (VISIT, MOVE):
            where[token[e]] = node[e]
        elif kind[e] == MEET:
            node[e] = where[token[e]]
    return Events(
        kind,
        node.astype(np.int32),
        np.full(len(kind), -1, np.int32),
        np.where(kind == LOCAL, -1, token).astype(np.int32),
        np.where(kind == MEET, other, -1).astype(np.int32),
        np.where((kind == LOCAL) | (kind == VISIT), rng.random(len(kind)), -1.0),
        np.arange(1.0, len(kind) + 1),
    )


def plan_of(events: Events, mine: np.ndarray, hosted: tuple[HostedRows, Samples]) -> tuple[Plan, np.ndarray]:
    slot = np.where(mine, np.arange(N), -1)
    one_thread = Traffic(np.zeros(N, np.int64), 1, 0, np.zeros(K, np.int64), np.zeros(K, np.int64))
    plan = make_plan(events, slot, hosted[1], hosted[0].first, one_thread)
    return plan, np.concatenate([[0], plan.first[:-1]])


@given(events=event_lists(), groups=st.lists(st.integers(0, 2), min_size=N, max_size=N), data=st.data())
def test_any_groups_in_any_order_of_turns(
    events: Events, groups: list[int], data: st.DataObject, hosted: tuple[HostedRows, Samples]
) -> None:
    """Three executors take turns as hypothesis likes, each going on until it waits; cut once in the middle."""
    rows, samples = hosted
    run = executor(METHOD.local, METHOD.visit, METHOD.meet)
    nodes, tokens = METHOD.states(CASE.constants, rows)
    cut = data.draw(st.integers(0, events.size))
    for stretch in (events.between(0, cut), events.between(cut, events.size)):
        ready = np.zeros(K, np.int64)
        plans = [plan_of(stretch, np.array(groups) == group, hosted) for group in range(3)]
        left = [0, 1, 2]
        for _ in range(10 * (stretch.size + 3)):
            turn = data.draw(st.sampled_from(left)) if len(left) > 1 else left[0]
            plan, cursor = plans[turn]
            if run(plan, CASE.constants, rows, nodes, tokens, ready, NOBODY, cursor, np.zeros(2, np.int64), 0) == DONE:
                left.remove(turn)
            if not left:
                break
        assert not left, "the executors block each other"
    state = [nodes.h.tolist(), nodes.rows.tolist(), tokens.h.tolist()]
    assert state == happen(events, samples, rows.first, K)


def test_what_goes_ahead_while_a_token_is_elsewhere(hosted: tuple[HostedRows, Samples]) -> None:
    """A waiting visit holds up nothing but itself, what its token does next, and what comes later at its node."""
    rows, samples = hosted
    # node 0 is hosted elsewhere and has token 0 first; then token 0 visits node 1, and later token 1 does node 2
    kind = np.array([VISIT, *[LOCAL] * 40, VISIT, *[LOCAL] * 5, VISIT, LOCAL, VISIT, VISIT], np.int8)
    node = np.array([0, *[1, 2] * 20, 1, *[1] * 5, 2, 2, 1, 2], np.int32)
    token = np.array([0, *[-1] * 40, 0, *[-1] * 5, 1, -1, 2, 0], np.int32)
    none = np.full(len(kind), -1, np.int32)
    draw = np.where(kind == LOCAL, 0.3, -1.0)
    events = Events(kind, node, none, token, none, draw, np.arange(1.0, len(kind) + 1))
    run = executor(METHOD.local, METHOD.visit, METHOD.meet)
    nodes, tokens = METHOD.states(CASE.constants, rows)
    ready = np.zeros(K, np.int64)
    here, here_cursor = plan_of(events, np.arange(N) > 0, hosted)
    there, there_cursor = plan_of(events, np.arange(N) == 0, hosted)
    arguments = (CASE.constants, rows, nodes, tokens, ready, NOBODY)
    told = np.zeros(2, np.int64)

    over = 1  # of a visit that is done, beyond its last step
    for _ in range(2):  # the second time nothing more can be done
        assert run(here, *arguments, here_cursor, told, 1) == WAITING
        done = here_cursor[1:] - here.first[:-1]
        assert done.tolist() == [20, 20 + over, 0, 1]  # token 2 is here, but node 1 has another visit before
        assert here_cursor[0] == 0
        assert ready.tolist() == [0, 1, 0]
    assert executor_module.AHEAD_STEPS < 20  # so these were several portions

    assert run(there, *arguments, there_cursor, told, 1) == DONE
    assert run(here, *arguments, here_cursor, told, 1) == DONE
    assert ready.tolist() == [3, 1, 1]
    assert [nodes.h.tolist(), nodes.rows.tolist(), tokens.h.tolist()] == happen(events, samples, rows.first, K)


def test_plan_is_the_part_of_the_hosted_nodes(hosted: tuple[HostedRows, Samples]) -> None:
    events = CASE.events(400)
    mine = np.array([True, False, True, False, False])
    plan, _ = plan_of(events, mine, hosted)
    sizes = np.diff(plan.first)
    for i in range(N):
        steps = mine[i] * ((events.kind == LOCAL) & (events.node == i)).sum()
        assert sizes[plan.node == i].sum() == steps
    here = np.flatnonzero(mine[events.node] & ((events.kind == VISIT) | (events.kind == MEET)))
    assert plan.token[: len(here)].tolist() == events.token[here].tolist()
    assert (plan.token[len(here) :] == FLUSH).all()
    assert (sizes[len(here) :] > 0).all()
    assert plan.events == len(plan.row) + len(here) == (mine[events.node] & (events.kind != MOVE)).sum()
    for v, e in enumerate(here):
        earlier = events.between(0, int(e))
        k, taking = events.token[e], earlier.kind != LOCAL
        assert plan.turn[v] == (taking & ((earlier.token == k) | (earlier.other == k))).sum()
        if events.kind[e] == VISIT:
            i = events.node[e]
            waited = np.cumsum(sizes * (plan.node == i))[v]
            assert waited == ((earlier.kind == LOCAL) & (earlier.node == i)).sum()
        else:
            assert plan.node[v] == -1


@pytest.mark.parametrize("patience", [0, 1, 2000])
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_threads(threads: int, patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeping, "LOOKS", patience)
    monkeypatch.setattr(sleeping, "FEW_LOOKS", patience)
    events = CASE.events(3000)
    with CASE.engine(threads) as engine:
        for start in range(0, 3000, 700):
            engine.run(events.between(start, start + 700))
        assert ordered_state(engine) == happen(events, engine.samples(), engine.rows.first, K)


@given(cuts=st.lists(st.integers(0, 600), max_size=8), threads=st.integers(1, 3))
def test_cut_anywhere(cuts: list[int], threads: int) -> None:
    events = CASE.events(600)
    bounds = [0, *sorted(cuts), 600]  # a stretch may be empty
    with CASE.engine(threads) as engine:
        for start, stop in pairwise(bounds):
            engine.run(events.between(start, stop))
        assert ordered_state(engine) == happen(events, engine.samples(), engine.rows.first, K)


def test_moves_do_nothing_to_states() -> None:
    case = setup(small_shards(n=N, m=4, seed=1), Ordered(tokens=K, jumps=4), graph="ring")
    events = case.events(2000)
    assert (events.kind == MOVE).sum() > 100
    with case.engine(2) as engine:
        engine.run(events)
        assert ordered_state(engine) == happen(events, engine.samples(), engine.rows.first, K)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_step_that_fails_ends_all_threads(threads: int) -> None:
    """Threads that wait for the tokens of a failed one give up; the failure itself is what comes out."""
    probe = setup(small_shards(n=N, m=4, seed=1), METHOD, graph="ring")
    events = probe.events(20_000)
    with probe.engine() as engine:
        bad = int(engine.rows.first[2] + np.flatnonzero(engine.rows.q[engine.rows.first[2] :] > 0)[0])
    case = setup(small_shards(n=N, m=4, seed=1), Ordered(tokens=K, bad_row=bad), graph="ring")
    with case.engine(threads) as engine, pytest.raises(ValueError, match="the bad row"):
        engine.run(events)


def test_balanced_groups() -> None:
    """Every node has a group, groups are consecutive, and none has much more than its share of the work."""
    rng = np.random.default_rng(0)
    for groups in (1, 2, 3, 8):
        for work in (rng.integers(0, 50, 40), np.zeros(6, int), np.ones(3, int)):
            found = balanced_groups(work.tolist(), groups)
            assert len(found) == len(work)
            assert found.min() >= 0
            assert found.max() < groups
            assert (np.diff(found) >= 0).all()
            loads = np.bincount(found, work, groups)
            assert loads.max() <= work.sum() / groups + work.max()


def test_state_and_restore() -> None:
    """A copied state, restored into another engine with another number of threads, goes on with the same bits."""
    events = CASE.events(1000)
    with CASE.engine(1) as engine, CASE.engine(3) as other:
        engine.run(events.between(0, 400))
        kept = engine.part()
        engine.run(events.between(400, 1000))
        other.run(events.between(0, 123))
        other.restore([kept])
        other.run(events.between(400, 1000))
        assert ordered_state(other) == ordered_state(engine)
