"""The timed schedule against a simulation with a list of things to come, and against the ideal clock."""

import heapq
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

import dtoken
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.schedule.clock import Costs, TimeModel, advance, start_clock, times
from dtoken.schedule.events import LOCAL, MOVE, VISIT, Events, concatenate
from dtoken.schedule.stream import Drawn, Law, Start, first_start
from dtoken.schedule.timed import Timed, expected_share
from dtoken.schedule.walks.registry import LAWS, make_walk
from hydra_dask.cluster import LocalWorkers

N, K = 6, 3
WORLD = TimeModel(tau_comp="lognormal(1, 1)", tau_comm="lognormal(10, 0.5)", rule="token_clock")
EQUAL = TimeModel(tau_comp=2.0, tau_comm=10.0, rule="token_clock")
CASES: dict[str, dict[str, Any]] = {
    "ring": {"graph": "ring"},
    "complete, equal times": {"graph": "complete", "model": EQUAL},
    "two jumps": {"graph": "ring", "kind": "lazy", "jumps": 2},
    "visits compute": {"graph": "ring", "visit": 7, "p_visit": 1.0},
    "free self-jumps": {"graph": "ring", "kind": "lazy", "model": replace(WORLD, charge_self_jumps=False)},
    "self-repelling": {"graph": "ring", "kind": "self_repelling"},
    "levy": {"graph": "ring", "kind": "levy"},
}


def timed(
    graph: str = "ring", kind: str = "simple", model: TimeModel = WORLD, visit: int = 0, seed: int = 5, **law: Any
) -> Timed:
    nodes, ones = np.full(N, 1 / N), np.ones(N, np.int64)
    own = LAWS[kind]() if kind in LAWS else None
    drawn = Drawn(seed, Law(**{"tokens": K, "p_visit": 0.5, "p_meet": 0.0, "nodes": nodes} | law),
                  make_walk(build(graph, N), kind, None, own))  # fmt: skip
    costs = Costs(ones * (visit == 0), visit * ones)
    return Timed(drawn, times(model, N), costs, np.arange(N) * 0.1)


def first(schedule: Timed, segments: int = 2) -> tuple[Events, Start]:
    start, parts = first_start(N, K), []
    for _ in range(segments):
        events, start = schedule.segment(start)
        parts.append(events)
    return concatenate(parts), start


def simulated(schedule: Timed, ways: list[list[NDArray[np.int64]]], steps: int) -> list[tuple[int, int, float]]:
    """(node, token or -1, when it begins) of each step, by a heap of tokens that come and nodes that are done."""
    comm = np.broadcast_to(schedule.times.comm, (N, N))
    comp, computes = schedule.times.comp, bool(schedule.costs.local.any())
    busy, found = schedule.begin.copy(), []
    there: list[list[tuple[float, int]]] = [[] for _ in range(N)]
    position, trips = first_start(N, K).positions.copy(), [iter(way) for way in ways]
    coming: list[tuple[float, int, int, int]] = []  # when, 0: an arrival, 1: a node is free, which

    def leave(k: int, moment: float) -> None:
        trip = next(trips[k], None)
        if trip is None:
            return
        for node in trip:
            hop = comm[position[k], node]
            moment += hop if schedule.times.charge_self_jumps or node != position[k] else 0.0
            position[k] = node
        heapq.heappush(coming, (moment, 0, k, int(position[k])))

    for k in range(K):
        leave(k, 0.0)
    for i in range(N):
        heapq.heappush(coming, (busy[i], 1, i, i))
    while len(found) < steps:
        moment, what, which, node = heapq.heappop(coming)
        if what == 0:
            heapq.heappush(there[node], (moment, which))
            if not computes:
                heapq.heappush(coming, (max(moment, busy[node]), 1, node, node))
        elif busy[node] > moment:  # it was told too early
            heapq.heappush(coming, (busy[node], 1, node, node))
        elif there[node]:
            _, k = heapq.heappop(there[node])
            found.append((node, k, moment))
            busy[node] = moment + comp[node] * schedule.costs.visit[node]
            leave(k, busy[node])
            if computes:
                heapq.heappush(coming, (busy[node], 1, node, node))
        elif computes:
            found.append((node, -1, moment))
            busy[node] = moment + comp[node] * schedule.costs.local[node]
            heapq.heappush(coming, (busy[node], 1, node, node))
    return found


def trips_of(events: Events, k: int) -> list[NDArray[np.int64]]:
    """The nodes of each way of token k, its visit the last."""
    mine = events.token == k
    ends = np.flatnonzero(events.kind[mine] == VISIT) + 1
    return np.split(events.node[mine].astype(np.int64), ends)[: len(ends)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_begins_first_is_first(case: dict[str, Any]) -> None:
    """The order of events is that of another simulation, in which tokens go the same ways."""
    schedule = timed(**case)
    events, _ = first(schedule, 1)
    ended = events.between(0, 20_000)
    steps = ended.kind != MOVE
    token = np.where(ended.kind == VISIT, ended.token, -1)[steps]
    expected = simulated(schedule, [trips_of(events, k) for k in range(K)], int(steps.sum()))
    assert [(int(i), int(k)) for i, k in zip(ended.node[steps], token, strict=True)] == [e[:2] for e in expected]
    assert np.array_equal(np.sort([e[2] for e in expected]), [e[2] for e in expected])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ideal_time_is_simulated_time(case: dict[str, Any]) -> None:
    schedule = timed(**case)
    events, end = first(schedule)
    clock = start_clock(N, K)
    clock.nodes[:] = schedule.begin
    advance(clock, events, schedule.costs, case.get("model", WORLD))
    assert np.array_equal(clock.nodes, end.busy)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_any_segment_from_its_start(case: dict[str, Any]) -> None:
    schedule = timed(**case)
    stream = schedule.segments(first_start(N, K))
    _, start = next(stream)
    following, _ = next(stream)
    alone, _ = timed(**case).segment(pickle.loads(pickle.dumps(start)))
    assert all(np.array_equal(a, b) for a, b in zip(following, alone, strict=True))
    other, _ = timed(**{**case, "seed": 6}).segment(start)
    assert not all(np.array_equal(a, b) for a, b in zip(following, other, strict=True))


def test_two_nodes_by_hand() -> None:
    """Nodes take 2 and 3, a hop 4, one token at node 0: it is at 1 at 4 and waits until 6, and at 0 again at 10."""
    path = walk(build("path", 2), "simple")
    drawn = Drawn(0, Law(1, 0.5, 0.0, np.full(2, 0.5)), path)
    world = times(EQUAL, 2)._replace(comp=np.array([2.0, 3.0]), comm=np.full((1, 1), 4.0))
    events, _ = Timed(drawn, world, Costs(np.ones(2, int), np.zeros(2, int)), np.zeros(2)).segment(first_start(2, 1))
    found = [(int(kind), int(node)) for kind, node in zip(events.kind[:13], events.node[:13], strict=True)]
    L, V = LOCAL, VISIT
    assert found == [(L, 0), (L, 1), (L, 0), (L, 1), (L, 0), (L, 0), (V, 1), (L, 1), (L, 0), (L, 1), (V, 0), (L, 0),
                     (L, 0)]  # fmt: skip


@pytest.mark.parametrize("model", [WORLD, replace(WORLD, tau_comm="lognormal(200, 1)")])
def test_expected_share_of_visits(model: TimeModel) -> None:
    schedule = timed("complete", model=model)
    events, _ = first(schedule, 3)
    share = (events.kind == VISIT).sum() / (events.kind != MOVE).sum()
    assert expected_share(schedule.drawn, schedule.times, schedule.costs) == pytest.approx(share, rel=0.05)


PROBLEM = {"kind": "synthetic", "rows": 60, "features": 3}
UNEQUAL = {"tau_comp": "slow(1, 0.2, 10)", "tau_comm": "uniform(3, 9)"}


def go(algorithm: Any, **more: Any) -> Any:
    return dtoken.run(
        PROBLEM, 5, algorithm, "ring", sigma=0.1, **{"schedule": "timed", "time": UNEQUAL, "threads": 1} | more
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalWorkers(2).open() as connection:
        yield connection.client


@pytest.mark.parametrize("algorithm", [{"_target_": "tvr", "tokens": 2}, {"_target_": "api_bcd", "tokens": 2}])
def test_runs_resume_replay_and_spread_to_the_same_bits(
    algorithm: dict[str, Any], tmp_path: Path, client: Client
) -> None:
    stop = {"passes": 200}
    whole = go(algorithm, stop=stop, record={"events": True}, directory=tmp_path / "whole")
    assert not whole.summary["rate_is_proved"]
    for other in (
        go(algorithm, stop=stop, threads=2),
        go(algorithm, stop=stop, replay=tmp_path / "whole" / "events.parquet"),
    ):
        assert other.theta.tobytes() == whole.theta.tobytes()
        assert other.records[-1].time == whole.records[-1].time
    dask = go(algorithm, stop=stop, threads=None, engine="dask", client=client)
    assert dask.theta.tobytes() == whole.theta.tobytes()
    assert dask.records[-1].time == whole.records[-1].time
    go(algorithm, stop={"passes": 70}, directory=tmp_path / "cut", checkpoint={"every": 1})
    assert go(algorithm, stop=stop, directory=tmp_path / "cut").theta.tobytes() == whole.theta.tobytes()


def test_slow_nodes_take_fewer_steps() -> None:
    found = go({"_target_": "tvr"}, stop={"suboptimality": 1e-6, "passes": 5000})
    assert found.records[-1].suboptimality <= 1e-6


def test_rounds_are_as_they_were() -> None:
    timed_run, drawn_run = (go("gd", schedule=kind, stop={"passes": 20}) for kind in ("timed", "drawn"))
    assert [record.time for record in timed_run.records] == [record.time for record in drawn_run.records]
    assert timed_run.theta.tobytes() == drawn_run.theta.tobytes()


@pytest.mark.parametrize(
    ("algorithm", "more", "reason"),
    [
        ({"_target_": "tvr", "p_comm": 0.5}, {}, "as many visits as speeds make"),
        ({"_target_": "tvr", "continuized": True}, {}, "clocks of its own"),
        ({"_target_": "tvr", "tokens": 2, "interactions": 0.5}, {}, "leave at once"),
        ({"_target_": "tvr", "tokens": 2, "interactions_anywhere": 0.5}, {"time": {}}, "nothing of when tokens meet"),
        ("tvr", {"time": {"tau_comp": 0}}, "tau_comp=0.* a node that takes no time"),
        ("tvr", {"time": {"tau_comm": 0}}, "tau_comm=0.* a link that takes no time"),
        ("tvr", {"schedule": "late"}, "schedule=late is not known; use one of drawn, timed"),
    ],
)
def test_what_is_refused(algorithm: Any, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        go(algorithm, **more)
