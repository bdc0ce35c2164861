"""The order of rows: what independent draws, permuted rows and permuted buckets take on several datasets.

python workflows/order.py [FILE ...] [--nodes 20] [--sigma 1e-5] [--accuracy 1e-8] [--start zero] [--seeds 3]

Data: tiny (the package's own), synthetic, rcv1_like, scikit-learn's breast_cancer (features scaled), and every file in
LIBSVM's format that is named; --only and --methods choose among them and among the methods. Prints, as
Markdown, the passes, jumps and seconds (one thread, evaluations left out) until (F - F*) / n stays below the accuracy:
the median over seeds. sdca's independent draws are those of sampling=uniform.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

import dtoken

ORDERS: dict[str, dict[str, Any]] = {
    "importance": {"sampling": "importance"},
    "uniform": {"sampling": "uniform"},
    "permuted": {"sampling": "permuted", "bucket_rows": 1},
    "buckets of 32": {"sampling": "permuted"},
    "buckets of 512": {"sampling": "permuted", "bucket_rows": 512},
}
METHODS: dict[str, dict[str, Any]] = {
    "tvr, K = 4": {"_target_": "tvr", "tokens": 4},
    "tavr, K = 1": {"_target_": "tavr"},
    "tavr, K = 4": {"_target_": "tavr", "tokens": 4},
    "tavr, K = 1, factor 0.01": {"_target_": "tavr", "smoothness": "factor", "factor": 0.01},
    "sdca, all rows a visit": {"_target_": "sdca", "share": 1.0},
    "sdca, a third": {"_target_": "sdca"},
    "sdca, a tenth": {"_target_": "sdca", "share": 0.1},
}
COLUMNS = ("passes", "jumps", "wall")
PARTITION = {"kind": "shuffled"}


def datasets(named: list[Path]) -> dict[str, Any]:
    """Data by name."""
    X, y = load_breast_cancer(return_X_y=True)
    made = {
        "tiny": "tiny",
        "breast_cancer": ((X - X.mean(axis=0)) / X.std(axis=0), y),
        "synthetic": {"kind": "synthetic", "rows": 4000, "features": 50},
        "rcv1_like": {"kind": "rcv1_like", "rows": 8000, "features": 4000},
    }
    return made | {file.name.split(".")[0]: {"kind": "svmlight", "path": file} for file in named}


def amounts(data: Any, method: dict[str, Any], options: argparse.Namespace, seed: int) -> tuple[float, ...] | None:
    """What a run took to stay below the accuracy; None: it did not get there."""
    accuracy = options.nodes * options.accuracy
    result = dtoken.run(
        data,
        options.nodes,
        method,
        sigma=options.sigma,
        seed=seed,
        partition=PARTITION,
        stop={"passes": options.most, "suboptimality": accuracy},
        record={"every_passes": 0.5, "growth": 0.01, "accuracies": (accuracy,)},
        threads=1,
    )
    (found,) = result.summary["to_accuracy"].values()
    below = found["stays_below"]
    return None if below is None else tuple(float(below[column]) for column in COLUMNS)


def cell(data: Any, method: dict[str, Any], order: dict[str, Any], options: argparse.Namespace) -> str:
    """The medians of the columns over seeds."""
    if method["_target_"] == "sdca" and order["sampling"] == "importance":
        return "-"
    start = {} if method["_target_"] == "sdca" else {"start": options.start}
    runs = [amounts(data, method | order | start, options, seed) for seed in range(options.seeds)]
    done = [run for run in runs if run is not None]
    if len(done) < len(runs):
        return f"> {options.most:g}"
    passes, jumps, seconds = (statistics.median(values) for values in zip(*done, strict=True))
    return f"{passes:.3g} / {jumps:,.0f} / {seconds:.2g} s"


def main() -> None:
    """Measure all, and print the tables."""
    parser = argparse.ArgumentParser(description="What orders of rows take on several datasets.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", nargs="*", help="names of datasets; all unless given")
    parser.add_argument("--methods", nargs="*", help="their titles in the table; all unless given")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--sigma", type=float, default=1e-5)
    parser.add_argument("--accuracy", type=float, default=1e-8)
    parser.add_argument("--start", default="zero", help="of tvr and tavr")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=float, default=300.0, help="passes after which a run is given up")
    options = parser.parse_args()
    methods = {
        title: method for title, method in METHODS.items() if options.methods is None or title in options.methods
    }
    for name, data in datasets(options.files).items():
        if options.only is not None and name not in options.only:
            continue
        print(f"{name}: passes / jumps / seconds\n\n| | {' | '.join(ORDERS)} |\n|---{'|---' * len(ORDERS)}|")
        for title, method in methods.items():
            cells = [cell(data, method, order, options) for order in ORDERS.values()]
            print(f"| {title} | {' | '.join(cells)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
