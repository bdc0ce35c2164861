"""What becomes of each token, compiled into the loop that makes events: see `dtoken.schedule.failures`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.schedule.events import DIE, FORK, Events
from dtoken.schedule.failures import LEARN, Failures
from dtoken.schedule.random import below, bits, uniform

STAYS, FORKED, ENDED = range(3)  # what a node does with a token
BINS = 160  # of the times that tokens take to return: four an octave, the last one holds all that is longer
UNSEEN = -1.0
BURST = 1 << 40  # where tokens have their numbers, in keys


class Fate(NamedTuple):
    """Failures and their control as compiled code takes them; the last four arrays change."""

    used: bool
    key: np.uint64  # of all random numbers
    token: float
    edge: float
    swallows: NDArray[np.bool_]  # (n,)
    burst: int
    burst_at: int
    start: int  # K, tokens at the start
    forks: bool
    below: float
    above: float
    learn: int
    alive: NDArray[np.float64]  # (slots,) 1: there is such a token
    born: NDArray[np.float64]  # (slots,) when it came
    last: NDArray[np.float64]  # (n, slots) when each node saw it last
    returns: NDArray[np.float64]  # (n, BINS) how many tokens took so long to come back to each node


def first_state(failures: Failures, tokens: int, n: int) -> NDArray[np.float64]:
    """What ``Start`` carries: which tokens there are, and with control when they came and what nodes noted."""
    slots = failures.slots(tokens, n)
    alive = (np.arange(slots) < tokens).astype(np.float64)
    if not failures.forks:
        return alive
    return np.concatenate([alive, np.zeros(slots), np.full(n * slots, UNSEEN), np.zeros(n * BINS)])


def living(failures: Failures, state: NDArray[np.float64], n: int) -> NDArray[np.bool_]:
    """Which tokens there are."""
    return state[: _slots(failures, len(state), n)] > 0


def _slots(failures: Failures, size: int, n: int) -> int:
    return (size - n * BINS) // (n + 2) if failures.forks else size


def fate_of(failures: Failures, state: NDArray[np.float64], seed: int, tokens: int, n: int) -> Fate:
    """What decides over the tokens; its arrays are views of ``state``."""
    slots = _slots(failures, len(state), n) if failures.on else 0
    below, above = failures.thresholds(tokens)
    swallows = np.zeros(n if failures.on else 0, np.bool_)
    swallows[list(failures.nodes or ())] = True
    noted = 2 * slots if failures.forks else len(state)
    returns = noted + n * slots if failures.forks else len(state)
    return Fate(
        used=failures.on,
        key=np.uint64(bits(np.uint64(seed), 3)),
        token=failures.token,
        edge=failures.edge,
        swallows=swallows,
        burst=failures.burst,
        burst_at=failures.burst_at or 0,
        start=tokens,
        forks=failures.forks,
        below=below,
        above=above,
        learn=LEARN * n * tokens if failures.learn is None else failures.learn,
        alive=state[:slots],
        born=state[slots:noted],
        last=state[noted:returns].reshape(-1, slots) if failures.forks else np.empty((0, 0)),
        returns=state[returns:].reshape(-1, BINS),
    )


@compiled
def pick(fate: Fate, draw: float) -> int:
    """The token that jumps next; -1: none. Each does so as often as if all the first ones were alive, unless there are
    more."""
    count = 0
    for k in range(len(fate.alive)):
        count += fate.alive[k] > 0.0
    left = int(draw * max(count, fate.start))
    for k in range(len(fate.alive)):
        if fate.alive[k] > 0.0:
            if left == 0:
                return k
            left -= 1
    return -1


@compiled
def chance(fate: Fate, k: int, number: int) -> np.uint64:
    """The key of token k after so many jumps."""
    return bits(bits(fate.key, k), number)


@compiled
def is_lost_on_way(fate: Fate, j: int, i: int, key: np.uint64) -> bool:
    """Whether a token that jumps from j never mixes at i."""
    return bool(fate.swallows[i] or (i != j and fate.edge > 0.0 and uniform(key, 0) < fate.edge))


@compiled
def bin_of(time: float) -> int:
    """The bin of a time between two visits: from 2^e (1 + m / 4) on it is bin 4 e + m."""
    word = np.int64(np.float64(max(time, 1.0)).view(np.int64))
    return min(int(word >> 50) - 4 * 1023, BINS - 1)


@compiled
def _edge(b: int) -> float:
    """Where a bin begins."""
    return ((4 + (b & 3)) << (b >> 2)) / 4.0


@compiled
def survival(returns: NDArray[np.float64], age: float) -> float:
    """Share of the returns that took longer than ``age``, those of its own bin spread evenly over it."""
    b = bin_of(age)
    longer = total = 0.0
    for other in range(len(returns)):
        total += returns[other]
        if other > b:
            longer += returns[other]
    if total == 0.0:
        return 1.0
    inside = min(1.0, max(0.0, (_edge(b + 1) - age) / (_edge(b + 1) - _edge(b))))
    return float((longer + inside * returns[b]) / total)


@compiled
def note(fate: Fate, i: int, k: int, t: float) -> None:
    """Node i sees token k; it can tell it from an earlier one of the same number."""
    before = fate.last[i, k]
    if before != UNSEEN and before >= fate.born[k]:
        fate.returns[i, bin_of(t - before)] += 1.0
    fate.last[i, k] = t


@compiled
def estimate(fate: Fate, i: int, k: int, t: float) -> float:
    """theta_i, half the number of tokens as node i sees it, with token k there."""
    total = 0.5
    for other in range(len(fate.alive)):
        if other != k and fate.last[i, other] != UNSEEN:
            total += survival(fate.returns[i], t - fate.last[i, other])
    return total


@compiled
def decide(fate: Fate, i: int, k: int, t: float, jumps: int, key: np.uint64) -> int:
    """What node i does with token k, which it has just mixed with, after ``jumps`` of all tokens."""
    note(fate, i, k, t)
    if jumps < fate.learn:
        return STAYS
    found = estimate(fate, i, k, t)
    if found < fate.below and uniform(key, 2) * fate.start < 1.0:
        return FORKED
    if found > fate.above and uniform(key, 3) * fate.start < 1.0:
        return ENDED
    return STAYS


@compiled
def free_slot(fate: Fate) -> int:
    """The first number that no token has; -1: there are as many as there may be."""
    for k in range(len(fate.alive)):
        if fate.alive[k] == 0.0:
            return k
    return -1


@compiled
def begin(fate: Fate, i: int, k: int, t: float) -> None:
    """Token k begins at node i."""
    fate.alive[k], fate.born[k], fate.last[i, k] = 1.0, t, t


@compiled
def victim(fate: Fate, number: int) -> int:
    """Token number ``number`` of a burst, drawn from those that there are; -1: there are none."""
    count = 0
    for k in range(len(fate.alive)):
        count += fate.alive[k] > 0.0
    if count == 0:
        return -1
    left = below(bits(fate.key, BURST), number, count)
    for k in range(len(fate.alive)):
        if fate.alive[k] > 0.0:
            if left == 0:
                return k
            left -= 1
    return -1


@compiled
def die(events: Events, event: int, fate: Fate, k: int, positions: NDArray[np.int64], t: float) -> int:
    """Token k is gone; the number of events so far."""
    events.kind[event], events.token[event] = DIE, k
    events.node[event], events.at[event] = positions[k], t
    fate.alive[k] = 0.0
    return event + 1


@compiled
def burst(events: Events, event: int, fate: Fate, positions: NDArray[np.int64], t: float) -> int:
    """Many tokens are gone at once."""
    for number in range(fate.burst):
        k = victim(fate, number)
        if k >= 0:
            event = die(events, event, fate, k, positions, t)
    return event


@compiled
def after_visit(
    events: Events,
    event: int,
    fate: Fate,
    k: int,
    positions: NDArray[np.int64],
    t: float,
    jumps: int,
    key: np.uint64,
) -> int:
    """What becomes of token k, which has just mixed with its node: it may be forked, ended, lost."""
    i = positions[k]
    choice = decide(fate, i, k, t, jumps, key) if fate.forks else 0
    other = free_slot(fate) if choice == FORKED else -1
    if other >= 0:
        begin(fate, i, other, t)
        positions[other] = i
        events.kind[event], events.token[event], events.other[event] = FORK, k, other
        events.node[event], events.source[event], events.at[event] = i, i, t
        event += 1
    if choice == ENDED or (fate.token > 0.0 and uniform(key, 1) < fate.token):
        event = die(events, event, fate, k, positions, t)
    return event
