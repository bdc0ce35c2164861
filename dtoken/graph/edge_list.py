"""The user's own graph, from a text file with one edge per line, a list of edges, or networkx."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.graph.checks import enough
from dtoken.graph.topology import Topology, from_edges

NEWLINE, HASH, ZERO, SPACES = 10, 35, 48, (9, 11, 12, 13, 32)  # bytes


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
    found = _read_edges(Path(path), n) if path is not None else _listed(edges or (), n)
    given = {"edges": len(found)} if path is None else {"path": str(path)}
    return Topology(
        "edge_list",
        n,
        directed,
        (from_edges(n, found[:, 0], found[:, 1], directed=directed),),
        params={**given, "directed": directed},
    )


def is_networkx(graph: object) -> bool:
    """Whether something is a graph of networkx, which need not be loaded to say so."""
    return all(hasattr(graph, name) for name in ("is_directed", "is_multigraph", "number_of_nodes", "edges"))


def edges_of(graph: Any) -> dict[str, Any]:
    """The parameters of `edge_list` for a networkx graph, whose nodes must be 0..n-1; weights have no meaning here.

    Examples
    --------
    >>> import networkx as nx
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


def _listed(edges: Sequence[Sequence[int]], n: int) -> NDArray[np.int64]:
    pairs = [_edge([str(word) for word in e] if isinstance(e, Sequence) else [str(e)], n, "graph.edges") for e in edges]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _read_edges(path: Path, n: int) -> NDArray[np.int64]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"graph.path={path} cannot be read ({error.strerror}); give a file of lines 'u v'") from None
    numbers = np.empty(2 * (content.count(b"\n") + 1), np.int64)
    found, wrong = _parse(np.frombuffer(content, np.uint8), n, numbers)
    if wrong:
        try:
            line = content.split(b"\n")[wrong - 1].decode()
        except UnicodeDecodeError:
            raise InputError(f"graph.path={path} is not a text file; give a file of lines 'u v'") from None
        _edge(line.partition("#")[0].split(), n, f"{path}, line {wrong}")
    if found == 0:
        raise InputError(f"graph.path={path} has no edges; give a file of lines 'u v'")
    return numbers[:found].reshape(-1, 2)


@compiled
def _parse(text: NDArray[np.uint8], n: int, numbers: NDArray[np.int64]) -> tuple[int, int]:
    """Write the node numbers of a file; return how many, and the first line, counted from 1, that is no edge, or 0."""
    found, line, words, value, comment = 0, 1, 0, -1, False
    for place in range(len(text) + 1):
        sign = text[place] if place < len(text) else NEWLINE
        if sign == HASH:
            comment = True
        if ZERO <= sign < ZERO + 10 and not comment:
            value = min(max(value, 0) * 10 + sign - ZERO, n)
        elif sign in SPACES or comment or sign == NEWLINE:
            if value >= 0:
                words += 1
                if value >= n or words > 2:
                    return found, line
                numbers[found] = value
                found += 1
                value = -1
            if sign == NEWLINE:
                if words == 1:
                    return found, line
                line, words, comment = line + 1, 0, False
        else:
            return found, line
    return found, 0


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
