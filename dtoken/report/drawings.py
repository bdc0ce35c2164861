"""Small drawings of graphs, partitions and pairs of nodes as SVG text, in the colours of the page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtoken.errors import InputError
from dtoken.graph import Topology, build

MOST_NODES, MOST_EDGES = 150, 3000
MOST_BARS = 500  # nodes of a partition that are drawn one by one
SIZE = 190  # of a drawing of a graph
ROUND = ("complete", "ring", "directed_cycle", "directed_random", "time_varying")


def graph_drawing(kind: str, nodes: int, params: Mapping[str, Any]) -> str | None:
    """A graph as SVG; None: too large to be seen, or its file is no longer there."""
    if nodes > MOST_NODES:
        return None
    try:
        topology = build(kind, nodes, **params)
    except (InputError, OSError):
        return None
    edges = _edges(topology)
    if len(edges) > MOST_EDGES:
        return None
    places = _places(topology, edges)
    faint = max(0.12, min(0.75, 30 / max(len(edges), 1)))
    lines = "".join(
        f'<line x1="{places[a][0]:.1f}" y1="{places[a][1]:.1f}" x2="{places[b][0]:.1f}" y2="{places[b][1]:.1f}"/>'
        for a, b in edges
    )
    radius = max(1.6, min(5.0, 60 / nodes))
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in places)
    return (
        f'<svg class="graph" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="{kind}, {nodes} nodes">'
        f'<g class="edges" stroke-opacity="{faint:.2f}">{lines}</g><g class="nodes">{dots}</g></svg>'
    )


def _edges(topology: Topology) -> list[tuple[int, int]]:
    """Edges without direction and loops, of all graphs of a sequence together."""
    pairs = set()
    for index in range(max(1, len(topology.adjacency))):
        for node in range(topology.n):
            pairs |= {(min(node, int(other)), max(node, int(other))) for other in topology.neighbours(node, index)}
    return sorted((a, b) for a, b in pairs if a != b)


def _places(topology: Topology, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    import networkx as nx

    n = topology.n
    if topology.kind in ROUND:
        angles = [2 * math.pi * node / n - math.pi / 2 for node in range(n)]
        found = np.array([(math.cos(angle), math.sin(angle)) for angle in angles])
    else:
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(edges)
        layout = nx.kamada_kawai_layout(graph) if n > 1 else {0: (0.0, 0.0)}
        found = np.array([layout[node] for node in range(n)])
    found = found - (found.max(axis=0) + found.min(axis=0)) / 2
    found = found / max(float(np.abs(found).max()), 1e-9) * (SIZE / 2 - 8) + SIZE / 2
    return [(float(x), float(y)) for x, y in found]


def partition_drawing(rows: Sequence[int], positives: Sequence[int] | None) -> str:
    """Rows of each node as bars; where labels are classes, the lower part is the positive ones.

    Of many nodes some are drawn: evenly spaced ones in the order of their rows.
    """
    width, height, gap = 420.0, 120.0, 0.15
    numbers = np.arange(len(rows))
    if len(rows) > MOST_BARS:
        order = np.argsort(rows, kind="stable")
        numbers = order[np.linspace(0, len(rows) - 1, MOST_BARS).astype(np.int64)]
    step, top = width / len(numbers), max(rows)
    bars = []
    for place, node in enumerate(numbers.tolist()):
        size = rows[node]
        x, thick = place * step + step * gap / 2, step * (1 - gap)
        whole = height * size / top
        lower = height * positives[node] / top if positives else 0.0
        share = f", {positives[node] / size:.0%} positive" if positives and size else ""
        title = f"<title>node {node}: {size:,} rows{share}</title>"
        bars.append(
            f'<g>{title}<rect class="rows" x="{x:.2f}" y="{height - whole:.2f}" width="{thick:.2f}" '
            f'height="{whole - lower:.2f}"/><rect class="positive" x="{x:.2f}" y="{height - lower:.2f}" '
            f'width="{thick:.2f}" height="{lower:.2f}"/></g>'
        )
    return (
        f'<svg class="partition" viewBox="0 0 {width:.0f} {height:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="rows of each node">{"".join(bars)}</svg>'
    )


def matrix_drawing(values: Sequence[Sequence[float]]) -> str:
    """Numbers of pairs of nodes as a map, darker where they are larger; nothing on the diagonal."""
    n = len(values)
    if n > MOST_NODES:
        return ""
    largest, step = max(max(row) for row in values), SIZE / n
    cells = "".join(
        f'<rect x="{v * step:.2f}" y="{u * step:.2f}" width="{step:.2f}" height="{step:.2f}" '
        f'fill-opacity="{0.05 + 0.95 * value / max(largest, 1e-300):.3f}">'
        f"<title>what node {v} learns about node {u}: {value:.3g}</title></rect>"
        for u, row in enumerate(values)
        for v, value in enumerate(row)
        if u != v
    )
    return (
        f'<svg class="matrix" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="epsilon of every pair of nodes">'
        f"{cells}</svg>"
    )


def distance_drawing(values: Mapping[str, float]) -> str:
    """The largest number at each distance as bars from 0 on, with the number above each."""
    if not values:
        return ""
    height, top, step = 90.0, max(values.values()), SIZE / len(values)
    every = math.ceil(len(values) / 6)  # numbers that have room
    bars = []
    for place, (distance, value) in enumerate(values.items()):
        tall, left, middle = height * value / top, place * step + 1, (place + 0.5) * step
        bars.append(
            f"<g><title>distance {distance}: {value:.3g}</title>"
            f'<rect x="{left:.1f}" y="{height + 14 - tall:.1f}" width="{step - 2:.1f}" height="{tall:.1f}"/>'
        )
        if place % every == 0:
            bars.append(
                f'<text x="{middle:.1f}" y="{height + 10 - tall:.1f}">{value:.3g}</text>'
                f'<text x="{middle:.1f}" y="{height + 28:.1f}">{distance}</text>'
            )
        bars.append("</g>")
    return (
        f'<svg class="distances" viewBox="0 0 {SIZE} {height + 34:.0f}" role="img" '
        f'aria-label="largest epsilon at each distance">{"".join(bars)}</svg>'
    )
