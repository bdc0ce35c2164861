"""The ideal clock against the paper's rule by hand, against longest paths, and against itself cut anywhere."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoken.errors import InputError
from dtoken.schedule.clock import (
    NO_LIMITS,
    RULES,
    UNLIMITED,
    Clock,
    Costs,
    Limits,
    Rule,
    TimeModel,
    advance,
    start_clock,
)
from dtoken.schedule.events import DELIVER, LOAD, LOCAL, MEET, MOVE, VISIT, Events

Step = tuple[int, int, int]  # kind, node, token

N, K = 4, 3


def events_of(steps: list[Step], positions: list[int]) -> Events:
    """Write steps out, with the nodes from which tokens come."""
    where, source = list(positions), []
    for kind, node, token in steps:
        source.append(where[token] if kind in (VISIT, MOVE) else -1)
        if kind in (VISIT, MOVE):
            where[token] = node
    kind, node, token = (np.array(column) for column in zip(*steps, strict=True)) if steps else np.empty((3, 0), int)
    none = np.full(len(steps), -1)
    return Events(
        kind=kind.astype(np.int8),
        node=node.astype(np.int32),
        source=np.array(source, np.int32),
        token=np.where(kind == LOCAL, -1, token).astype(np.int32),
        other=none.astype(np.int32),
        draw=none.astype(float),
        at=np.arange(1.0, len(steps) + 1),
    )


def costs(local: int = 1, visit: int = 0, n: int = N) -> Costs:
    return Costs(np.full(n, local), np.full(n, visit))


def run(steps: list[Step], model: TimeModel, positions: list[int] | None = None, cost: Costs | None = None) -> Clock:
    clock = start_clock(N, K)
    assert advance(clock, events_of(steps, positions or [0, 1, 2]), cost or costs(), model) == len(steps)
    return clock


steps_lists = st.lists(
    st.tuples(st.sampled_from([LOCAL, VISIT, MOVE]), st.integers(0, N - 1), st.integers(0, K - 1)), max_size=40
)
taus = st.sampled_from([0.0, 0.5, 1.0, 10.0])
rules = st.sampled_from(RULES)
models = st.builds(TimeModel, tau_comp=taus, tau_comm=taus, rule=rules, charge_self_jumps=st.booleans())


@pytest.mark.parametrize(
    ("rule", "last"), [("paper", [[1, 11, 21], [1, 11, 22]]), ("token_clock", [[1, 11, 20], [1, 11, 21]])]
)
def test_worked_example(rule: Rule, last: list[list[float]]) -> None:
    """Three nodes, one token at node 0, tau_comp = 1, tau_comm = 10; node times after each event."""
    steps = [(LOCAL, 1, 0), (LOCAL, 1, 0), (VISIT, 1, 0), (LOCAL, 0, 0), (LOCAL, 1, 0), (VISIT, 2, 0), (LOCAL, 2, 0)]
    expected = [[0, 1, 0], [0, 2, 0], [0, 10, 0], [1, 10, 0], [1, 11, 0], *last]
    events, clock = events_of(steps, [0]), start_clock(3, 1)
    for number, row in enumerate(expected):
        advance(clock, events.between(number, number + 1), costs(n=3), TimeModel(1.0, 10.0, rule))
        assert clock.nodes.tolist() == row
        assert clock.elapsed == max(row)
    assert (clock.events, clock.steps, clock.jumps, clock.messages, clock.gradients) == (7, 7, 2, 2, 5)


@pytest.mark.parametrize("rule", RULES)
def test_self_jumps(rule: Rule) -> None:
    """A jump to the same node costs tau_comm by the formula; nothing when self-jumps are free. Never a message."""
    steps = [(VISIT, 0, 0), (VISIT, 0, 0)]
    for charged, elapsed in ((True, 20.0), (False, 0.0)):
        clock = run(steps, TimeModel(1.0, 10.0, rule, charged))
        assert (clock.elapsed, clock.jumps, clock.messages) == (elapsed, 2, 0)


def test_moves() -> None:
    """The paper's rule makes each node on the way wait; with a token clock only the visited one does."""
    steps = [(LOCAL, 3, 0)] * 30 + [(MOVE, 3, 0), (VISIT, 2, 0)]
    assert run(steps, TimeModel(1.0, 10.0, "paper")).nodes.tolist() == [0, 0, 40, 30]
    clock = run(steps, TimeModel(1.0, 10.0, "token_clock"))
    assert clock.nodes.tolist() == [0, 0, 20, 30]
    assert (clock.events, clock.steps, clock.jumps) == (32, 31, 2)


def test_a_step_takes_the_time_of_its_gradients() -> None:
    clock = run([(LOCAL, 1, 0), (VISIT, 1, 0)], TimeModel(2.0, 100.0), cost=costs(local=5, visit=3))
    assert clock.nodes.tolist() == [0, 106, 0, 0]
    assert clock.gradients == 8


def test_tokens_that_meet_wait_for_each_other() -> None:
    events = events_of([(VISIT, 1, 0), (VISIT, 1, 0), (MEET, 1, 0), (VISIT, 3, 1)], [0, 1, 2])
    events.other[2], events.source[2] = 1, 1
    clock = start_clock(N, K)
    advance(clock, events, costs(), TimeModel(1.0, 10.0, "token_clock"))
    assert clock.nodes.tolist() == [0, 20, 0, 30]
    assert (clock.steps, clock.jumps, clock.gradients) == (4, 3, 0)


def meeting(node: int, source: int, rule: Rule) -> Clock:
    """Tokens 0 and 1 meet on a path of four nodes after ten local steps at the second's node, then visit theirs."""
    events = events_of(
        [*[(LOCAL, source, 0)] * 10, (MEET, node, 0), (VISIT, node, 0), (VISIT, source, 1)], [node, source, 2]
    )
    events.other[10], events.source[10] = 1, source
    path = np.abs(np.arange(4)[:, None] - np.arange(4)).astype(np.int32)
    clock = start_clock(N, K)
    advance(clock, events, costs()._replace(hops=path), TimeModel(1.0, 100.0, rule, charge_self_jumps=False))
    return clock


@pytest.mark.parametrize(("rule", "nodes"), [("paper", [310, 0, 0, 610]), ("token_clock", [300, 0, 0, 600])])
def test_a_token_that_meets_another_elsewhere_goes_there_and_back(rule: Rule, nodes: list[float]) -> None:
    """Three hops there and three back; by the paper's rule it also waits for what its node computed."""
    clock = meeting(0, 3, rule)
    assert (clock.jumps, clock.messages) == (2 + 6, 6)
    assert clock.nodes.tolist() == nodes


@pytest.mark.parametrize("rule", RULES)
def test_tokens_that_meet_at_one_node_cost_nothing(rule: Rule) -> None:
    clock = meeting(0, 0, rule)
    assert (clock.jumps, clock.messages, clock.nodes.tolist()) == (2, 0, [10, 0, 0, 0])


@pytest.mark.parametrize("rule", RULES)
def test_a_message_to_several_nodes(rule: Rule) -> None:
    """It carries what was known when it was loaded, arrives tau_comm later, and loading takes no time."""
    steps = [*[(LOCAL, 0, 0)] * 5, (LOAD, 0, 0), (LOCAL, 0, 0), *[(LOCAL, 2, 0)] * 20, (DELIVER, 1, 0), (DELIVER, 2, 0)]
    events, clock = events_of(steps, [0]), start_clock(3, 1)
    events.source[-2:] = 0
    advance(clock, events, costs(n=3), TimeModel(1.0, 10.0, rule))
    assert clock.nodes.tolist() == [6, 15, 20]
    assert (clock.jumps, clock.messages, clock.gradients) == (2, 2, 26)


@given(steps_lists, taus, taus, st.booleans())
def test_token_clock_is_never_later(steps: list[Step], tau_comp: float, tau_comm: float, charge: bool) -> None:
    paper = run(steps, TimeModel(tau_comp, tau_comm, "paper", charge))
    token = run(steps, TimeModel(tau_comp, tau_comm, "token_clock", charge))
    assert (token.nodes <= paper.nodes).all()
    assert np.array_equal(token.counts, paper.counts)


@given(steps_lists, st.booleans())
def test_token_clock_is_the_longest_path(steps: list[Step], charge: bool) -> None:
    """The least possible time: longest path through the graph of what must wait for what."""
    tau_comp, tau_comm, visit_cost = 1.0, 2.5, 2
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_node("start")
    last_at_node, last_of_token = ["start"] * N, ["start"] * K
    travel, where = [0.0] * K, [0, 1, 2]
    for number, (kind, node, token) in enumerate(steps):
        hop = tau_comm if charge or where[token] != node else 0.0
        if kind == LOCAL:
            graph.add_edge(last_at_node[node], number, weight=tau_comp)
            last_at_node[node] = number
            continue
        travel[token], where[token] = travel[token] + hop, node
        if kind == VISIT:
            for before, delay in ((last_at_node[node], 0.0), (last_of_token[token], travel[token])):
                weight = delay + visit_cost * tau_comp
                known = graph.get_edge_data(before, number, {"weight": 0.0})["weight"]
                graph.add_edge(before, number, weight=max(weight, known))
            last_at_node[node] = last_of_token[token] = number
            travel[token] = 0.0
    longest = nx.dag_longest_path_length(graph)
    clock = run(steps, TimeModel(tau_comp, tau_comm, "token_clock", charge), cost=costs(visit=visit_cost))
    assert clock.elapsed == longest


@given(steps_lists, models, st.lists(st.integers(0, 40), max_size=5))
def test_cut_anywhere(steps: list[Step], model: TimeModel, cuts: list[int]) -> None:
    whole = run(steps, model)
    events, clock = events_of(steps, [0, 1, 2]), start_clock(N, K)
    bounds = sorted({0, len(steps), *(min(cut, len(steps)) for cut in cuts)})
    for start, stop in pairwise(bounds):
        advance(clock, events.between(start, stop), costs(), model)
    assert all(np.array_equal(a, b) for a, b in zip(clock, whole, strict=True))


@given(steps_lists, models, st.sampled_from(Limits._fields), st.integers(1, 12))
def test_limits(steps: list[Step], model: TimeModel, counter: str, every: int) -> None:
    """Each stretch ends with the first event but a move at the limit; the clock is that of the whole in the end."""
    events, clock = events_of(steps, [0, 1, 2]), start_clock(N, K)
    cost = costs(local=2)
    done, goal = 0, every
    while done < len(steps):
        limits = NO_LIMITS._replace(**{counter: goal})
        before = getattr(clock, counter)
        count = advance(clock, events.between(done, len(steps)), cost, model, limits)
        done += count
        reached = getattr(clock, counter) >= goal and events.kind[done - 1] != MOVE
        assert reached or done == len(steps)
        stops = np.flatnonzero(events.kind[done - count : done - 1] != MOVE) + done - count + 1
        if before < goal and len(stops):  # not earlier
            shorter = start_clock(N, K)
            advance(shorter, events.between(0, stops[-1]), cost, model)
            assert getattr(shorter, counter) < goal
        goal += every
    assert all(np.array_equal(a, b) for a, b in zip(clock, run(steps, model, cost=cost), strict=True))


@given(steps_lists, models)
def test_counters(steps: list[Step], model: TimeModel) -> None:
    clock, where, messages = run(steps, model), [0, 1, 2], 0
    for kind, node, token in steps:
        if kind != LOCAL:
            messages += where[token] != node
            where[token] = node
    kinds = [kind for kind, _, _ in steps]
    assert clock.events == len(steps)
    assert clock.steps == len(steps) - kinds.count(MOVE)
    assert clock.jumps == kinds.count(VISIT) + kinds.count(MOVE)
    assert clock.messages == messages
    assert clock.gradients == kinds.count(LOCAL)
    assert UNLIMITED > 10**18


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"tau_comp": -1.0}, "time.tau_comp=-1.0 must be a finite number, not a negative one"),
        ({"tau_comm": float("nan")}, "time.tau_comm=nan"),
        ({"tau_comm": float("inf")}, "time.tau_comm=inf"),
        ({"rule": "best"}, "time.rule=best is not known; use one of paper, token_clock"),
    ],
)
def test_wrong_times_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TimeModel(**settings)  # type: ignore[arg-type]
