"""What is to be said about a run when it is over: constants, rates, what it took to reach each accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoken.engine.experiment import Experiment
from dtoken.engine.recorder import Record
from dtoken.graph.walks import in_words
from dtoken.theory import table as theory

ROUNDING = 1e4 * np.finfo(np.float64).eps  # suboptimalities below this share of F* say little
SPECTRUM_NODES = 500  # nodes up to which the spectral gap is quick to compute
RATES = ("rate", "paper_rate")


@dataclass(frozen=True)
class Prediction:
    """What the theory says it takes to reach an accuracy."""

    accuracy: float
    steps: float
    events: float
    jumps: float
    passes: float


def constants(experiment: Experiment) -> dict[str, Any]:
    """The constants of the method in the paper's names, and the tokens' first nodes."""
    named = experiment.constants._asdict()
    found = {name: _number(value) for name, value in named.items() if name not in RATES}
    return found | {"token_start": experiment.start.positions.tolist()}


def _number(value: Any) -> Any:
    """A number, one number for all nodes, or a list of one for each."""
    values = np.asarray(value).ravel().tolist()
    return values[0] if len(set(values)) == 1 else values


def rate(experiment: Experiment, name: str = "rate") -> float | None:
    """A rate of the theory: by which share of itself the error falls at each step (or round)."""
    found = theory.predict(experiment)
    return found.rate if name == "rate" else found.paper_rate


def proved(experiment: Experiment) -> bool:
    """Whether the theory covers what is run: independent visits, and no heuristic step size."""
    basis = theory.predict(experiment).basis
    return basis.startswith("proved") and "heuristic" not in basis


def predict(experiment: Experiment, accuracy: float, gap: float) -> Prediction | None:
    """Steps until the proved rate has brought a suboptimality from ``gap`` to ``accuracy``."""
    costs = theory.predict(experiment).costs(gap / accuracy) if 0 < accuracy < gap else None
    if costs is None:
        return None
    return Prediction(accuracy, costs["steps"], costs["events"], costs["jumps"], costs["passes"])


def measured_rate(experiment: Experiment, records: Sequence[Record]) -> float | None:
    """Rate per step by least squares on the logarithm of the suboptimality, as far as rounding allows."""
    floor = ROUNDING * abs(experiment.optimum.objective)
    events_per_step = theory.predict(experiment).expected.events
    points = []
    for record in records:
        if not record.suboptimality > floor:
            break
        points.append((record.event / events_per_step, math.log(record.suboptimality)))
    if len(points) < 3:
        return None
    steps, logs = np.array(points).T
    slope = float(np.polyfit(steps, logs, 1)[0])
    return -math.expm1(slope)


def to_accuracy(records: Sequence[Record], accuracies: Sequence[float]) -> dict[str, dict[str, Any] | None]:
    """For each accuracy what it took until the first record that reaches it; None: not reached.

    Examples
    --------
    >>> record = Record(7, 2, 1, 5, 0.5, 9.0, 0.1, 1.0, 1e-3, 0.0, 0.0)
    >>> to_accuracy([record], [1e-2, 1e-4])["0.01"]["jumps"]
    2
    """
    found: dict[str, dict[str, Any] | None] = {}
    for accuracy in accuracies:
        first = next((record for record in records if record.suboptimality <= accuracy), None)
        found[f"{accuracy:g}"] = (
            None
            if first is None
            else {
                "events": first.event,
                "jumps": first.jumps,
                "messages": first.messages,
                "gradients": first.gradients,
                "passes": first.passes,
                "time": first.time,
                "wall": first.wall,
            }
        )
    return found


def walk_in_words(kind: str, independent: bool, stay: float | None = None) -> str:
    """How tokens move.

    Examples
    --------
    >>> walk_in_words("lazy", False)
    'lazy walk'
    """
    return "independent uniform jumps" if independent else in_words(kind, stay)


def graph_facts(experiment: Experiment) -> dict[str, Any]:
    """Kind, walk and, where it is quick to compute, spectral gap."""
    walk = experiment.walk
    quick = walk.iid or walk.n <= SPECTRUM_NODES
    return {
        "kind": walk.topology.kind,
        "walk": walk.kind,
        "stay": walk.stay,
        "independent": walk.iid,
        "nodes": walk.n,
        **dict(walk.topology.params),
        "spectral_gap": walk.spectral_gap if quick else None,
        "jumps_per_visit": experiment.law.jumps,
    }
