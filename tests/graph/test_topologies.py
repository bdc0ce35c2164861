"""Topologies against networkx and counting; every refusal is one sentence with a remedy."""

import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from dtoken.errors import InputError
from dtoken.graph import REGISTRY, build, parameters
from dtoken.graph.edge_list import edges_of

SIZES = {"hypercube": 16, "random_regular": 12}


def as_networkx(topology, index=0):
    kind = nx.DiGraph if topology.directed else nx.Graph
    return nx.from_scipy_sparse_array(topology.adjacency[index], create_using=kind)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (build("ring", 7), nx.cycle_graph(7)),
        (build("path", 7), nx.path_graph(7)),
        (build("grid", 12), nx.grid_2d_graph(3, 4)),
        (build("grid", 12, shape=[2, 6]), nx.grid_2d_graph(2, 6)),
        (build("grid", 24, shape=[2, 3, 4]), nx.grid_graph((2, 3, 4))),
        (build("torus", 12), nx.grid_2d_graph(3, 4, periodic=True)),
        (build("star", 7), nx.star_graph(6)),
        (build("hypercube", 16), nx.hypercube_graph(4)),
        (build("hypercube", 2), nx.path_graph(2)),
        (build("barbell", 9), nx.barbell_graph(4, 1)),
        (build("barbell", 9, clique=3), nx.barbell_graph(3, 3)),
        (build("directed_cycle", 5), nx.cycle_graph(5, create_using=nx.DiGraph)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_fixed_topologies_are_those_of_networkx(topology, expected):
    assert nx.is_isomorphic(as_networkx(topology), expected)


def test_lattices_are_numbered_row_by_row():
    assert build("grid", 6, shape=[2, 3]).neighbours(1).tolist() == [0, 2, 4]
    assert build("torus", 9).neighbours(0).tolist() == [1, 2, 3, 6]
    assert build("hypercube", 8).neighbours(5).tolist() == [1, 4, 7]


def test_a_torus_side_of_one_has_no_loops():
    assert nx.is_isomorphic(as_networkx(build("torus", 5, shape=[1, 5])), nx.cycle_graph(5))


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY if kind != "edge_list"])
def test_every_kind_is_connected_sorted_and_pickles(kind):
    topology = build(kind, SIZES.get(kind, 12))
    assert topology.components() == 1
    assert topology.kind == kind
    assert topology.name.startswith(f"graph={kind} nodes=")
    assert set(topology.params) <= set(parameters(kind))
    for index, graph in enumerate(topology.adjacency):
        assert graph.has_sorted_indices
        assert graph.dtype == np.bool_
        assert graph.diagonal().sum() == 0
        if not topology.directed:
            assert (graph != graph.T).nnz == 0
            assert nx.is_connected(as_networkx(topology, index))
    copy = pickle.loads(pickle.dumps(topology))
    assert [g.indices.tolist() for g in copy.adjacency] == [g.indices.tolist() for g in topology.adjacency]


RANDOM = ["erdos_renyi", "random_regular", "small_world", "power_law", "geometric", "directed_random", "time_varying"]


@pytest.mark.parametrize("kind", RANDOM)
def test_random_graphs_depend_on_the_seed_alone(kind):
    def edges(seed):
        return [graph.indices.tolist() for graph in build(kind, 30, seed=seed).adjacency]

    assert edges(3) == edges(3)
    assert edges(3) != edges(4)


def test_random_graphs_have_the_law_they_claim():
    assert set(np.diff(build("random_regular", 20, degree=3).adjacency[0].indptr)) == {3}
    directed = build("directed_random", 25, degree=4)
    assert set(np.diff(directed.adjacency[0].indptr)) == {4}
    assert nx.is_strongly_connected(as_networkx(directed))
    edges = build("erdos_renyi", 400, p=0.1).adjacency[0].nnz / 2
    pairs = 400 * 399 / 2
    assert abs(edges - 0.1 * pairs) < 5 * np.sqrt(pairs * 0.1 * 0.9)
    assert build("erdos_renyi", 6, p=1.0).adjacency[0].nnz == 30


def test_regular_graphs_on_six_nodes_are_equally_likely():
    """There are 70 with degree 3, all connected."""
    cubic = [as_networkx(build("random_regular", 6, degree=3, seed=seed)) for seed in range(700)]
    counts = Counter(frozenset(frozenset(edge) for edge in graph.edges) for graph in cubic)
    assert stats.chisquare([*counts.values(), *[0] * (70 - len(counts))]).pvalue > 1e-3


@pytest.mark.parametrize("degree", [3, 10, 98, 99])
def test_regular_graphs_of_any_degree_are_simple(degree):
    graph = build("random_regular", 100, degree=degree).adjacency[0]
    assert set(np.diff(graph.indptr)) == {degree}
    assert (graph != graph.T).nnz == graph.diagonal().sum() == 0


@pytest.mark.parametrize("rewired", [0, 0.1, 1.0])
def test_small_worlds_have_the_clustering_of_networkx(rewired):
    """Watts and Strogatz: 3 (k - 2) / (4 (k - 1)) of a lattice; edges stay as many as they were."""
    ours = [as_networkx(build("small_world", 400, degree=6, rewired=rewired, seed=seed)) for seed in range(8)]
    theirs = [nx.connected_watts_strogatz_graph(400, 6, rewired, seed=seed) for seed in range(8)]
    assert {graph.number_of_edges() for graph in ours} == {1200}
    mine, other = ([nx.average_clustering(graph) for graph in graphs] for graphs in (ours, theirs))
    if rewired == 0:
        assert mine == [pytest.approx(0.6)] * 8
    else:
        assert np.mean(mine) == pytest.approx(
            np.mean(other), abs=4 * np.hypot(np.std(mine), np.std(other)) / np.sqrt(8)
        )
    mine, other = (np.sort(np.concatenate([list(dict(g.degree).values()) for g in gs])) for gs in (ours, theirs))
    assert stats.ks_2samp(mine, other).pvalue > 1e-3


def test_power_laws_have_the_degrees_of_networkx():
    ours = [as_networkx(build("power_law", 1000, edges=3, seed=seed)) for seed in range(6)]
    theirs = [nx.barabasi_albert_graph(1000, 3, seed=seed) for seed in range(6)]
    assert {graph.number_of_edges() for graph in ours} == {theirs[0].number_of_edges()}
    mine, other = (np.concatenate([list(dict(g.degree).values()) for g in gs]) for gs in (ours, theirs))
    assert stats.ks_2samp(mine, other).pvalue > 1e-3
    assert np.mean(mine == 3) == pytest.approx(2 / 5, abs=0.03)  # 2 m (m + 1) / (k (k + 1) (k + 2)) at k = m


def test_geometric_graphs_join_what_is_near():
    graph = as_networkx(build("geometric", 600, radius=0.1))
    plain = nx.random_geometric_graph(600, 0.1, seed=1)
    mine, other = (np.array(list(dict(g.degree).values())) for g in (graph, plain))
    assert stats.ks_2samp(mine, other).pvalue > 1e-3
    assert nx.average_clustering(graph) == pytest.approx(nx.average_clustering(plain), abs=0.03)


def test_edges_of_erdos_renyi_are_equally_likely():
    counts = sum(build("erdos_renyi", 7, p=0.6, seed=seed).adjacency[0].toarray().astype(int) for seed in range(400))
    pairs = counts[np.triu_indices(7, 1)]
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_a_disconnected_draw_is_drawn_again():
    sparse = [build("erdos_renyi", 12, p=0.2, seed=seed) for seed in range(5)]
    assert all(topology.components() == 1 for topology in sparse)


def test_time_varying_sequences():
    rings = build("time_varying", 9, period=4, hold=2, seed=1)
    assert (len(rings.adjacency), rings.hold) == (4, 2)
    assert all(nx.is_isomorphic(as_networkx(rings, i), nx.cycle_graph(9)) for i in range(4))
    mixed = build("time_varying", 6, graphs=["ring", {"kind": "grid", "shape": [2, 3]}, "complete"])
    assert [graph.nnz for graph in mixed.adjacency] == [12, 14, 36]
    assert not mixed.directed
    assert build("time_varying", 6, graphs=["ring", "directed_cycle"]).directed


def test_the_parts_of_a_sequence_may_be_disconnected_when_their_union_is_not(tmp_path):
    parts = []
    for name, edges in [("a", "0 1\n2 3\n"), ("b", "1 2\n")]:
        (tmp_path / name).write_text(edges)
        parts.append({"kind": "edge_list", "path": str(tmp_path / name)})
    assert build("time_varying", 4, graphs=parts).components() == 1
    with pytest.raises(InputError, match="even over its whole period, but falls into 2 components"):
        build("time_varying", 4, graphs=parts[:1] * 2)


@pytest.mark.parametrize("kind", ["ring", "grid", "torus", "star", "random_regular", "directed_cycle", "complete"])
def test_ten_thousand_nodes(kind):
    topology = build(kind, 10_000)
    assert topology.n == 10_000
    assert sum(graph.nnz for graph in topology.adjacency) <= 40_000  # the complete graph is never written out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "rign", "n": 5}, ["graph=rign", "did you mean ring", "hypercube"]),
        ({"kind": "erdos_renyi", "n": 5, "sed": 1}, ["graph.sed", "Did you mean graph.seed", "p, seed"]),
        ({"kind": "ring", "n": 5, "radius": 1}, ["graph.radius", "It has none"]),
        ({"kind": "ring", "n": 2}, ["nodes=2", "at least 3"]),
        ({"kind": "ring", "n": 0}, ["nodes=0"]),
        ({"kind": "ring", "n": 4.5}, ["nodes=4.5", "integer"]),
        ({"kind": "hypercube", "n": 13}, ["nodes=13", "use nodes=16"]),
        ({"kind": "hypercube", "n": 9}, ["use nodes=8"]),
        ({"kind": "grid", "n": 7}, ["nodes=7 is prime", "nodes=6 or nodes=8"]),
        ({"kind": "torus", "n": 12, "shape": [3, 5]}, ["graph.shape=[3, 5] has 15 nodes", "nodes=12"]),
        (
            {"kind": "erdos_renyi", "n": 50, "p": 0.001},
            ["graph.p=0.001", "components", "use a larger graph.p"],
        ),
        ({"kind": "erdos_renyi", "n": 50, "p": 1.5}, ["graph.p=1.5", "at most 1"]),
        ({"kind": "erdos_renyi", "n": 50, "p": "x"}, ["graph.p='x'"]),
        ({"kind": "erdos_renyi", "n": 50, "seed": -1}, ["graph.seed=-1"]),
        ({"kind": "geometric", "n": 50, "radius": 0.01}, ["graph.radius=0.01", "use a larger graph.radius"]),
        ({"kind": "random_regular", "n": 7, "degree": 3}, ["graph.degree=3 and nodes=7 are both odd"]),
        ({"kind": "random_regular", "n": 7, "degree": 7}, ["graph.degree=7", "from 1 to 6"]),
        ({"kind": "random_regular", "n": 8, "degree": 1}, ["components", "use a larger graph.degree"]),
        ({"kind": "random_regular", "n": 4000, "degree": 2}, ["20 draws", "components", "use a larger graph.degree"]),
        ({"kind": "small_world", "n": 8, "degree": 3}, ["graph.degree=3 is odd"]),
        ({"kind": "small_world", "n": 8, "rewired": 1.2}, ["graph.rewired=1.2", "at most 1"]),
        ({"kind": "power_law", "n": 8, "edges": 8}, ["graph.edges=8", "from 1 to 7"]),
        ({"kind": "barbell", "n": 8, "clique": 5}, ["graph.clique=5", "from 2 to 4"]),
        ({"kind": "time_varying", "n": 8, "graphs": "ring"}, ["graph.graphs='ring'", "[ring,star]"]),
        ({"kind": "time_varying", "n": 8, "graphs": ["time_varying"]}, ["time_varying"]),
        ({"kind": "time_varying", "n": 8, "graphs": []}, ["lists 0 graphs"]),
        ({"kind": "time_varying", "n": 8, "graphs": ["ring"], "period": 3}, ["graph.period=3"]),
        ({"kind": "time_varying", "n": 8, "hold": 0}, ["graph.hold=0"]),
        ({"kind": "time_varying", "n": 8, "hold": 10**6, "period": 4}, ["graph.hold=1000000", "25000"]),
        ({"kind": "edge_list", "n": 8}, ["needs graph.path"]),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InputError) as caught:
        build(**arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_edge_list(tmp_path: Path):
    file = tmp_path / "edges.txt"
    file.write_text("# a path\n0 1\n1 2  # twice\n\n2 1\n")
    undirected = build("edge_list", 3, path=file)
    assert undirected.neighbours(1).tolist() == [0, 2]
    file.write_text("0 1\n1 2\n2 0\n")
    assert build("edge_list", 3, path=file, directed=True).neighbours(1).tolist() == [2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n1\n", ["edges.txt, line 2", "1 words"]),
        ("0 1 2\n", ["line 1", "3 words"]),
        ("0 x\n", ["line 1", "'0 x'"]),
        ("0 -1\n", ["line 1", "'0 -1'"]),
        ("#\n\n0 9\n", ["line 3", "node 9", "nodes=10"]),
        ("# nothing\n", ["no edges"]),
        ("0 1\n2 3\n", ["2 components", "add the missing edges"]),
    ],
)
def test_edge_list_errors(tmp_path: Path, text, words):
    file = tmp_path / "edges.txt"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        build("edge_list", 4, path=file)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_edge_list_needs_a_readable_file_and_a_way_back(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        build("edge_list", 4, path=tmp_path / "none")
    (tmp_path / "one_way").write_text("0 1\n1 2\n")
    with pytest.raises(InputError, match="not strongly connected but falls into 3 components"):
        build("edge_list", 3, path=tmp_path / "one_way", directed=True)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        build("edge_list", 3, path=tmp_path / "binary")


def test_an_edge_list_is_read_as_numpy_does(tmp_path: Path):
    ring = np.stack([np.arange(2000), (np.arange(2000) + 1) % 2000], axis=1)
    np.savetxt(tmp_path / "edges.txt", ring, fmt="%d", delimiter="\t", newline="\r\n", header="a ring")
    read = build("edge_list", 2000, path=tmp_path / "edges.txt").adjacency[0]
    assert (read != build("ring", 2000).adjacency[0]).nnz == 0


def test_a_complete_graph_needs_no_networkx() -> None:
    """It takes memory that is missing elsewhere."""
    code = (
        "import sys; from dtoken.graph.topologies import build; build('complete', 3); print('networkx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_edges_given_as_a_list():
    assert build("edge_list", 3, edges=[[0, 1], (1, 2), [1, 0]]).neighbours(1).tolist() == [0, 2]
    assert build("edge_list", 3, edges=[[0, 1], [1, 2], [2, 0]], directed=True).neighbours(1).tolist() == [2]
    for edges, words in ([[0, 3]], "node 3 is outside 0..2"), ([[0, 1, 2]], "has 3 words"), ([7], "has 1 words"):
        with pytest.raises(InputError, match=words):
            build("edge_list", 3, edges=edges)
    with pytest.raises(InputError, match="both given"):
        build("edge_list", 3, edges=[[0, 1]], path="file")


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_edges_of_a_networkx_graph(kind):
    graph = kind([(0, 2), (2, 1), (1, 0), (1, 0)])
    topology = build("edge_list", 3, **edges_of(graph))
    assert topology.directed == graph.is_directed()
    for node in graph:
        assert topology.neighbours(node).tolist() == sorted(set(graph.neighbors(node)))


def test_nodes_of_a_networkx_graph_are_numbers_from_zero():
    with pytest.raises(InputError, match="convert_node_labels_to_integers"):
        edges_of(nx.Graph([(1, 2), (2, 3)]))
