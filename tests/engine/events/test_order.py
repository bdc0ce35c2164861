"""The order in which events happen where memory is short."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtoken.engine.events.order import node_by_node
from dtoken.schedule.events import LOCAL, MEET, MOVE, VISIT, Events


def some_events(rng: np.random.Generator, count: int, nodes: int) -> Events:
    kind = rng.choice([LOCAL, VISIT, MEET, MOVE], count, p=[0.8, 0.14, 0.03, 0.03]).astype(np.int8)
    node = rng.integers(nodes, size=count).astype(np.int32)
    none = np.full(count, -1, np.int32)
    return Events(kind, node, none, none, none, rng.random(count), np.arange(count, dtype=float))


@given(seed=st.integers(0, 10**6), count=st.integers(0, 300), nodes=st.integers(1, 7), threads=st.integers(1, 3))
def test_nothing_overtakes_what_it_depends_on(seed: int, count: int, nodes: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    events, slot = some_events(rng, count, nodes), np.where(rng.random(nodes) < 0.7, np.arange(nodes), -1)
    found = node_by_node(events, slot, rng.integers(threads, size=nodes))
    here = (events.kind != LOCAL) | (slot[events.node] >= 0)
    assert sorted(found.at) == events.at[here].tolist()
    tokens = found.kind != LOCAL
    assert found.at[tokens].tolist() == events.at[events.kind != LOCAL].tolist()
    for node in range(nodes):  # what happens at a node keeps its order
        own = (events.node == node) & here & ~np.isin(events.kind, (MEET, MOVE))
        mine = (found.node == node) & ~np.isin(found.kind, (MEET, MOVE))
        assert found.at[mine].tolist() == events.at[own].tolist()


def test_steps_of_a_node_are_together() -> None:
    events = some_events(np.random.default_rng(1), 4000, 5)
    found = node_by_node(events, np.arange(5))
    changes = np.count_nonzero(np.diff(found.node[found.kind == LOCAL]))
    assert changes <= np.count_nonzero(events.kind == VISIT) + 5


def test_groups_have_equal_shares_of_every_stretch() -> None:
    rng = np.random.default_rng(2)
    events, groups = some_events(rng, 20_000, 6), np.array([0, 1, 2, 0, 1, 2])
    events.kind[rng.random(20_000) < 0.95] = LOCAL
    found = node_by_node(events, np.arange(6), groups)
    local = groups[found.node[found.kind == LOCAL]]
    shares = [np.bincount(local[start : start + 1000], minlength=3).min() for start in range(0, 20_000, 1000)]
    assert np.median(shares) > 300  # of a third each; a group may have to wait for a visit now and then
