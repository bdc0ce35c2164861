"""What is measured at a record point, on copies: the state of a run is never touched."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.sampling import Integers, Sample, estimate
from dtoken.problem.kernels import squared_distances, squared_norm
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
    objective_error: float | None = None  # standard error of the two objectives; 0: exact; None: no record is sampled
    test_loss: float | None = None  # mean loss of held-out rows at the mean of the tokens; None: there are none
    test_accuracy: float | None = None  # of two classes
    test_log_loss: float | None = None
    test_auc: float | None = None
    tokens: int | None = None  # how many there are, of which the means above are; None: none is ever lost

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, those that were measured."""
        return {name: value for name, value in asdict(self).items() if value is not None}


TEST = ("test_loss", "test_accuracy", "test_log_loss", "test_auc")  # columns of runs with held-out rows
ERROR = "objective_error"  # of runs with sampled records
LIVING = "tokens"  # of runs that lose some
OPTIONAL = (ERROR, *TEST, LIVING)
COLUMNS = tuple(field.name for field in fields(Record) if field.name not in OPTIONAL)


def columns_of(records: Sequence[Record]) -> tuple[str, ...]:
    """The columns of a trajectory."""
    return (*COLUMNS, *(name for name in OPTIONAL if records and getattr(records[0], name) is not None))


def optimum_of(records: Sequence[Record]) -> float:
    """F*, by what was measured first; 0 where nothing was."""
    return records[0].objective - records[0].suboptimality if records else 0.0


class Measurement(NamedTuple):
    """What engines measure. Sums over nodes are left to the caller, so that they do not depend on who hosts what."""

    values: Vector  # (hosted, K) f_i(theta_k), without regulariser; (hosted, 1) if all tokens are equal; or of a sample
    # (hosted rows of it, its tokens) the excess of the rows' weighted losses over those at theta*
    node_spread: Vector  # (hosted,) squared distance of the node's model to the mean of the tokens' models
    token_spread: Vector  # (K,) the same for the tokens
    squares: Vector  # (K,) or (1,) ||theta_k||^2
    distances: Vector  # (K,) or (1,) ||theta_k - theta*||^2
    failure: str | None  # why the method cannot go on, in a sentence


class Values(Protocol):
    """Who evaluates losses of hosted rows."""

    def values(self, models: Vector) -> Vector:
        """(hosted, models) f_i."""

    def excess(self, models: Vector, theta_star: Vector, sample: Sample) -> Vector:
        """(rows, models) losses of single rows, less those at theta*, weighted."""


def of_tokens(models: Models, living: Integers | None) -> Models:
    """The models of those tokens only."""
    return models if living is None else models._replace(tokens=models.tokens[living])


def measure_models(values: Values, models: Models, theta_star: Vector, sample: Sample | None = None) -> Measurement:
    """Measure the models of the hosted nodes and of all tokens; the objective on a sample if there is one."""
    tokens, copies = np.ascontiguousarray(models.tokens), 1
    if sample is None and (tokens == tokens[0]).all():  # as after an all-reduce: once is enough
        tokens, copies = tokens[:1], len(tokens)
    mean = tokens.sum(axis=0) / len(tokens)
    found = values.values(tokens) if sample is None else values.excess(tokens[sample.tokens], theta_star, sample)
    return Measurement(
        values=found,
        node_spread=squared_distances(np.ascontiguousarray(models.nodes), mean),
        token_spread=np.repeat(squared_distances(tokens, mean), copies),
        squares=squared_distances(tokens, np.zeros_like(mean)),
        distances=squared_distances(tokens, theta_star),
        failure=models.failure,
    )


def record(
    experiment: Experiment,
    clock: Clock,
    measured: Measurement,
    wall: float,
    tested: Mapping[str, float] = NOTHING,
    sample: Sample | None = None,
    *,
    sampled: bool = False,
) -> Record:
    """A row of the trajectory from what was measured at a record point, ``tested`` on held-out rows.

    It was measured on a ``sample``, or on everything; ``sampled``: others of the run are estimates.
    """
    problem = experiment.problem
    regularisers = 0.5 * problem.n * problem.sigma * measured.squares
    if sample is None:
        sums = [math.fsum(values) for values in measured.values.T]
        objective = math.fsum(sums + regularisers) / len(sums)
        suboptimality, error = objective - experiment.optimum.objective, 0.0
    else:
        best = 0.5 * problem.n * problem.sigma * squared_norm(experiment.optimum.theta)
        rows, tokens = int(experiment.facts.rows.sum()), len(measured.squares)
        suboptimality, error = estimate(measured.values, rows, regularisers[sample.tokens] - best, tokens)
        objective = experiment.optimum.objective + suboptimality
    spreads = np.concatenate([measured.node_spread, measured.token_spread])
    return Record(
        event=clock.events,
        jumps=clock.jumps,
        messages=clock.messages,
        gradients=clock.gradients,
        passes=clock.gradients / int(experiment.facts.rows.sum()),
        time=clock.elapsed,
        wall=wall,
        objective=objective,
        suboptimality=suboptimality,
        distance=math.fsum(measured.distances) / len(measured.distances),
        consensus=math.fsum(spreads) / len(spreads),
        objective_error=error if sampled else None,
        tokens=int(clock.alive.sum()) if len(clock.alive) else None,
        **tested,
    )
