"""What walks by laws of their own are good for: one figure of three.

Left: the variance of the share of visits of a node against alpha of the self-repelling walk, measured by many tokens on
a small ring, and as its paper proves. Middle: how long a weighted walk stays on its side of a barbell, where one node
of each side has most of the weight, without and with Levy jumps. Right: jumps until F - F* stays below 1e-6 on the
complete graph, with independent visits and in permuted rounds, relative to the former.

python workflows/walks/figure.py --output walks.png     # two minutes
"""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import dtoken
from dtoken.graph import build
from dtoken.schedule.events import VISIT
from dtoken.schedule.stream import Drawn, Law, first_start
from dtoken.schedule.walks.levy import Levy
from dtoken.schedule.walks.registry import make_walk
from dtoken.schedule.walks.self_repelling import SelfRepelling

RING, TOKENS, SEGMENTS = 11, 400, 30  # an odd ring has no period
ALPHAS = (0.5, 1, 2, 4, 8, 16, 32)
CLIQUE, HEAVY = 8, 40.0
P_JUMPS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
SEEDS = range(5)
METHODS = ("tvr", "sdca", "walkman")
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"


def visits(graph: Any, law: Any, tokens: int, segments: int) -> list[Any]:
    """The visits of every token, in order."""
    steps = Law(tokens, 1.0, 0.0, np.full(graph.n, 1 / graph.n))
    schedule = Drawn(0, steps, make_walk(graph, law.name, None, law))
    parts = [events for events, _ in islice(schedule.segments(first_start(graph.n, tokens)), segments)]
    node, token = (np.concatenate([part[field] for part in parts]) for field in (1, 3))
    kind = np.concatenate([part.kind for part in parts])
    return [node[(token == k) & (kind == VISIT)] for k in range(tokens)]


def proved(alpha: float, n: int) -> float:
    """The same, in the limit, on a ring of n nodes."""
    modes = np.cos(2 * np.pi * np.arange(1, n) / n)
    return float(np.sum((1 + modes) / (1 - modes) / (2 * alpha * (1 + modes) + 1)) / n**2)


def stay(p_jump: float) -> float:
    """Mean number of visits in a row on the same side of the barbell."""
    graph = build("barbell", 2 * CLIQUE, clique=CLIQUE)
    weights = tuple(HEAVY if node in (1, 2 * CLIQUE - 2) else 1.0 for node in range(2 * CLIQUE))
    (path,) = visits(graph, Levy(p_jump=p_jump, weights=weights), 1, 10)
    return len(path) / (1 + np.count_nonzero(np.diff(path < CLIQUE)))


def jumps(walk: str, method: str, seed: int) -> float:
    """Until F - F* stays below 1e-6."""
    result = dtoken.run(
        nodes=20,
        seed=seed,
        data={"kind": "synthetic", "rows": 400, "features": 10},
        sigma=1e-2,
        graph={"kind": "complete", "walk": walk},
        algorithm=method,
        stop={"passes": 8000, "suboptimality": 1e-7},
        record={"every_jumps": 20, "every_passes": None, "accuracies": [1e-6]},
    )
    found = result.summary["to_accuracy"]["1e-06"]["stays_below"]
    return float(found["jumps"]) if found else np.inf


def draw(variances: Axes, stays: Axes, costs: Axes) -> None:
    """All three."""
    n = RING
    fine = np.geomspace(ALPHAS[0], ALPHAS[-1], 50)
    variances.loglog(fine, [proved(alpha, n) for alpha in fine], color=GREY, label="proved, in the limit")
    variances.loglog(ALPHAS, [variance_on(n, alpha) for alpha in ALPHAS], "o", color=BLUE, label=f"{TOKENS} walks")
    variances.set(xlabel=r"$\alpha$", ylabel="variance x visits", title=f"self_repelling, ring of {n}")
    variances.legend()
    found = [stay(p_jump) for p_jump in P_JUMPS]
    stays.plot(P_JUMPS, found, "o-", color=ORANGE)
    stays.set_yscale("log")
    stays.set(xlabel="graph.p_jump", ylabel="visits until it changes sides", title=f"levy, barbell 2 x {CLIQUE}")
    print(
        "visits on a side: " + ", ".join(f"p_jump {p:g}: {value:.0f}" for p, value in zip(P_JUMPS, found, strict=True))
    )
    for place, method in enumerate(METHODS):
        both = {walk: np.array([jumps(walk, method, seed) for seed in SEEDS]) for walk in ("simple", "rounds")}
        unit = np.median(both["simple"])
        print(f"{method}: rounds save {1 - np.median(both['rounds']) / unit:.0%} of the jumps to 1e-6")
        for shift, (walk, colour) in enumerate((("simple", GREY), ("rounds", BLUE))):
            where = place + 0.35 * (shift - 0.5)
            costs.bar(where, np.median(both[walk]) / unit, 0.3, color=colour, label=walk if place == 0 else None)
            costs.plot([where] * len(SEEDS), both[walk] / unit, ".", color="black")
    costs.set_xticks(range(len(METHODS)), METHODS)
    costs.set(ylabel="jumps to 1e-6, relative", title="rounds, complete graph of 20")
    costs.legend(loc="lower left")


def variance_on(n: int, alpha: float) -> float:
    """Measured on a ring of n nodes."""
    found = [
        (np.mean(path == 0) - 1 / n) ** 2 * len(path)
        for path in visits(build("ring", n), SelfRepelling(alpha=alpha), TOKENS, SEGMENTS)
    ]
    print(f"alpha {alpha:g}: variance {np.mean(found):.4f}, proved {proved(alpha, n):.4f}")
    return float(np.mean(found))


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("walks.png"))
    options = parser.parse_args()
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw(*axes)
    figure.savefig(options.output, dpi=150)


if __name__ == "__main__":
    main()
