"""Events per second of the local engine with one thread, of one Dask worker and of two, and what the schedule allows.

The bound: with the measured times of a local step and of a visit, no placement can be faster than the longest chain of
events that depend on each other (events of one node, visits of one token), nor than the work of the busier worker.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from dtoken.cluster.connection import quiet

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.dask_engine import DaskEngine
from dtoken.engine.experiment import Experiment, prepare
from dtoken.engine.local import LocalEngine
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.events import LOCAL, MOVE, Events


def first_events(experiment: Experiment, count: int) -> Events:
    events, _ = next(iter(experiment.schedule.segments(experiment.start)))
    return events.between(0, count)


def chosen(events: Events, which: Any) -> Events:
    return Events(*(column[which] for column in events))


def time_local(experiment: Experiment, store: ShardStore, events: Events) -> float:
    with LocalEngine(experiment.method, experiment.constants, store, experiment.problem.loss, 1) as engine:
        engine.run(events.between(0, 1))
        began = time.perf_counter()
        engine.run(events)
        return time.perf_counter() - began


def time_dask(client: Client, experiment: Experiment, store: ShardStore, events: Events) -> tuple[float, Any]:
    with DaskEngine(client, experiment, store.path) as engine:
        began = time.perf_counter()
        engine.run(events, experiment.start, 0)
        engine.settle()
        return time.perf_counter() - began, engine


def bound(events: Events, placement: Any, step: float, visit: float, tokens: int) -> float:
    """Total work divided by the longest chain, or by the work of the busier host."""
    node_clock, token_clock = np.zeros(len(placement)), np.zeros(tokens)
    load = np.zeros(placement.max() + 1)
    for kind, node, token in zip(events.kind.tolist(), events.node.tolist(), events.token.tolist(), strict=True):
        if kind == LOCAL:
            node_clock[node] += step
            load[placement[node]] += step
        elif kind != MOVE:
            node_clock[node] = token_clock[token] = max(node_clock[node], token_clock[token]) + visit
            load[placement[node]] += visit
    return float(load.sum() / max(load.max(), node_clock.max()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--token-events", type=int, default=600, help="for token, whose local steps use all rows")
    asked = parser.parse_args()
    cases = [("token", 20, "complete")] + [("tvr", k, graph) for k in (1, 4, 20) for graph in ("complete", "ring")]
    print("method   K graph       local/s  1 worker  ratio 2 workers   2/1  bound")
    with tempfile.TemporaryDirectory() as root, quiet():
        store = ingest(Rcv1Like(rows=asked.rows), Partition(asked.nodes), root=Path(root))
        problem = FiniteSum(store, get_loss("logistic"), 1e-3)
        for name, tokens, graph in cases:
            tokens = min(tokens, asked.nodes)
            method: Any = Token(tokens=tokens) if name == "token" else TVR(tokens=tokens, smoothness="theory")
            steps = walk(build(graph, asked.nodes), "simple" if graph == "complete" else "lazy")
            experiment = prepare(problem, method, steps, TimeModel(), 0)
            events = first_events(experiment, asked.token_events if name == "token" else asked.events)
            local = time_local(experiment, store, events)
            only_local = chosen(events, events.kind == LOCAL)
            step = time_local(experiment, store, only_local) / max(1, only_local.size)
            visits = int(((events.kind != LOCAL) & (events.kind != MOVE)).sum())
            visit = max(0.0, local - step * only_local.size) / max(1, visits)
            taken = []
            for workers in (1, 2):
                with (
                    LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
                    Client(cluster) as client,
                ):
                    seconds, engine = time_dask(client, experiment, store, events)
                    taken.append(seconds)
            most = bound(events, engine._placement, step, visit, tokens)
            row = f"{name:<7}{tokens:>3} {graph:<9} {events.size / local:>9,.0f} {events.size / taken[0]:>9,.0f}"
            row += f" {local / taken[0]:>6.2f} {events.size / taken[1]:>9,.0f} {taken[0] / taken[1]:>5.2f} {most:>6.2f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
