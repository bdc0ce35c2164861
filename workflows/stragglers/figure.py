"""Draw what stragglers cost each method: ideal time to an accuracy, with equal and with unequal nodes.

Token methods twice: on the drawn schedule, and on the timed one.

dtoken -m +experiment=stragglers
python workflows/stragglers/figure.py multirun/stragglers --output stragglers.png
"""

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt

Times = dict[str, dict[str, float]]  # ideal time by method and tau_comp


def main() -> None:
    """Read all runs, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description="Ideal time with stragglers, from a sweep of +experiment=stragglers.")
    parser.add_argument("sweep", type=Path, help="sweep directory")
    parser.add_argument("--accuracy", default="1e-06", help="which of record.accuracies")
    parser.add_argument("--output", type=Path, default=Path("stragglers.png"))
    options = parser.parse_args()
    found = read(options.sweep, options.accuracy)
    worlds = sorted(
        {world for times in found.values() for world in times}, key=lambda world: (world[0].isalpha(), world)
    )
    figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
    for place, world in enumerate(worlds):
        left = [method + 0.8 * place / len(worlds) for method in range(len(found))]
        bars = [times.get(world, 0.0) for times in found.values()]
        axis.bar(left, bars, 0.8 / len(worlds), align="edge", label=f"tau_comp = {world}")
    for method, times in found.items():
        for world in worlds:
            more = f"{times[world] / times[worlds[0]]:5.2f} times" if world in times and worlds[0] in times else ""
            print(f"{method:12} tau_comp {world:18} {times.get(world, float('nan')):12,.0f} {more}")
    axis.set_xticks([method + 0.4 for method in range(len(found))], list(found))
    axis.set(yscale="log", ylabel=f"ideal time to {options.accuracy}")
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(options.output, dpi=110)
    print(options.output)


def read(sweep: Path, accuracy: str) -> Times:
    """The median over seeds of the ideal time until runs stay below the accuracy."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(sweep.glob("*/summary.json"), key=lambda path: int(path.parent.name)):
        summary = json.loads(path.read_text())
        taken = summary["to_accuracy"].get(accuracy, {}).get("stays_below")
        if taken is None:
            print(f"{path.parent} did not reach {accuracy}")
            continue
        method = summary["config"]["algorithm"]["_target_"].split(".")[-2]
        if summary["config"]["schedule"]["kind"] == "timed":
            if "tokens" not in summary["config"]["algorithm"]:
                continue  # with rounds: the same as drawn
            method += " timed"
        found[method][str(summary["config"]["time"]["tau_comp"])].append(taken["time"])
    return {
        method: {world: statistics.median(times) for world, times in worlds.items()} for method, worlds in found.items()
    }


if __name__ == "__main__":
    main()
