"""The curves of the paper's figure, from the directory of a sweep (+experiment=paper)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import dtoken
from dtoken.engine.loop.accuracy import crossing

NAMES = {
    ("token", 1): "Token, K=1",
    ("token", 4): "Token, K=4",
    ("tvr", 1): "TVR, K=1",
    ("tvr", 4): "TVR, K=4",
    ("tavr", 1): "TAVR, K=1",
    ("tavr", 4): "TAVR, K=4",
    ("sdca", None): "SDCA",
    ("walkman", None): "Walkman",
    ("gd", "all_to_all"): "GD, all to all",
    ("gd", "ring"): "GD, ring",
    ("extra", None): "EXTRA",
}
FROM_LOCAL = {"TVR, K=1": "TVR, K=1, local start", "TVR, K=4": "TVR, K=4, local start"}
GRAPHS = ("complete", "ring")
ENDED = ("done", "diverged")  # what a run that is still going needs is not known


@dataclass(frozen=True)
class Curves:
    """Trajectories by graph, curve and seed, all of one communication time."""

    runs: Mapping[tuple[str, str, int], pd.DataFrame]
    rows: int  # of a node
    tau_comm: float
    accuracy: float  # at which runs stop
    data: str

    def names(self, graph: str) -> list[str]:
        """The curves of a graph, in the order of the legend."""
        known = (*NAMES.values(), *FROM_LOCAL.values())
        return [name for name in known if any(key[:2] == (graph, name) for key in self.runs)]

    def of(self, graph: str, name: str) -> list[pd.DataFrame]:
        """The trajectories of a curve, one per seed."""
        return [run for key, run in self.runs.items() if key[:2] == (graph, name)]

    def needed(self, graph: str, name: str, column: str, accuracy: float) -> float:
        """What it took until runs stay at or below ``accuracy``: the median over seeds, infinite if they do not."""
        amounts = [_needed(run, column, accuracy) for run in self.of(graph, name)]
        return float(np.median(amounts)) if amounts else float("nan")


def _needed(run: pd.DataFrame, column: str, accuracy: float) -> float:
    at = crossing(run["suboptimality"], accuracy).stays_below
    return float("inf") if at is None else float(run[column].iloc[at])


def load_curves(sweep: Path, tau_comm: float | None = None) -> Curves:
    """Read a sweep; ``tau_comm`` chooses among several communication times, otherwise the most frequent one."""
    results = dtoken.load(sweep)
    found: dict[tuple[str, str, int], pd.DataFrame] = {}
    times = [summary["config"]["time"]["tau_comm"] for summary in results.summaries.values()]
    wanted = max(set(times), key=times.count) if tau_comm is None else tau_comm
    rows, accuracy, data = 0, 0.0, ""
    for name, summary in results.summaries.items():
        config, algorithm = summary["config"], summary["config"]["algorithm"]
        variant = algorithm.get("tokens", algorithm.get("allreduce"))
        key = (summary["algorithm"], variant)
        if key not in NAMES or config["time"]["tau_comm"] != wanted or summary["status"] not in ENDED:
            continue
        curve = NAMES[key] if algorithm.get("start", "zero") == "zero" else FROM_LOCAL[NAMES[key]]
        trajectory = results.trajectories[results.trajectories["run"] == name].reset_index(drop=True)
        graphs = GRAPHS if summary["algorithm"] == "gd" else (config["graph"]["kind"],)  # gd does not use the graph
        found |= {(graph, curve, config["seed"]): trajectory for graph in graphs}
        rows, data = summary["data"]["rows"] // summary["data"]["nodes"], config["data"]["kind"]
        accuracy = config["stop"]["suboptimality"]
    return Curves(found, rows, wanted, accuracy, data)
