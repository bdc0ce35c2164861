"""What is run in the simulation: tiny problems, and what the local engine makes of them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dtoken.algorithms import method_class
from dtoken.data.rows import RowBlock
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.engine import Engine
from dtoken.engine.loop.experiment import Experiment, prepare
from dtoken.engine.loop.run import Outcome, run
from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from tests.engine.small import InMemory, small_shards
from tests.simulation.ports import replaced, segments

METHODS = {"tvr": {"tokens": 2}, "token": {"tokens": 3}, "tavr": {"tokens": 2}, "dvr": {}, "extra": {}}
NODES, EVENTS = 6, 240


@dataclass(frozen=True, eq=False)
class Shards(InMemory):
    """Rows in memory, cut into blocks once."""

    location: str = "memory"
    scratch: None = None

    def blocks_of(self, node: int) -> Any:
        return _blocks(self, node)


@cache
def _blocks(shards: Shards, node: int) -> list[RowBlock]:
    return list(InMemory.blocks_of(shards, node))


@dataclass(frozen=True, eq=False)
class Case:
    """A method on a problem, and what must come out."""

    name: str
    experiment: Experiment
    store: Shards
    expected: Outcome


@cache
def case(name: str) -> Case:
    small = small_shards(NODES, 4, 4)
    store = Shards(small.A, small.y)
    problem = FiniteSum(store, get_loss("logistic"), 0.05)
    method = method_class(name)(**METHODS[name])
    with replaced(segments()):
        experiment = prepare(problem, method, walk(build("complete", NODES), "simple"), TimeModel(), seed=3)
        with LocalEngine(method, experiment.constants, store, problem.loss) as engine:
            expected = execute(experiment, engine)
    return Case(name, experiment, store, expected)


def execute(experiment: Experiment, engine: Engine, every: int | None = None, directory: Any = None) -> Outcome:
    """Run so many events, with a checkpoint after so many record points."""
    stop, recording = Stop(passes=None, events=EVENTS), Recording(every_passes=None, every_jumps=30)
    return run(experiment, engine, stop, recording, directory=directory, checkpointing=Checkpointing(None, every))


def differences(found: Outcome, expected: Outcome) -> list[str]:
    """In what two outcomes differ, to the bit; seconds may."""
    told = []
    if found.failure != expected.failure:
        told.append(f"failure {found.failure}")
    mine, theirs = (
        [{key: value for key, value in record.as_dict().items() if key != "wall"} for record in each.records]
        for each in (found, expected)
    )
    if mine != theirs:
        first = next((n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), len(mine))
        told.append(f"records from number {first} of {len(theirs)} on")
    told += [name for name in ("tokens", "nodes") if not _equal(found.models, expected.models, name)]
    return told


def _equal(a: Any, b: Any, name: str) -> bool:
    return np.array_equal(getattr(a, name), getattr(b, name))
