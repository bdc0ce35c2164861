"""Unequal nodes and links: what is drawn or read, the ideal clock with it, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dtoken
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.schedule.clock import RULES, Costs, Rule, TimeModel, advance, start_clock, times
from dtoken.schedule.events import LOCAL, MOVE, VISIT, Events
from dtoken.schedule.stream import Drawn, Law, first_start

PROBLEM: dict[str, Any] = {"data": {"kind": "synthetic", "rows": 60, "features": 4}, "nodes": 6, "sigma": 0.1}


def test_numbers_are_the_same_for_all() -> None:
    found = times(TimeModel(tau_comp=2.0, tau_comm=5.0), 3)
    assert found.comp.tolist() == [2.0, 2.0, 2.0]
    assert found.comm.tolist() == [[5.0]]


def test_draws_follow_their_laws() -> None:
    """Kolmogorov-Smirnov against scipy; links are the same in both directions, and independent of the nodes."""
    found = times(TimeModel("lognormal(3, 0.5)", "uniform(10, 20)", seed=1), 1000)
    assert stats.kstest(found.comp, stats.lognorm(s=0.5, scale=3.0).cdf).pvalue > 0.01
    links = found.comm[np.triu_indices(1000, 1)]
    assert stats.kstest(links[:100_000], stats.uniform(10, 10).cdf).pvalue > 0.01
    assert (found.comm == found.comm.T).all()
    assert np.diag(found.comm) == pytest.approx(links.mean())
    again, other = (times(TimeModel("lognormal(3, 0.5)", 1.0, seed=seed), 1000).comp for seed in (1, 2))
    assert (again == found.comp).all()
    assert (other != found.comp).all()


@pytest.mark.parametrize(("share", "slow"), [(0.0, 0), (0.1, 1), (0.25, 3), (0.3, 3), (1.0, 10)])
def test_so_many_nodes_are_slow(share: float, slow: int) -> None:
    comp = times(TimeModel(f"slow(2, {share}, 7)"), 10).comp
    assert sorted(comp) == [2.0] * (10 - slow) + [14.0] * slow


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_files(tmp_path: Path) -> None:
    nodes = write(tmp_path / "nodes.csv", "node,time\n# the slow one\n1,9\n0,1.5\n2,0\n")
    links = write(tmp_path / "links.csv", "0,1,10\n1,2,20\n2,1,40\n0,2,30\n")
    found = times(TimeModel(nodes, links), 3)
    assert found.comp.tolist() == [1.5, 9.0, 0.0]
    mean = (10 + 10 + 20 + 40 + 30 + 30) / 6
    np.testing.assert_allclose(found.comm, [[mean, 10, 30], [10, mean, 20], [30, 40, mean]])


@pytest.mark.parametrize("charged", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("graph", ["complete", "ring"])
def test_the_clock_takes_the_time_of_node_and_link(graph: str, rule: Rule, charged: bool) -> None:
    """The recursions at the head of the module, in plain Python, with a number for each node and link."""
    n, K = 5, 2
    steps = walk(build(graph, n), "lazy" if graph == "ring" else "simple")
    law = Law(K, 0.4, 0.0, np.full(n, 1 / n), jumps=2)
    events = next(Drawn(3, law, steps).segments(first_start(n, K)))[0].between(0, 3000)
    model = TimeModel("lognormal(1, 1)", "lognormal(5, 1)", rule, charged, seed=4)
    clock, costs = start_clock(n, K), Costs(np.arange(1, n + 1), np.full(n, 2))
    advance(clock, events, costs, model)
    T, C = by_hand(events, costs, model, n, K)
    np.testing.assert_allclose(clock.nodes, T, rtol=1e-12)
    if rule == "token_clock":
        np.testing.assert_allclose(clock.tokens, C, rtol=1e-12)


def by_hand(events: Events, costs: Costs, model: TimeModel, n: int, K: int) -> tuple[list[float], list[float]]:
    found = times(model, n)
    T, C = [0.0] * n, [0.0] * K
    for kind, i, j, k in zip(events.kind, events.node, events.source, events.token, strict=True):
        if kind == LOCAL:
            T[i] += costs.local[i] * found.comp[i]
            continue
        hop = found.comm[j, i] if model.charge_self_jumps or i != j else 0.0
        if model.rule == "paper":
            T[i] = max(T[i], T[j] + hop)
        elif kind == MOVE:
            C[k] += hop
        else:
            T[i] = max(T[i], C[k] + hop)
        if kind == VISIT:
            T[i] += costs.visit[i] * found.comp[i]
            C[k] = T[i]
    return T, C


def test_rounds_take_as_long_as_their_slowest_cycle(tmp_path: Path) -> None:
    """extra on a ring of 6 nodes with 10 rows each, one node of 3 a gradient, one link of 50: the mean of that cycle.

    A message goes over the slow link (50) to the slow node (30), and one over the slow link (50) to the other (10).
    """
    nodes = write(tmp_path / "nodes.csv", "".join(f"{i},{3 if i == 2 else 1}\n" for i in range(6)))
    links = write(tmp_path / "links.csv", "".join(f"{i},{(i + 1) % 6},{50 if i == 1 else 7}\n" for i in range(6)))
    result = dtoken.run(
        **PROBLEM, algorithm="extra", graph="ring", time={"tau_comp": nodes, "tau_comm": links}, stop={"passes": 20}
    )
    assert result.records[-1].time == 20 * (50 + 30 + 50 + 10) / 2


def test_times_do_not_change_results() -> None:
    """The ideal clock only watches: the same events, the same models."""
    equal = dtoken.run(**PROBLEM, stop={"passes": 5})
    unequal = dtoken.run(
        **PROBLEM, stop={"passes": 5}, time={"tau_comp": "slow(1, 0.5, 10)", "tau_comm": "uniform(1, 9)"}
    )
    assert (equal.tokens == unequal.tokens).all()
    assert unequal.records[-1].time != equal.records[-1].time
    assert unequal.summary["time"]["tau_comp"] == {"least": 1.0, "median": 5.5, "most": 10.0}
    assert equal.summary["time"]["tau_comm"] == {"least": 1000.0, "median": 1000.0, "most": 1000.0}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1.0, "must be a finite number, not a negative one"),
        (float("inf"), "must be a finite number"),
        ("lognormal(1)", r"must have 2 numbers, as in lognormal\(1, 0.5\)"),
        ("lognormal(0, 1)", "makes all times 0"),
        ("lognormal(1, -1)", "none of them negative"),
        ("gamma(1, 2)", "is not a known law; use one of lognormal, uniform, slow"),
        ("uniform(2, 1)", "a first number below the second"),
        ("slow(1, 2, 3)", r"a share in \[0, 1\]"),
        ("slow(1, 0.5, 0)", "a positive factor"),
        ("no/such/file.csv", "neither a number nor a law"),
    ],
)
def test_times_that_are_refused(value: Any, reason: str) -> None:
    for key in ("tau_comp", "tau_comm"):
        with pytest.raises(InputError, match=rf"time\.{key}=.* {reason}"):
            TimeModel(**{key: value})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0,1\n9,1\n", "line 2: there is no node 9; nodes are 0 to 2"),
        ("0,1\n1,1\n", "has no time for node 2"),
        ("0,1\n1,1\n0,2\n", "node 0 has two times, the second in line 3"),
        ("0,1\n1,x\n", "line 2: 1,x is not NODE,TIME"),
        ("0,1,2\n", "line 1: 0,1,2 is not NODE,TIME"),
        ("0,1\n1,-2\n2,1\n", "line 2: the time -2.0 must be finite and not negative"),
        ("0,inf\n", "line 1: the time inf must be finite"),
    ],
)
def test_files_of_nodes_that_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    model = TimeModel(tau_comp=write(tmp_path / "nodes.csv", text))
    with pytest.raises(InputError, match=reason):
        times(model, 3)


def ring(**changes: float) -> str:
    pairs = {f"{i},{(i + 1) % 6}": 1.0 for i in range(6)} | {
        key.strip("_").replace("_", ","): t for key, t in changes.items()
    }
    return "".join(f"{pair},{time}\n" for pair, time in pairs.items())


@pytest.mark.parametrize(
    ("algorithm", "graph", "text", "reason"),
    [
        (
            "tvr",
            "ring",
            lambda: ring(_1_4=2.0),
            r"has a time for nodes 1,4, between which graph=ring nodes=6 has no edge",
        ),
        ("tvr", "path", lambda: "0,1,1\n", "has no time for the link from node 1 to 2 that tvr uses"),
        ("gd", "ring", lambda: ring(), "has no time for the link from node 0 to 2 that gd uses"),
        ("extra", "ring", lambda: ring(_0_7=1.0), "there is no node 7"),
    ],
)
def test_files_of_links_that_are_refused(
    algorithm: str, graph: str, text: Callable[[], str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        dtoken.run(
            **PROBLEM, algorithm=algorithm, graph=graph, time={"tau_comm": write(tmp_path / "links.csv", text())}
        )


def test_ways_over_several_links_are_refused() -> None:
    with pytest.raises(InputError, match="interactions_anywhere has them"):
        dtoken.run(
            **PROBLEM,
            algorithm={"_target_": "tvr", "tokens": 2, "interactions_anywhere": 0.1},
            graph="ring",
            time={"tau_comm": "uniform(1, 2)"},
        )


def test_links_of_many_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="3000 nodes are more than 2000"):
        times(TimeModel(tau_comm="uniform(1, 2)"), 3000)
