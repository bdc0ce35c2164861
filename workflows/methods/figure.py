"""All methods on one small problem: suboptimality against jumps, gradients and ideal time.

python workflows/methods/figure.py --graph ring --output methods.png --each figures

--each: also a small picture of every method, in front of the others.
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
    "sdca": {"_target_": "sdca"},
    "walkman": {"_target_": "walkman"},
    "mc_sag": {"_target_": "mc_sag"},
    "api_bcd": {"_target_": "api_bcd", "tokens": 4},
    "walk_sgd": {"_target_": "walk_sgd"},
    "gd, all to all": {"_target_": "gd"},
    "gd, ring": {"_target_": "gd", "allreduce": "ring"},
    "agd": {"_target_": "agd"},
    "extra": {"_target_": "extra"},
    "nids": {"_target_": "nids"},
    "diging": {"_target_": "diging"},
    "dvr": {"_target_": "dvr"},
    "gt_saga": {"_target_": "gt_saga"},
    "adfs": {"_target_": "adfs"},
}
AXES = {"jumps": "jumps", "passes": "passes over the data", "time": "ideal time"}


Trajectories = dict[str, list[Any]]  # records by method


def main() -> None:
    """Run all methods and draw their trajectories."""
    parser = argparse.ArgumentParser(description="All methods on one small problem.")
    parser.add_argument("--graph", default="complete")
    parser.add_argument("--output", type=Path, default=Path("methods.png"))
    parser.add_argument("--each", type=Path, help="folder for a small picture of every method")
    options = parser.parse_args()
    found = {name: records(algorithm, options.graph) for name, algorithm in METHODS.items()}
    draw(found, list(AXES), options.output, (11, 4.2))
    if options.each is not None:
        for name in dict.fromkeys(keys["_target_"] for keys in METHODS.values()):
            mine = {label for label, keys in METHODS.items() if keys["_target_"] == name}
            draw(found, ["jumps", "time"], options.each / f"{name}.png", (6, 2.2), mine)


def records(algorithm: dict[str, Any], graph: str) -> list[Any]:
    """What was measured after the start."""
    result = dtoken.run(
        {"kind": "synthetic", "rows": 2000, "condition": 30.0},
        20,
        algorithm,
        {"kind": graph, "walk": "lazy"} if graph != "complete" else "complete",
        sigma=1e-2,
        time={"tau_comm": 100.0},  # as long as a full gradient: m = 100 rows a node
        stop={"passes": 150.0, "suboptimality": 1e-9},
        threads=1,
    )
    return result.records[1:]


def draw(
    found: Trajectories, columns: list[str], output: Path, size: tuple[float, float], front: set[str] | None = None
) -> None:
    """A panel for each column; methods that are not in ``front`` are grey."""
    figure, axes = plt.subplots(1, len(columns), figsize=size, sharey=True, layout="constrained")
    for axis, column in zip(axes, columns, strict=True):
        axis.set_prop_cycle(color=plt.get_cmap("tab20").colors)  # type: ignore[attr-defined]
        for name, measured in found.items():
            behind = front is not None and name not in front
            axis.plot(
                [getattr(record, column) for record in measured],
                [max(record.suboptimality, 1e-16) for record in measured],
                label=None if behind else name,
                **({"color": "0.8", "linewidth": 0.8, "zorder": 1} if behind else {}),
            )
        axis.set(xlabel=AXES[column], xscale="log", yscale="log", ylim=(1e-9, 1e2))
    axes[0].set_ylabel("suboptimality")
    axes[0].legend(frameon=False, fontsize=6)
    figure.savefig(output, dpi=110 if front is None else 80)
    plt.close(figure)
    print(output)


if __name__ == "__main__":
    main()
