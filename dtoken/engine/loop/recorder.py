"""What is measured at a record point, on copies: the state of a run is never touched."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine.loop.experiment import Experiment
from dtoken.problem.kernels import squared_distances
from dtoken.schedule.clock import Clock

NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Record:
    """One row of a trajectory."""

    event: int  # events so far
    jumps: int  # jumps of all tokens
    messages: int  # jumps to another node
    gradients: int  # gradients of single samples
    passes: float  # gradients / rows
    time: float  # ideal time
    wall: float  # seconds of running, evaluations not counted
    objective: float  # F, mean over tokens
    suboptimality: float  # F - F*, mean over tokens
    distance: float  # ||theta - theta*||^2, mean over tokens
    consensus: float  # squared distance to the mean of the tokens, mean over nodes and tokens
    test_loss: float | None = None  # mean loss of held-out rows at the mean of the tokens; None: there are none
    test_accuracy: float | None = None  # of two classes
    test_log_loss: float | None = None
    test_auc: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, those that were measured."""
        return {name: value for name, value in asdict(self).items() if value is not None}


TEST = ("test_loss", "test_accuracy", "test_log_loss", "test_auc")  # columns of runs with held-out rows
COLUMNS = tuple(field.name for field in fields(Record) if field.name not in TEST)


def columns_of(records: Sequence[Record]) -> tuple[str, ...]:
    """The columns of a trajectory."""
    return (*COLUMNS, *(name for name in TEST if records and getattr(records[0], name) is not None))


def optimum_of(records: Sequence[Record]) -> float:
    """F*, by what was measured first; 0 where nothing was."""
    return records[0].objective - records[0].suboptimality if records else 0.0


class Measurement(NamedTuple):
    """What engines measure. Sums over nodes are left to the caller, so that they do not depend on who hosts what."""

    values: Vector  # (hosted, K) f_i(theta_k), without regulariser; (hosted, 1) if all tokens are equal
    node_spread: Vector  # (hosted,) squared distance of the node's model to the mean of the tokens' models
    token_spread: Vector  # (K,) the same for the tokens
    squares: Vector  # (K,) or (1,) ||theta_k||^2
    distances: Vector  # (K,) or (1,) ||theta_k - theta*||^2
    failure: str | None  # why the method cannot go on, in a sentence


def measure_models(values: Callable[[Vector], Vector], models: Models, theta_star: Vector) -> Measurement:
    """Measure the models of the hosted nodes and of all tokens; ``values`` gives f_i of hosted nodes at models."""
    tokens, copies = np.ascontiguousarray(models.tokens), 1
    if (tokens == tokens[0]).all():  # as after an all-reduce: once is enough
        tokens, copies = tokens[:1], len(tokens)
    mean = tokens.sum(axis=0) / len(tokens)
    return Measurement(
        values=values(tokens),
        node_spread=squared_distances(np.ascontiguousarray(models.nodes), mean),
        token_spread=np.repeat(squared_distances(tokens, mean), copies),
        squares=squared_distances(tokens, np.zeros_like(mean)),
        distances=squared_distances(tokens, theta_star),
        failure=models.failure,
    )


def record(
    experiment: Experiment, clock: Clock, measured: Measurement, wall: float, tested: Mapping[str, float] = NOTHING
) -> Record:
    """A row of the trajectory from what was measured at a record point, ``tested`` on held-out rows."""
    problem = experiment.problem
    regularisers = 0.5 * problem.n * problem.sigma * measured.squares
    objectives = [
        math.fsum(values) + regulariser for values, regulariser in zip(measured.values.T, regularisers, strict=True)
    ]
    objective = math.fsum(objectives) / len(objectives)
    spreads = [*measured.node_spread, *measured.token_spread]
    return Record(
        event=clock.events,
        jumps=clock.jumps,
        messages=clock.messages,
        gradients=clock.gradients,
        passes=clock.gradients / int(experiment.facts.rows.sum()),
        time=clock.elapsed,
        wall=wall,
        objective=objective,
        suboptimality=objective - experiment.optimum.objective,
        distance=math.fsum(measured.distances) / len(objectives),
        consensus=math.fsum(spreads) / len(spreads),
        **tested,
    )
