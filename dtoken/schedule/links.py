"""Whether a time model has a time for everything that a method does, and what it says, in words."""

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.graph.walks import Walk
from dtoken.schedule.clock import TimeModel, times
from dtoken.schedule.rounds import RandomRounds, Rounds
from dtoken.schedule.speeds import is_law
from dtoken.schedule.stream import Law, Schedule

Pairs = NDArray[np.bool_]  # (n, n)


def check_links(model: TimeModel, schedule: Schedule, law: Law, walk: Walk, method: str) -> None:
    """Refuse links without a time that the method uses, and times of links that are not there."""
    comm = times(model, walk.n).comm
    if len(comm) == 1:
        return
    key = f"time.tau_comm={model.tau_comm}"
    if law.p_meet > 0:
        raise InputError(f"{key} says nothing of ways over several links, and algorithm.interactions_anywhere has them")
    edges = _edges(walk)
    used = _used(schedule, walk.n) if isinstance(schedule, Rounds | RandomRounds) else edges
    if (lacking := np.argwhere(used & np.isnan(comm))).size:
        raise InputError(
            f"{key} has no time for the link from node {lacking[0][0]} to {lacking[0][1]} that {method} uses"
        )
    if is_law(model.tau_comm):
        return
    strange = ~np.isnan(comm) & ~(used | used.T | edges | edges.T | np.eye(walk.n, dtype=bool))
    if (found := np.argwhere(strange)).size:
        raise InputError(
            f"{key} has a time for nodes {found[0][0]},{found[0][1]}, between which {walk.topology.name} has no edge"
        )


def _edges(walk: Walk) -> Pairs:
    """Where tokens may jump, some walks further than along an edge."""
    found = np.full((walk.n, walk.n), walk.iid)
    for table in range(0 if walk.iid else len(walk.indptr)):
        found |= walk.transition(table).toarray() > 0
    return found


def _used(schedule: Rounds | RandomRounds, n: int) -> Pairs:
    events = schedule.pattern if isinstance(schedule, Rounds) else schedule.exchange
    found, moving = np.zeros((n, n), np.bool_), events.source >= 0
    found[events.source[moving], events.node[moving]] = True
    return found


def drawn_times(model: TimeModel, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times of a gradient at all nodes, and of a jump along all links that have one."""
    taken = times(model, n)
    links = taken.comm if len(taken.comm) == 1 else taken.comm[~np.eye(n, dtype=bool)]
    return taken.comp, links[~np.isnan(links)].ravel()


def unequal_times(model: TimeModel, n: int) -> tuple[str, ...]:
    """What was drawn or read, where nodes or links are unequal."""
    gradient, jump = drawn_times(model, n)
    told = (("comp", model.tau_comp, "a gradient", gradient), ("comm", model.tau_comm, "a jump", jump))
    return tuple(
        f"time.tau_{name}={given}: {what} takes {found.min():.3g} to {found.max():.3g}, median {np.median(found):.3g}"
        for name, given, what, found in told
        if isinstance(given, str)
    )
