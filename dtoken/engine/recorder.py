"""What is measured at a record point, on copies: the state of a run is never touched."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

import numpy as np

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine.experiment import Experiment
from dtoken.schedule.clock import Clock


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
    consensus: float  # squared distance to the mean model, mean over nodes and tokens

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


COLUMNS = tuple(field.name for field in fields(Record))


class Evaluator(Protocol):
    """Whatever can evaluate the nodes' functions: an engine."""

    def node_values(self, theta: Vector) -> list[float]:
        """f_i(theta) of every node."""


def measure(experiment: Experiment, clock: Clock, models: Models, evaluator: Evaluator, wall: float) -> Record:
    """Measure the models at a record point."""
    problem, reference = experiment.problem, experiment.optimum
    regulariser = 0.5 * problem.n * problem.sigma
    objectives = [
        math.fsum(evaluator.node_values(theta)) + regulariser * float(theta @ theta) for theta in models.tokens
    ]
    objective = math.fsum(objectives) / len(objectives)
    return Record(
        event=clock.events,
        jumps=clock.jumps,
        messages=clock.messages,
        gradients=clock.gradients,
        passes=clock.gradients / int(experiment.facts.rows.sum()),
        time=clock.elapsed,
        wall=wall,
        objective=objective,
        suboptimality=objective - reference.objective,
        distance=_mean_square(models.tokens - reference.theta),
        consensus=_spread(models),
    )


def _mean_square(differences: Vector) -> float:
    return float(np.mean(np.einsum("kd,kd->k", differences, differences)))


def _spread(models: Models) -> float:
    count = len(models.nodes) + len(models.tokens)
    mean = (models.nodes.sum(axis=0) + models.tokens.sum(axis=0)) / count
    return (
        len(models.nodes) * _mean_square(models.nodes - mean) + len(models.tokens) * _mean_square(models.tokens - mean)
    ) / count
