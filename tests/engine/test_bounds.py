"""Bounds of a run on several hosts: against closed forms, and against each other."""

from pathlib import Path

import numpy as np
import pytest

from dtoken.algorithms.tvr import TVR
from dtoken.engine.bounds import Bounds, Costs, bounds
from dtoken.engine.timing import link_seconds
from dtoken.schedule.events import LOCAL, MEET, MOVE, VISIT, Events
from tests.engine.dask.on_dask import make_experiment, make_store

COSTS = Costs(local=1.0, visit=10.0, hop=100.0, sending=30.0)


def events(*happened: tuple[int, int, int, int]) -> Events:
    """From kind, node, token and second token."""
    kind, node, token, other = np.array(happened).T
    count = len(happened)
    nothing = np.full(count, -1)
    return Events(
        kind.astype(np.int8),
        node.astype(np.int32),
        nothing.astype(np.int32),
        token.astype(np.int32),
        other.astype(np.int32),
        np.zeros(count),
        np.arange(1.0, count + 1),
    )


def step(node: int) -> tuple[int, int, int, int]:
    return LOCAL, node, -1, -1


def visit(token: int, node: int) -> tuple[int, int, int, int]:
    return VISIT, node, token, -1


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        pytest.param([step(0), step(0), step(1)], Bounds(2, 0, 2), id="steps of two nodes"),
        pytest.param([visit(0, 0), visit(1, 1)], Bounds(10, 0, 10), id="two tokens at home"),
        pytest.param([visit(0, 0), visit(0, 1), visit(0, 0)], Bounds(20, 30, 230), id="one token to and fro"),
        pytest.param([visit(0, 1), visit(1, 0)], Bounds(10, 30, 110), id="two tokens change places"),
        pytest.param([step(1)] * 200 + [visit(0, 1)], Bounds(210, 30, 210), id="steps while a token is on its way"),
        pytest.param([(MOVE, 1, 0, -1), visit(0, 0)], Bounds(10, 0, 10), id="a token that only passes by"),
        pytest.param([(MEET, 0, 0, 1), visit(1, 0)], Bounds(20, 30, 120), id="two tokens meet"),
    ],
)
def test_two_nodes_on_two_hosts(happened: list[tuple[int, int, int, int]], expected: Bounds) -> None:
    assert bounds(events(*happened), np.array([0, 1]), np.array([0, 1]), COSTS) == expected


def test_a_schedule_on_hosts_and_threads(tmp_path: Path) -> None:
    case = make_experiment(make_store(tmp_path), TVR(tokens=3))
    drawn = next(iter(case.schedule.segments(case.start)))[0]
    where = case.start.positions
    one = bounds(drawn, np.zeros(6, np.int64), where, COSTS)
    two = bounds(drawn, np.arange(6) // 3, where, COSTS)
    threads = bounds(drawn, np.zeros(6, np.int64), where, COSTS, threads=3)
    visits = int(np.count_nonzero(drawn.kind == VISIT))
    assert one.computing == np.count_nonzero(drawn.kind == LOCAL) * 1.0 + visits * 10.0
    assert one.link == 0
    assert one.schedule < two.schedule
    assert one.computing / 2 <= two.computing < one.computing
    assert threads.computing < two.computing
    assert threads.schedule == one.schedule
    assert link_seconds(case, np.arange(6) // 3, 30.0) == pytest.approx(two.link / visits)
    # tokens jump anywhere: about half of the visits are on the other host, shared by two directions
    assert two.link / visits == pytest.approx(30 / 4, rel=0.1)
