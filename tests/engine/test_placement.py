from pathlib import Path

import numpy as np
import pytest

from dtoken.engine.dask.crew import take_turns
from dtoken.engine.placement import balanced_groups, place
from dtoken.graph import build


@pytest.mark.parametrize("graph", ["ring", "complete", "grid", "star", "path"])
@pytest.mark.parametrize("hosts", [1, 2, 3, 7, 12, 30])
def test_every_host_has_a_node(graph: str, hosts: int) -> None:
    placement = place(build(graph, 12), list(range(1, 13)), [1] * min(hosts, 12)).hosts
    assert sorted(set(placement.tolist())) == list(range(min(hosts, 12)))


@pytest.mark.parametrize("threads", [[1], [2, 2], [4, 1, 1], [3] * 4, [8, 8]])
def test_every_thread_has_a_node_and_hosts_have_work_by_their_threads(threads: list[int]) -> None:
    placement = place(build("ring", 12), [1] * 12, threads)
    assert sorted(set(placement.thread.tolist())) == list(range(min(sum(threads), 12)))
    assert len(placement.host) == min(sum(threads), 12)
    share = 12 / len(placement.host)
    for host in range(len(threads)):
        own = np.count_nonzero(placement.host == host)
        assert 1 <= own <= threads[host]
        assert abs(np.count_nonzero(placement.hosts == host) - own * share) <= 1
    assert placement.hosts.tolist() == sorted(placement.hosts.tolist())  # neighbours on a ring stay together


def test_neighbours_are_together_even_if_the_numbers_of_a_ring_are_shuffled(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(20)
    path = tmp_path / "edges"  # type: ignore[operator]
    path.write_text("\n".join(f"{order[i]} {order[(i + 1) % 20]}" for i in range(20)))
    placement = place(build("edge_list", 20, path=path), [1] * 20, [1] * 4).hosts
    crossing = sum(placement[order[i]] != placement[order[(i + 1) % 20]] for i in range(20))
    assert crossing <= 8  # 4 is the least; at random 15 are expected


def test_nodes_that_talk_much_are_on_one_worker_then_on_one_machine(tmp_path: Path) -> None:
    """Four groups in which all talk to all; two and two of them talk a little. Numbers are shuffled."""
    order = np.random.default_rng(1).permutation(20)
    edges = [(5 * g + a, 5 * g + b) for g in range(4) for a in range(5) for b in range(a)]
    edges += [(0, 5), (1, 6), (10, 15), (11, 16), (2, 12)]
    path = tmp_path / "edges"
    path.write_text("\n".join(f"{order[a]} {order[b]}" for a, b in edges))
    placement = place(build("edge_list", 20, path=path), [1] * 20, [1] * 4, ["a", "a", "b", "b"])
    hosts = [set(placement.hosts[order[5 * g : 5 * g + 5]].tolist()) for g in range(4)]
    assert all(len(found) == 1 for found in hosts)
    assert hosts[0] | hosts[1] in ({0, 1}, {2, 3})  # the two that talk are on one machine


def test_work_is_balanced() -> None:
    work = [1, 1, 1, 1, 10, 1, 1, 1, 1, 10]
    placement = place(build("ring", 10), work, [1, 1]).hosts
    loads = np.bincount(placement, weights=work)
    assert loads.max() <= 18


def test_groups_of_no_work_at_all_are_not_empty() -> None:
    assert sorted(set(balanced_groups([0, 0, 0], 3).tolist())) == [0, 1, 2]
    assert sorted(set(balanced_groups([0, 0, 100, 0], 3).tolist())) == [0, 1, 2]


def test_who_stays_keeps_the_seat() -> None:
    assert take_turns([], ["a", "b"]) == ["a", "b"]
    assert take_turns(["a", "b", "c"], ["c", "b", "x"]) == ["x", "b", "c"]
    assert take_turns(["a", "b", "c"], ["c"]) == ["c"]
    assert take_turns(["a"], ["b", "a", "c"]) == ["a", "b", "c"]
