"""All methods on one small problem: suboptimality against jumps, gradients and ideal time.

python workflows/methods/figure.py --graph ring --output methods.png
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import dtoken

METHODS: dict[str, dict[str, Any]] = {
    "token": {"_target_": "token", "tokens": 4},
    "tvr": {"_target_": "tvr", "tokens": 4},
    "tavr": {"_target_": "tavr", "tokens": 4},
    "walkman": {"_target_": "walkman"},
    "gd, all to all": {"_target_": "gd"},
    "gd, ring": {"_target_": "gd", "allreduce": "ring"},
    "extra": {"_target_": "extra"},
    "nids": {"_target_": "nids"},
    "dvr": {"_target_": "dvr"},
}
AXES = {"jumps": "jumps", "passes": "passes over the data", "time": "ideal time"}


def main() -> None:
    """Run all methods and draw their trajectories."""
    parser = argparse.ArgumentParser(description="All methods on one small problem.")
    parser.add_argument("--graph", default="complete")
    parser.add_argument("--output", type=Path, default=Path("methods.png"))
    options = parser.parse_args()
    graph = {"kind": options.graph, "walk": "lazy"} if options.graph != "complete" else "complete"
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for name, algorithm in METHODS.items():
        result = dtoken.run(
            {"kind": "synthetic", "rows": 2000, "condition": 30.0},
            20,
            algorithm,
            graph,
            sigma=1e-2,
            time={"tau_comm": 100.0},  # as long as a full gradient: m = 100 rows a node
            stop={"passes": 150.0, "suboptimality": 1e-9},
            threads=1,
        )
        for axis, column in zip(axes, AXES, strict=True):
            records = result.records[1:]
            axis.plot(
                [getattr(record, column) for record in records],
                [max(r.suboptimality, 1e-16) for r in records],
                label=name,
            )
    for axis, label in zip(axes, AXES.values(), strict=True):
        axis.set(xlabel=label, xscale="log", yscale="log", ylim=(1e-9, 1e2))
    axes[0].set_ylabel("suboptimality")
    axes[0].legend(frameon=False, fontsize=7)
    figure.savefig(options.output, dpi=110)
    print(options.output)


if __name__ == "__main__":
    main()
