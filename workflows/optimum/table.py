"""Every method and variant down to a suboptimality of 1e-6: predicted and measured costs, as a Markdown table.

python workflows/optimum/table.py rcv1sub_binary.svm.xz --output runs

A run that is found in the output folder is not done again, an interrupted one is continued.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dtoken
from dtoken.engine.loop.prediction import BOUNDS, COSTS
from dtoken.text import count

ACCURACY = 1e-6
RING = {"kind": "ring", "walk": "lazy"}


@dataclass(frozen=True)
class Case:
    """A method with its settings, on a graph."""

    name: str
    algorithm: dict[str, Any]
    graph: dict[str, Any] = field(default_factory=lambda: {"kind": "complete"})
    sigma: float | None = None  # another one than the others have, where theirs would take hours

    @property
    def folder(self) -> str:
        """A name for a folder."""
        return "-".join(self.name.replace(",", " ").replace("=", " ").split())


CASES = (
    Case("tavr", {"_target_": "tavr", "tokens": 4}),
    Case("tavr, K=1", {"_target_": "tavr"}),
    Case("tavr, uniform", {"_target_": "tavr", "tokens": 4, "sampling": "uniform"}),
    Case("tavr, theory rule", {"_target_": "tavr", "tokens": 4, "smoothness": "theory"}),
    Case("tavr, continuized", {"_target_": "tavr", "tokens": 4, "continuized": True}),
    Case("tavr, ring, jumps=auto", {"_target_": "tavr", "tokens": 4}, RING),
    Case("tvr", {"_target_": "tvr", "tokens": 4}),
    Case("tvr, K=1", {"_target_": "tvr"}),
    Case("tvr, uniform", {"_target_": "tvr", "tokens": 4, "sampling": "uniform"}),
    Case("tvr, theory rule", {"_target_": "tvr", "tokens": 4, "smoothness": "theory"}),
    Case("tvr, interactions=1", {"_target_": "tvr", "tokens": 4, "interactions": 1.0}),
    Case("tvr, interactions_anywhere=0.01", {"_target_": "tvr", "tokens": 4, "interactions_anywhere": 0.01}),
    Case("tvr, ring", {"_target_": "tvr", "tokens": 4}, RING),
    Case("tvr, ring, jumps=auto", {"_target_": "tvr", "tokens": 4, "jumps": "auto"}, RING),
    Case("tvr, star", {"_target_": "tvr", "tokens": 4}, {"kind": "star", "walk": "lazy"}),
    Case("tvr, directed", {"_target_": "tvr", "tokens": 4}, {"kind": "directed_random", "degree": 3}),
    Case("tvr, time-varying", {"_target_": "tvr", "tokens": 4}, {"kind": "time_varying", "period": 7}),
    Case("tvr, on arrival", {"_target_": "tvr", "tokens": 4, "compute": "on_arrival"}, sigma=1e-3),
    Case("token", {"_target_": "token", "tokens": 4}, sigma=1e-4),
    Case("token, interactions=1", {"_target_": "token", "tokens": 4, "interactions": 1.0}, sigma=1e-4),
    Case("token, on arrival", {"_target_": "token", "tokens": 4, "compute": "on_arrival"}, sigma=1e-4),
    Case("walkman", {"_target_": "walkman"}, sigma=1e-4),
    Case("walkman, proximal", {"_target_": "walkman", "mode": "proximal", "beta": "paper"}, sigma=1e-4),
    Case("dvr", {"_target_": "dvr"}),
    Case("dvr, uniform", {"_target_": "dvr", "sampling": "uniform"}),
    Case("dvr, ring", {"_target_": "dvr"}, RING),
    Case("gd", {"_target_": "gd"}, sigma=1e-4),
    Case("gd, ring", {"_target_": "gd", "allreduce": "ring"}, sigma=1e-4),
    Case("gd, centralized", {"_target_": "gd", "allreduce": "centralized"}, sigma=1e-4),
    Case("extra", {"_target_": "extra"}, sigma=1e-4),
    Case("extra, ring", {"_target_": "extra"}, RING, sigma=1e-4),
    Case("nids", {"_target_": "nids"}, sigma=1e-4),
    Case("nids, step=1.9, ring", {"_target_": "nids", "step": 1.9}, RING, sigma=1e-4),
)


def run_case(case: Case, data: Any, sigma: float, folder: Path | None = None, **settings: Any) -> dtoken.Result:
    """One run to the accuracy, at most 100,000 passes."""
    return dtoken.run(
        data,
        20,
        case.algorithm,
        case.graph,
        sigma=case.sigma or sigma,
        stop={"passes": 1e5, "suboptimality": ACCURACY},
        record={"every_passes": 1.0, "growth": 0.05, "accuracies": (ACCURACY,)},  # all to within 5 %
        threads=1,
        directory=folder,
        **settings,
    )


def predicted_passes(case: Case, data: Any, sigma: float) -> str:
    """What the theory says: a bound where it is proved, or about."""
    found = dtoken.predict(data, 20, case.algorithm, case.graph, sigma=case.sigma or sigma, accuracies=(ACCURACY,))
    quantity = f"passes to {ACCURACY:g}"
    if quantity not in found.index:
        return "-"
    word = "at most" if found.loc[COSTS].iloc[0] == BOUNDS else "about"
    return f"{word} {float(found.loc[quantity].iloc[0]):,.0f}"


def row(case: Case, result: dtoken.Result, predicted: str, sigma: float) -> str:
    """A line of the table."""
    taken = result.to_accuracy(ACCURACY)["stays_below"]
    reached = ["-"] * 3
    if taken is not None:
        reached = [f"{taken['passes']:,.0f}", count(taken["jumps"]), f"{taken['wall']:.3g}"]
    return f"| {case.name} | {case.sigma or sigma:g} | {predicted} | " + " | ".join(reached) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description="Every method and variant down to 1e-6.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--sigma", type=float, default=1e-5)
    parser.add_argument("--output", type=Path, default=Path("optimum"))
    parser.add_argument("--only", default="", help="cases whose name begins so")
    options = parser.parse_args(arguments)
    print("| method, variant | sigma | passes, predicted | passes | jumps | wall s |\n|---|---|---|---|---|---|")
    for case in CASES:
        if case.name.startswith(options.only):
            found = run_case(case, options.data, options.sigma, options.output / case.folder)
            print(row(case, found, predicted_passes(case, options.data, options.sigma), options.sigma), flush=True)


if __name__ == "__main__":
    main()
