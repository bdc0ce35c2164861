"""The user's own graph, from a text file with one edge per line."""

from pathlib import Path
from typing import TYPE_CHECKING

from dtoken.errors import InputError
from dtoken.graph.checks import enough
from dtoken.graph.topology import Topology, adjacency_of

if TYPE_CHECKING:
    import networkx as nx
else:
    from dtoken.graph.lazy import nx


def edge_list(n: int, path: str | Path, directed: bool = False) -> Topology:
    """Read lines "u v" of node numbers 0..n-1 from ``path``; "#" starts a comment.

    Repeated edges count once. With ``directed``, a token may jump from u to v but not back.
    """
    enough("edge_list", n, 2)
    if not isinstance(directed, bool):
        raise InputError(f"graph.directed={directed!r} must be true or false")
    edges = _edges(Path(path), n)
    graph: nx.Graph[int] = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    params = {"path": str(path), "directed": directed}
    return Topology("edge_list", n, directed, (adjacency_of(graph),), params=params)


def _edges(path: Path, n: int) -> list[tuple[int, int]]:
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
