"""The small problem on which methods are checked, and what is compared."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Method
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import Experiment, prepare
from dtoken.engine.rows.memory import Room
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.events import Events, concatenate

NODES, SIGMA = 6, 0.2
STORES = "stores"
DATA = {"rows": 62, "features": 4, "condition": 10.0}  # nodes of 11 and of 10 rows
SEED = 3  # of the schedule


def keys(folder: Path, seed: int = 0) -> dict[str, Any]:
    """The problem as ``dtoken.run`` takes it; another ``seed`` is another one of the same size."""
    data = {"kind": "synthetic", **DATA, "seed": seed, "store": str(folder / STORES)}
    return {"data": data, "nodes": NODES, "sigma": SIGMA, "seed": SEED}


@dataclass(frozen=True)
class Case:
    """A method on the small problem."""

    method: Method
    folder: Path  # for stores and runs
    store: ShardStore
    experiment: Experiment

    def engine(self, threads: int = 1, room: Room | None = None) -> LocalEngine:
        """An engine with the nodes at their start."""
        experiment = self.experiment
        return LocalEngine(self.method, experiment.constants, self.store, experiment.problem.loss, threads, room)

    def events(self, count: int) -> Events:
        """The first events."""
        parts: list[Events] = []
        for events, _ in self.experiment.schedule.segments(self.experiment.start):
            parts.append(events)
            if sum(part.size for part in parts) >= count:
                break
        return concatenate(parts).between(0, count)


def make_case(method: Method, folder: Path, seed: int = 0) -> Case:
    """The small problem, with everything about the method that does not need a run."""
    store = ingest(Synthetic(**DATA, seed=seed), Partition(NODES), root=folder / STORES)  # type: ignore[arg-type]
    problem = FiniteSum(store, get_loss("logistic"), SIGMA)
    return Case(method, folder, store, prepare(problem, method, walk(build("complete", NODES)), TimeModel(), SEED))


def state(engine: LocalEngine) -> dict[str, NDArray[Any]]:
    """Copies of all arrays of the nodes and of the tokens."""
    engine.settle()
    return engine.part().arrays


def bits_of(arrays: dict[str, NDArray[Any]]) -> str:
    """A digest of arrays."""
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.shape} {array.dtype}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def bits_after(case: Case, events: int) -> str:
    """What the states are after the first events, from the very start."""
    with case.engine() as engine:
        engine.run(case.events(events))
        return bits_of(state(engine))
