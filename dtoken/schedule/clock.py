"""Ideal time (Hendrikx 2022, appendix Experiments): how long a sequence of events takes at best, from the events alone.

A local step at node i takes ``tau_comp`` per gradient. A jump from j to i obeys one of two rules:

- ``paper``: T_i = max(T_i, T_j + tau_comm). The token also waits for what its host computed after their exchange.
- ``token_clock``: the token has a clock of its own, T_i = max(T_i, C_k + tau_comm), C_k = T_i, and a pure move only
  adds tau_comm to C_k. This is the true minimum, never later than the paper's.

Two tokens that meet at one node cost nothing. From another node, the second token comes the shortest way and goes back
again: each hop is a jump, a message, and takes tau_comm.

Nodes and links may be unequal (``speeds``): then ``tau_comp`` is that of the node that computes, ``tau_comm`` that of
the two nodes of a jump.

A message that a node sends to several others at once arrives everywhere tau_comm after it was loaded: a load sets
C_k = T_i, a delivery T_i = max(T_i, C_k + tau_comm).

A fork costs nothing: the new token is at once where the other is. A token that is lost on its way has been sent.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.schedule.events import DELIVER, DIE, FORK, LOAD, LOCAL, MEET, MOVE, VISIT, Events
from dtoken.schedule.samples import Samples, no_samples, row_of, share
from dtoken.schedule.speeds import check_time, link_times, node_times

Rule = Literal["paper", "token_clock"]
RULES: tuple[Rule, ...] = ("paper", "token_clock")


@dataclass(frozen=True)
class TimeModel:
    """What computing and communicating cost.

    Parameters
    ----------
    tau_comp
        Time of one gradient of one row: a number; a law from which each node draws its own, ``lognormal(1, 0.5)``
        (median, spread), ``uniform(0.5, 2)`` or ``slow(1, 0.1, 10)`` (time, share of the nodes that are slow, how many
        times as long they take); or a CSV file with lines ``node,time``.
    tau_comm
        Time of one jump: the same for links, each between two nodes; lines of a file are ``node,node,time``.
    rule
        ``paper`` or ``token_clock``.
    charge_self_jumps
        Whether a jump of a token to the node where it is costs ``tau_comm``: the formula of the paper says so, its
        experiments charged nothing.
    seed
        Of the draws of nodes and links.
    """

    tau_comp: float | str = 1.0
    tau_comm: float | str = 1000.0
    rule: Rule = "paper"
    charge_self_jumps: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("tau_comp", "tau_comm"):
            check_time(f"time.{name}", getattr(self, name))
        if self.seed < 0:
            raise InputError(f"time.seed={self.seed} must not be negative")
        if self.rule not in RULES:
            raise InputError(f"time.rule={self.rule} is not known; use one of {', '.join(RULES)}")

    @property
    def unequal(self) -> bool:
        """Whether nodes or links have times of their own."""
        return isinstance(self.tau_comp, str) or isinstance(self.tau_comm, str)


class Times(NamedTuple):
    """A time model on so many nodes, as compiled code takes it."""

    comp: NDArray[np.float64]  # (n,) of one gradient at each node
    comm: NDArray[np.float64]  # (n, n) of a jump from one node to another; (1, 1): all are alike
    token_clock: bool
    charge_self_jumps: bool


@lru_cache(maxsize=8)
def times(model: TimeModel, n: int) -> Times:
    """Draw and read what the model says.

    Examples
    --------
    >>> times(TimeModel(tau_comp=2.0), 3).comp.tolist()
    [2.0, 2.0, 2.0]
    """
    comp = node_times("time.tau_comp", model.tau_comp, n, model.seed)
    comm = link_times("time.tau_comm", model.tau_comm, n, model.seed)
    return Times(comp, comm, model.rule == "token_clock", model.charge_self_jumps)


class Costs(NamedTuple):
    """Gradients of single rows that a step at each node takes.

    The last block of a node may have fewer rows than the others. Only where there is such a node, what the nodes draw
    from is needed to know when it is used.
    """

    local: NDArray[np.int64]  # (n,)
    visit: NDArray[np.int64]  # (n,)
    short: NDArray[np.int64] = np.empty(0, np.int64)  # (n,) gradients less, for the last block; (0,): nowhere
    first: NDArray[np.int64] = np.empty(0, np.int64)  # (n,) first row of the node, all nodes one below the other
    last: NDArray[np.int64] = np.empty(0, np.int64)  # (n,) first row of the node's last block
    samples: Samples = no_samples(0)
    hops: NDArray[np.int32] = np.empty((0, 0), np.int32)  # (n, n) shortest ways of tokens that meet; (0, 0): one hop

    def expected(self) -> "Costs":
        """Mean gradients of a step at each node."""
        less = [self.short[i] * share(self.samples, i, self.last[i] - self.first[i]) for i in range(len(self.short))]
        if not less:
            return self
        computes = self.local > 0, self.visit > 0
        return Costs(self.local - np.where(computes[0], less, 0), self.visit - np.where(computes[1], less, 0))


class Clock(NamedTuple):
    """Clocks and counters; ``advance`` changes them in place."""

    nodes: NDArray[np.float64]  # (n,) T_i
    tokens: NDArray[np.float64]  # (K,) C_k
    counts: NDArray[np.int64]  # (5,) events, steps, jumps, messages, gradients
    alive: NDArray[np.bool_] = np.empty(0, np.bool_)  # (K,) which tokens there are; (0,): all, and none is ever lost

    @property
    def elapsed(self) -> float:
        """Ideal time since the start."""
        return float(self.nodes.max())

    @property
    def events(self) -> int:
        """How many events have happened, of all kinds."""
        return int(self.counts[0])

    @property
    def steps(self) -> int:
        """Steps of the method: all events but moves, and but tokens that come and go."""
        return int(self.counts[1])

    @property
    def jumps(self) -> int:
        """Jumps of all tokens; deliveries of messages are jumps, too."""
        return int(self.counts[2])

    @property
    def messages(self) -> int:
        """Jumps that end at another node than they begin at."""
        return int(self.counts[3])

    @property
    def gradients(self) -> int:
        """Gradients of single samples."""
        return int(self.counts[4])

    @property
    def living(self) -> NDArray[np.int64] | None:
        """The tokens that there are, the one that was somewhere last if all are lost; None: none is ever lost."""
        if not len(self.alive):
            return None
        found = np.flatnonzero(self.alive)
        return found if len(found) else np.array([np.argmax(self.tokens)])


def start_clock(n: int, tokens: int, alive: NDArray[np.bool_] | None = None) -> Clock:
    """All clocks and counters at zero; ``alive``: which tokens there are, if some come or go."""
    clock = Clock(np.zeros(n), np.zeros(tokens), np.zeros(5, np.int64))
    return clock if alive is None else clock._replace(alive=alive.copy())


def charge(clock: Clock, gradients: NDArray[np.int64], model: TimeModel) -> None:
    """Let every node compute so many gradients before the first event."""
    clock.nodes[:] += times(model, len(clock.nodes)).comp * gradients
    clock.counts[4] += int(gradients.sum())


class Limits(NamedTuple):
    """Where to stop counting: at the first event, no move, at which one of them is reached."""

    events: int
    jumps: int
    gradients: int


UNLIMITED = 2**62
NO_LIMITS = Limits(UNLIMITED, UNLIMITED, UNLIMITED)


def advance(clock: Clock, events: Events, costs: Costs, model: TimeModel, limits: Limits = NO_LIMITS) -> int:
    """Let ``events`` happen until a limit is reached; return how many did.

    A token on its way is let through to its visit: between two moves there is nothing to measure.

    Examples
    --------
    >>> clock = start_clock(n=2, tokens=1)
    >>> jump = Events(*(np.array([x]) for x in (VISIT, 1, 0, 0, -1, -1.0, 1.0)))
    >>> advance(clock, jump, Costs(np.ones(2, int), np.zeros(2, int)), TimeModel(tau_comm=10.0))
    1
    >>> clock.elapsed, clock.jumps, clock.messages
    (10.0, 1, 1)
    """
    return int(_advance(clock, events, costs, times(model, len(clock.nodes)), limits))


@compiled
def less(costs: Costs, i: int, draw: float) -> int:
    """Gradients that a step at node i takes less because of the sample that it draws."""
    if len(costs.short) == 0 or costs.short[i] == 0:
        return 0
    return int(costs.short[i]) if row_of(costs.samples, costs.first, i, draw) == costs.last[i] else 0


@compiled
def _hops(costs: Costs, j: int, i: int) -> int:
    """Hops of a token from node j to node i."""
    if i == j:
        return 0
    return 1 if len(costs.hops) == 0 else int(costs.hops[j, i])


@compiled
def _link(comm: NDArray[np.float64], j: int, i: int) -> float:
    """Time of a jump from node j to node i."""
    return float(comm[0, 0]) if len(comm) == 1 else float(comm[j, i])


@compiled
def hop_time(taken: Times, j: int, i: int) -> float:
    """What a jump from node j to node i takes."""
    return _link(taken.comm, j, i) if taken.charge_self_jumps or i != j else 0.0


@compiled
def _advance(
    clock: Clock,
    events: Events,
    costs: Costs,
    taken: Times,
    limits: Limits,
) -> int:
    T, C = clock.nodes, clock.tokens
    token_clock = taken.token_clock
    happened, steps, jumps, messages, gradients = clock.counts
    event, full = 0, False
    while event < len(events.kind) and not full:
        kind, i, k = events.kind[event], events.node[event], events.token[event]
        if kind == LOCAL:
            used = costs.local[i] - less(costs, i, events.draw[event])
            T[i] += taken.comp[i] * used
            gradients += used
        elif kind == MEET:
            other, j = events.other[event], events.source[event]
            there, back = _hops(costs, j, i), _hops(costs, i, j)
            tau_comm = taken.comm[0, 0]  # of all links: others are refused where tokens come from afar
            jumps += there + back
            messages += there + back
            if i != j and not token_clock:
                T[i] = max(T[i], T[j] + there * tau_comm)
                T[j] = max(T[j], T[i] + back * tau_comm)
            C[k] = max(C[k], C[other] + there * tau_comm)  # one waits for the other
            C[other] = C[k] + back * tau_comm
        elif kind == LOAD:
            C[k] = T[i]
        elif kind == FORK:
            C[events.other[event]] = C[k]
            clock.alive[events.other[event]] = True
        elif kind == DIE:
            clock.alive[k] = False
        else:
            j = events.source[event]
            jumps += 1
            messages += i != j
            hop = hop_time(taken, j, i)
            if kind == DELIVER:
                T[i] = max(T[i], C[k] + hop)
            elif not token_clock:
                T[i] = max(T[i], T[j] + hop)
            elif kind == MOVE:
                C[k] += hop
            else:
                T[i] = max(T[i], C[k] + hop)
            if kind == VISIT:
                used = costs.visit[i] - less(costs, i, events.draw[event])
                T[i] += taken.comp[i] * used
                gradients += used
                C[k] = T[i]
        steps += kind != MOVE and kind != FORK and kind != DIE
        happened += 1
        event += 1
        full = kind != MOVE and (happened >= limits.events or jumps >= limits.jumps or gradients >= limits.gradients)
    for place, count in enumerate((happened, steps, jumps, messages, gradients)):
        clock.counts[place] = count
    return event
