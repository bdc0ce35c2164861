"""Where to start: what each start of the methods with margins takes on several datasets.

python workflows/starts.py [FILE ...] [--nodes 8] [--kappa 300]

Data: tiny (the package's own file), synthetic, rcv1_like, and every file in LIBSVM's format that is named. Prints, as
Markdown, passes, jumps and ideal time until F - F* stays below 1e-2, 1e-4 and 1e-6 of each start, relative to
``zero``: every dataset alone, and the geometric mean over all. sigma is such that kappa = 1 + L_b / sigma
is the same on all; tau_comm is a tenth of the rows of a node.
"""

import argparse
import math
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import dtoken

STARTS = ("zero", "labels", "local")
PARTITION = {"kind": "shuffled"}
METHODS: tuple[dict[str, Any], ...] = (
    *({"_target_": name, "tokens": K} for name in ("token", "tvr", "tavr") for K in (1, 4)),
    {"_target_": "dvr"},
)
ACCURACIES = (1e-2, 1e-4, 1e-6)
COLUMNS = ("passes", "jumps", "time")
Amounts = dict[tuple[float, str], float]  # by accuracy and column


def datasets(named: list[Path]) -> dict[str, Any]:
    """Data by name."""
    tiny = Path(str(files("dtoken.data") / "embedded" / "tiny.svm.xz"))
    made = {
        "tiny": {"kind": "svmlight", "path": tiny},
        "synthetic": {"kind": "synthetic", "rows": 4000, "features": 50},
        "rcv1_like": {"kind": "rcv1_like", "rows": 8000, "features": 4000},
    }
    return made | {file.name.split(".")[0]: {"kind": "svmlight", "path": file} for file in named}


def amounts(data: Any, nodes: int, sigma: float, tau_comm: float, method: dict[str, Any]) -> Amounts:
    """What a run took to stay below each accuracy."""
    result = dtoken.run(
        data,
        nodes,
        method,
        sigma=sigma,
        partition=PARTITION,
        stop={"passes": 50_000, "suboptimality": ACCURACIES[-1]},
        record={"every_passes": 0.2, "growth": 0.05, "accuracies": ACCURACIES},
        time={"tau_comm": tau_comm},
        threads=1,
    )
    found = {float(key): value["stays_below"] for key, value in result.summary["to_accuracy"].items()}
    return {
        (accuracy, column): math.inf if found[accuracy] is None else float(found[accuracy][column])
        for accuracy in ACCURACIES
        for column in COLUMNS
    }


def measure(data: Any, nodes: int, kappa: float) -> dict[tuple[str, str], Amounts]:
    """By method and start; sigma makes kappa (without tokens) what it is to be."""
    probe = dtoken.run(data, nodes, "gd", sigma=1.0, partition=PARTITION, stop={"events": 1}, threads=1)
    sigma, tau_comm = probe.constants["L_b"] / (kappa - 1), probe.summary["data"]["rows"] / nodes / 10
    return {
        (title(method), start): amounts(data, nodes, sigma, tau_comm, method | {"start": start})
        for method in METHODS
        for start in STARTS
    }


def title(method: dict[str, Any]) -> str:
    """A method and its tokens."""
    return method["_target_"] + (f", K={method['tokens']}" if "tokens" in method else "")


def rows_of(found: list[dict[tuple[str, str], Amounts]]) -> Iterator[str]:
    """Rows of a table: the geometric mean over datasets of what a start takes, relative to zero."""
    for method in METHODS:
        for start in STARTS[1:]:
            cells = []
            for column in COLUMNS:
                for accuracy in ACCURACIES:
                    logs = [
                        math.log(each[title(method), start][accuracy, column])
                        - math.log(each[title(method), "zero"][accuracy, column])
                        for each in found
                    ]
                    cells.append(f"{math.exp(sum(logs) / len(logs)):.2f}")
            yield f"| {title(method)} | {start} | " + " | ".join(cells) + " |"


def table(name: str, found: list[dict[tuple[str, str], Amounts]]) -> str:
    """As Markdown."""
    head = [f"{column} to {accuracy:g}" for column in COLUMNS for accuracy in ACCURACIES]
    lines = [f"{name}\n", "| method | start | " + " | ".join(head) + " |", "|---" * (len(head) + 2) + "|"]
    return "\n".join([*lines, *rows_of(found)]) + "\n"


def main() -> None:
    """Measure all, and print the tables."""
    parser = argparse.ArgumentParser(description="What each start takes on several datasets.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--kappa", type=float, default=300.0)
    options = parser.parse_args()
    found = {}
    for name, data in datasets(options.files).items():
        found[name] = measure(data, options.nodes, options.kappa)
        print(table(name, [found[name]]), flush=True)
    print(table("all", list(found.values())))


if __name__ == "__main__":
    main()
