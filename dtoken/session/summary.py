"""What is to be said about a run when it is over: constants, rates, what it took to reach each accuracy."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.engine.loop.accuracy import ROUNDING, crossing
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.prediction import Prediction
from dtoken.engine.loop.recorder import Record, optimum_of
from dtoken.graph.walks import in_words
from dtoken.schedule.links import drawn_times

MOST_LISTED = 1000  # numbers of nodes or tokens that are listed one by one
SPECTRUM_NODES = 500  # nodes up to which the spectral gap is quick to compute
RATES = ("rate", "paper_rate")


def constants(experiment: Experiment) -> dict[str, Any]:
    """The constants of the method in the paper's names, and the tokens' first nodes."""
    named = experiment.constants._asdict()
    found = {name: _number(value) for name, value in named.items() if name not in RATES}
    return found | {"token_start": _listed(experiment.start.positions[: experiment.law.tokens])}


def _number(value: Any) -> Any:
    """A number, one number for all nodes, or a list of one for each."""
    values = np.asarray(value).ravel()
    return values[0].item() if len(values) and (values == values[0]).all() else _listed(values)


def _listed(values: NDArray[Any]) -> Any:
    """All numbers, or of many how many there are and some quantiles: a summary is to be read.

    Examples
    --------
    >>> _listed(np.arange(3)), _listed(np.arange(2001.0))["quantiles"]
    ([0, 1, 2], {'0': 0.0, '0.25': 500.0, '0.5': 1000.0, '0.75': 1500.0, '1': 2000.0})
    """
    if len(values) <= MOST_LISTED:
        return values.tolist()
    quantiles = {f"{share:g}": float(np.quantile(values, share)) for share in (0, 0.25, 0.5, 0.75, 1)}
    return {"entries": len(values), "quantiles": quantiles}


def predictions(theory: Prediction, accuracies: Sequence[float], gap: float) -> dict[str, Any]:
    """Why the rate is believed, what costs to an accuracy are, bounds or about, and the costs to each accuracy."""
    costs = {f"{accuracy:g}": theory.costs_to(accuracy, gap) for accuracy in accuracies}
    return {"basis": theory.basis, "costs": None if theory.rate is None else theory.words, "to_accuracy": costs}


def measured_rate(experiment: Experiment, theory: Prediction, records: Sequence[Record]) -> float | None:
    """Rate per step by least squares on the logarithm of the suboptimality, as far as rounding allows."""
    if experiment.facts.failures.on:  # fewer tokens make fewer events a step
        return None
    floor = ROUNDING * abs(experiment.optimum.objective)
    points = []
    for record in records:
        if not record.suboptimality > floor:
            break
        points.append((record.event / theory.expected.events, math.log(record.suboptimality)))
    if len(points) < 3:
        return None
    steps, logs = np.array(points).T
    slope = float(np.polyfit(steps, logs, 1)[0])
    return -math.expm1(slope)


def to_accuracy(records: Sequence[Record], accuracies: Sequence[float]) -> dict[str, dict[str, Any]]:
    """For each accuracy what it took until it was ``reached``, and until the run ``stays_below`` it; None: never.

    Examples
    --------
    >>> gaps = [1.0, 0.1, 0.3, 0.1]
    >>> records = [Record(7 * k, 2 * k, k, 5, 0.5, 9.0, 0.1, 1.0, gap, 0, 0) for k, gap in enumerate(gaps)]
    >>> taken = to_accuracy(records, [0.2, 1e-4])
    >>> taken["0.2"]["reached"]["jumps"], taken["0.2"]["stays_below"]["jumps"], taken["0.0001"]
    (2, 6, {'reached': None, 'stays_below': None})
    """
    gaps, best = [record.suboptimality for record in records], optimum_of(records)
    found = {}
    for accuracy in accuracies:
        where = crossing(gaps, accuracy, best)._asdict()
        found[f"{accuracy:g}"] = {name: None if at is None else _taken(records[at]) for name, at in where.items()}
    return found


def _taken(record: Record) -> dict[str, Any]:
    names = ("jumps", "messages", "gradients", "passes", "time", "wall")
    return {"events": record.event} | {name: getattr(record, name) for name in names}


def walk_in_words(kind: str, independent: bool, stay: float | None = None) -> str:
    """How tokens move.

    Examples
    --------
    >>> walk_in_words("lazy", False)
    'lazy walk'
    """
    return "independent uniform jumps" if independent else in_words(kind, stay)


def _shown(options: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}


def graph_facts(experiment: Experiment) -> dict[str, Any]:
    """Kind, walk and, where it is quick to compute, spectral gap."""
    walk = experiment.walk
    quick = (walk.iid or walk.n <= SPECTRUM_NODES) and not walk.remembers
    return {
        "kind": walk.topology.kind,
        "walk": walk.kind,
        "stay": walk.stay,
        **({} if walk.law is None else _shown(asdict(walk.law))),
        "independent": walk.iid,
        "nodes": walk.n,
        **dict(walk.topology.params),
        "spectral_gap": walk.spectral_gap if quick else None,
        "jumps_per_visit": experiment.law.jumps,
    }


def time_facts(experiment: Experiment) -> dict[str, Any]:
    """What gradients and jumps take on the ideal clock: the least, the median and the most, over nodes and links."""
    gradient, jump = drawn_times(experiment.time, experiment.n)
    return {"tau_comp": _spread(gradient), "tau_comm": _spread(jump)}


def _spread(values: Any) -> dict[str, float]:
    return {"least": float(values.min()), "median": float(np.median(values)), "most": float(values.max())}
