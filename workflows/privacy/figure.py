"""What nodes of a ring learn about each other by a private walk, and what that costs: one figure of three.

Left: epsilon(u, v) of every pair, for a run of walk_sgd. Middle: the largest epsilon at each distance, on three graphs,
beside what holds against one who sees everything. Right: F - F* against the largest epsilon, by runs with more and less
noise, medians of five seeds.

python workflows/privacy/figure.py --output privacy.png     # a minute
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import dtoken
from dtoken.theory.privacy import epsilon

NODES, PASSES, DELTA = 16, 200, 1e-5
NOISES = (0.5, 1, 2, 4, 8, 16)
GRAPHS = {"ring": "#D55E00", "hypercube": "#0072B2", "complete": "#009E73"}
SEEDS = range(5)


def go(graph: str, noise: float, seed: int = 0) -> Any:
    """A private run."""
    return dtoken.run(
        nodes=NODES,
        seed=seed,
        data={"kind": "synthetic", "rows": 4000, "features": 10},
        sigma=0.1,
        graph={"kind": graph, "walk": "metropolis"},
        algorithm="walk_sgd",
        privacy={"clip": 1.0, "noise": noise, "delta": DELTA},
        stop={"passes": PASSES},
    )


def draw(matrix: Axes, distance: Axes, utility: Axes) -> None:
    """All three."""
    runs = {graph: go(graph, 4.0) for graph in GRAPHS}
    found = np.array(runs["ring"].summary["privacy"]["epsilon"])
    np.fill_diagonal(found, np.nan)
    image = matrix.imshow(found, cmap="viridis")
    matrix.figure.colorbar(image, ax=matrix, label=r"$\epsilon(u, v)$")
    matrix.set(xlabel="v, who looks", ylabel="u, whose data", title=f"ring of {NODES}, noise 4")
    for graph, colour in GRAPHS.items():
        told = runs[graph].summary["privacy"]
        by_distance = told["epsilon_by_distance"]
        distance.plot([int(d) for d in by_distance], list(by_distance.values()), "o-", color=colour, label=graph)
        print(f"{graph}: " + ", ".join(f"{eps:.2f} at distance {d}" for d, eps in by_distance.items()))
        all_seen = float(epsilon(np.max(told["rho_local"]), DELTA))
        distance.axhline(all_seen, color=colour, linestyle=":", linewidth=1)
    distance.set(xlabel="distance in the graph", ylabel=r"largest $\epsilon$", title="dotted: who sees everything")
    distance.legend()
    for graph, colour in GRAPHS.items():
        points = []
        for noise in NOISES:
            several = [go(graph, noise, seed) for seed in SEEDS]
            gap = np.median([one.summary["end"]["suboptimality"] for one in several])
            points.append((np.median([np.max(one.summary["privacy"]["epsilon"]) for one in several]), gap))
        utility.loglog(*zip(*points, strict=True), "o-", color=colour, label=graph)
    utility.set(xlabel=r"largest $\epsilon(u, v)$", ylabel=r"$F - F^*$", title=f"after {PASSES} passes")


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("privacy.png"))
    options = parser.parse_args()
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw(*axes)
    figure.savefig(options.output, dpi=150)


if __name__ == "__main__":
    main()
