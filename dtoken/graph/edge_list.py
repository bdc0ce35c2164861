"""The user's own graph, from a text file with one edge per line, a list of edges, or networkx."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoken.errors import InputError
from dtoken.graph.checks import enough
from dtoken.graph.topology import Topology, adjacency_of

if TYPE_CHECKING:
    import networkx as nx
else:
    from dtoken.graph.lazy import nx


def edge_list(
    n: int, path: str | Path | None = None, directed: bool = False, edges: Sequence[Sequence[int]] | None = None
) -> Topology:
    """Read lines "u v" of node numbers 0..n-1 from ``path``, "#" starts a comment; or take ``edges`` [[u, v], ...].

    Repeated edges count once. With ``directed``, a token may jump from u to v but not back.
    """
    enough("edge_list", n, 2)
    if not isinstance(directed, bool):
        raise InputError(f"graph.directed={directed!r} must be true or false")
    if (path is None) == (edges is None):
        raise InputError(
            "graph=edge_list needs graph.path; give graph.path=VALUE"
            if path is None
            else "graph.path and graph.edges are both given; give one of them"
        )
    found = _read_edges(Path(path), n) if path is not None else [_listed(edge, n) for edge in edges or ()]
    graph: nx.Graph[int] = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(found)
    given = {"edges": len(found)} if path is None else {"path": str(path)}
    return Topology("edge_list", n, directed, (adjacency_of(graph),), params={**given, "directed": directed})


def is_networkx(graph: object) -> bool:
    """Whether something is a graph of networkx, which need not be loaded to say so."""
    return all(hasattr(graph, name) for name in ("is_directed", "is_multigraph", "number_of_nodes", "edges"))


def edges_of(graph: Any) -> dict[str, Any]:
    """The parameters of `edge_list` for a networkx graph, whose nodes must be 0..n-1; weights have no meaning here.

    Examples
    --------
    >>> edges_of(nx.path_graph(3))
    {'edges': [(0, 1), (1, 2)], 'directed': False}
    """
    n = graph.number_of_nodes()
    if set(graph) != set(range(n)):
        raise InputError(
            f"the nodes of the graph are not the numbers 0 to {n - 1}, to which the rows of data belong; "
            "networkx.convert_node_labels_to_integers(graph) numbers them"
        )
    return {"edges": sorted({(int(u), int(v)) for u, v in graph.edges()}), "directed": bool(graph.is_directed())}


def _listed(edge: Sequence[int], n: int) -> tuple[int, int]:
    words = [str(word) for word in edge] if isinstance(edge, Sequence) else [str(edge)]
    return _edge(words, n, "graph.edges")


def _read_edges(path: Path, n: int) -> list[tuple[int, int]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"graph.path={path} cannot be read ({error.strerror}); give a file of lines 'u v'") from None
    except UnicodeDecodeError:
        raise InputError(f"graph.path={path} is not a text file; give a file of lines 'u v'") from None
    edges = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            edges.append(_edge(words, n, f"{path}, line {number}"))
    if not edges:
        raise InputError(f"graph.path={path} has no edges; give a file of lines 'u v'")
    return edges


def _edge(words: list[str], n: int, where: str) -> tuple[int, int]:
    line = " ".join(words)
    if len(words) != 2:
        raise InputError(f"{where}: '{line}' has {len(words)} words; an edge is two node numbers 'u v'")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(f"{where}: '{line}' is not an edge; node numbers are integers from 0 to {n - 1}")
    u, v = (int(word) for word in words)
    if max(u, v) >= n:
        raise InputError(
            f"{where}: node {max(u, v)} is outside 0..{n - 1}; use nodes={max(u, v) + 1} or renumber the nodes"
        )
    return u, v
