import numpy as np
import pytest

from dtoken.engine.dask.crew import take_turns
from dtoken.engine.placement import balanced_groups, place
from dtoken.graph import build


@pytest.mark.parametrize("graph", ["ring", "complete", "grid", "star", "path"])
@pytest.mark.parametrize("hosts", [1, 2, 3, 7, 12, 30])
def test_every_host_has_a_node_and_there_are_never_more_hosts_than_nodes(graph: str, hosts: int) -> None:
    placement = place(build(graph, 12), list(range(1, 13)), hosts)
    assert sorted(set(placement.tolist())) == list(range(min(hosts, 12)))


def test_neighbours_are_together_even_if_the_numbers_of_a_ring_are_shuffled(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(20)
    path = tmp_path / "edges"  # type: ignore[operator]
    path.write_text("\n".join(f"{order[i]} {order[(i + 1) % 20]}" for i in range(20)))
    placement = place(build("edge_list", 20, path=path), [1] * 20, 4)
    crossing = sum(placement[order[i]] != placement[order[(i + 1) % 20]] for i in range(20))
    assert crossing <= 8  # 4 is the least; at random 15 are expected


def test_work_is_balanced() -> None:
    work = [1, 1, 1, 1, 10, 1, 1, 1, 1, 10]
    placement = place(build("ring", 10), work, 2)
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
