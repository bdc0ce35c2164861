"""The conceptual graph of a small problem, beside the communication graph it comes from.

python workflows/concepts/figure.py --output conceptual.png
"""

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.axes import Axes

NODES, SAMPLES, TOKENS = 5, 3, 2
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.45"
Place = tuple[float, float]


def around(count: int, radius: float, turn: float = math.pi / 2) -> list[Place]:
    """So many points on a circle."""
    angles = [turn + 2 * math.pi * k / count for k in range(count)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def samples_of(place: Place) -> list[Place]:
    """Where the computation nodes of a node are: a fan further out."""
    angle, radius = math.atan2(place[1], place[0]), 1.95
    return [(radius * math.cos(angle + 0.22 * k), radius * math.sin(angle + 0.22 * k)) for k in range(-1, SAMPLES - 1)]


def draw(axes: Axes, graph: "nx.Graph[str]", places: dict[str, Place], colours: dict[str, str]) -> None:
    """Draw vertices by kind, which the first letter of their name says, and edges."""
    nx.draw_networkx_edges(graph, places, ax=axes, edge_color=GREY, width=1.0)
    for kind, colour in colours.items():
        own = [name for name in graph if name.startswith(kind)]
        size = 90 if kind == "s" else 480
        nx.draw_networkx_nodes(graph, places, own, ax=axes, node_color=colour, node_size=size, linewidths=0)
        if kind != "s":
            labels = {name: f"${name[0]}_{name[1:]}$".replace("n_", "").replace("t_", "τ_") for name in own}
            nx.draw_networkx_labels(graph, places, labels, ax=axes, font_color="white", font_size=11)
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set(xlim=(-2.25, 2.25), ylim=(-2.25, 2.25))


def main() -> None:
    """Draw both graphs."""
    parser = argparse.ArgumentParser(description="The conceptual graph of a small problem.")
    parser.add_argument("--output", type=Path, default=Path("conceptual.png"))
    options = parser.parse_args()
    nodes = [f"n{i + 1}" for i in range(NODES)]
    ring: nx.Graph[str] = nx.cycle_graph(nodes)
    places = dict(zip(nodes, around(NODES, 1.3), strict=True))
    conceptual: nx.Graph[str] = nx.Graph()
    everywhere = dict(places)
    for k, place in enumerate([(-0.35, 0.0), (0.35, 0.0)]):
        everywhere[f"t{k + 1}"] = place
        conceptual.add_edges_from((node, f"t{k + 1}") for node in nodes)
    for node in nodes:
        for j, place in enumerate(samples_of(places[node])):
            everywhere[f"s{node}{j}"] = place
            conceptual.add_edge(node, f"s{node}{j}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    draw(left, ring, places, {"n": BLUE})
    for node in ("n2", "n4"):
        x, y = places[node]
        left.plot(1.28 * x, 1.28 * y, marker="s", markersize=9, color=ORANGE)
    left.set_title("communication graph: where tokens (squares) may go", fontsize=11)
    draw(right, conceptual, everywhere, {"n": BLUE, "t": ORANGE, "s": GREEN})
    right.set_title("conceptual graph: what is updated together", fontsize=11)
    figure.savefig(options.output, dpi=130)
    print(options.output)


if __name__ == "__main__":
    main()
