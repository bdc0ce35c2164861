"""The account of what nodes can learn about each other's data in a run, before it or after."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.settings import Stop
from dtoken.errors import InputError
from dtoken.schedule.clock import UNLIMITED, Limits, advance, start_clock
from dtoken.schedule.events import MOVE, VISIT
from dtoken.theory.privacy import ASSUMPTIONS, Losses, epsilon, losses

MOST = 20_000_000  # visits times nodes that are accounted for


class Account(NamedTuple):
    """What a run of so many events gives away."""

    events: int
    visits: int
    losses: Losses
    epsilon: NDArray[np.float64]  # (n, n) eps(u, v), what v learns about u, at the run's delta; nan on the diagonal
    amplified: bool  # whether what others add hides a node's steps
    distances: dict[int, float]  # the largest eps at each distance in the graph


def account_for(experiment: Experiment, events: int) -> Account | None:
    """The account of the first ``events`` events of a run; None: its gradients have no noise."""
    privacy = experiment.facts.privacy
    if privacy.noise == 0:
        return None
    nodes, steps, visits = _path(experiment, events)
    if visits * experiment.n > MOST:
        raise InputError(
            f"{visits:,} visits of {experiment.n:,} nodes are more than privacy is accounted for; use fewer visits"
        )
    method: Any = experiment.method
    found, amplified = losses(nodes, steps, experiment.n, privacy.noise), bool(method.contracts())
    if not amplified:  # whoever sees the token learns as much as from the step itself
        everywhere = np.repeat(found.local[:, None], experiment.n, axis=1)
        np.fill_diagonal(everywhere, np.nan)
        found = found._replace(pairwise=everywhere)
    eps = epsilon(found.pairwise, privacy.delta)
    return Account(events, visits, found, eps, amplified, _by_distance(experiment, eps))


def _path(experiment: Experiment, events: int) -> tuple[NDArray[np.int32], NDArray[np.float64], int]:
    """Where the token is, one event after the other, and the step sizes there; 0 where it passes through."""
    method: Any = experiment.method
    nodes, steps, left = [], [], events
    for part, _ in experiment.schedule.segments(experiment.start):
        part = part.between(0, min(left, part.size))
        sizes = np.zeros(part.size)
        here = part.kind == VISIT
        sizes[here] = method.step_sizes(experiment.constants, part.at[here])
        jumps = here | (part.kind == MOVE)
        nodes.append(part.node[jumps])
        steps.append(sizes[jumps])
        left -= part.size
        if left <= 0:
            break
    sizes = np.concatenate(steps)
    return np.concatenate(nodes), sizes, int(np.count_nonzero(sizes))


def planned_events(experiment: Experiment, stop: Stop) -> int | None:
    """How many events a run has at most, by its stops; None: none of them is a number of anything."""
    passes, rows = stop.passes, int(experiment.facts.rows.sum())
    limits = Limits(
        UNLIMITED if stop.events is None else stop.events,
        UNLIMITED if stop.jumps is None else stop.jumps,
        UNLIMITED if passes is None else int(np.ceil(passes * rows)),
    )
    if min(limits) == UNLIMITED:
        return None
    clock = start_clock(experiment.n, len(experiment.start.positions))
    for part, _ in experiment.schedule.segments(experiment.start):
        if advance(clock, part, experiment.costs, experiment.time, limits) < part.size:
            break
    return clock.events


def _by_distance(experiment: Experiment, eps: NDArray[np.float64]) -> dict[int, float]:
    topology = experiment.walk.topology
    if len(topology.adjacency) > 1:
        return {}
    if topology.complete:
        hops = np.ones((experiment.n, experiment.n), np.int64)
    else:
        hops = shortest_path(topology.adjacency[0], unweighted=True).astype(np.int64)
    np.fill_diagonal(hops, 0)
    return {int(d): float(eps[hops == d].max()) for d in np.unique(hops[hops > 0])}


def summarised(experiment: Experiment, events: int) -> dict[str, Any] | None:
    """The account of the first ``events`` events, for a summary; nobody's epsilon about itself is 0."""
    account, privacy = account_for(experiment, events), experiment.facts.privacy
    return account and {
        "clip": privacy.clip,
        "noise": privacy.noise,
        "delta": privacy.delta,
        "visits": account.visits,
        "amplified": account.amplified,
        "in_words": in_words(account, privacy.delta),
        "rho": np.nan_to_num(account.losses.pairwise).tolist(),
        "rho_local": account.losses.local.tolist(),
        "epsilon": np.nan_to_num(account.epsilon).tolist(),
        "epsilon_by_distance": {str(d): eps for d, eps in account.distances.items()},
        "assumptions": [*ASSUMPTIONS],
    }


def in_words(account: Account, delta: float) -> str:
    """The account in a line."""
    eps = account.epsilon[~np.isnan(account.epsilon)]
    local = float(epsilon(account.losses.local.max(), delta))
    near = ", ".join(f"{eps:.3g} at distance {d}" for d, eps in list(account.distances.items())[:3])
    how = f", at most {near}" if near else ""
    hidden = "" if account.amplified else "; steps are no contractions, so that the noise of others hides nothing"
    return (
        f"epsilon(u, v) {eps.min():.3g} to {eps.max():.3g} at delta {delta:g} after {account.visits:,} visits{how}; "
        f"{local:.3g} against who sees everything{hidden}"
    )


def foreseen(experiment: Experiment, stop: Stop) -> list[tuple[str, str]]:
    """What is to be said of privacy before a run: the account of its longest course, and what it rests on."""
    privacy = experiment.facts.privacy
    if not privacy.asked:
        return []
    if privacy.noise == 0:
        return [("privacy", "no guarantee: gradients are cut, but have no noise; give privacy.noise")]
    events = planned_events(experiment, stop)
    account = None if events is None else account_for(experiment, events)
    if account is None:
        return [("privacy", "no guarantee before it is known when the run stops; set stop.passes, .jumps or .events")]
    return [("privacy", in_words(account, privacy.delta)), *(("assumed", text) for text in ASSUMPTIONS)]
