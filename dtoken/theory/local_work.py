"""How much nodes compute between visits: what p_comm costs and saves, and which one to take.

The contraction of a step is the smaller of two bounds, one proportional to p_comm and one to p_comp. They meet at the
balanced p_comm. Below it, a factor e takes as many visits as there, and more local steps; above it as many local steps,
and more visits. So no prices of visits and local steps make another p_comm promise a shorter run. But nodes that wait
for tokens may as well compute: a smaller p_comm fills this time, and costs nothing as long as the tokens set the pace.
Runs gain a little from it: 3 to 25 % fewer visits at a quarter of the balanced p_comm, hardly more below.
"""

import math
from typing import NamedTuple

LEAST = 0.25  # of the balanced p_comm: local steps beyond that hardly save visits
PARTS = (1, 2, 4, 8)  # tables show the balanced p_comm divided by these


class Times(NamedTuple):
    """Seconds that the parts of a run take."""

    local: float  # a local step
    visit: float  # what a node does at a visit
    hop: float  # a jump of a token to a node that others compute for
    read: float = 0.0  # of a node's shard, where it is not kept in memory from visit to visit


def choose_p_comm(balanced: float, times: Times, tokens: int, jumps: int, workers: int) -> float:
    """The smallest p_comm, down to a quarter of the balanced one, with which nodes only compute while tokens are away.

    A step takes (p_comm visit + p_comp local) / workers of computing, and p_comm times what tokens are away: jumps, of
    which several tokens make several at a time, or reading ahead for the next visit, whichever is slower.

    Parameters
    ----------
    balanced
        The balanced p_comm.
    times
        What was measured.
    tokens, jumps
        K, and jumps of a token before a visit.
    workers
        Threads or processes that compute at the same time.

    Examples
    --------
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=1e-5), tokens=1, jumps=1, workers=2)
    0.05263157894736842
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=0.0), tokens=1, jumps=1, workers=2)
    0.2
    """
    away = max(jumps * times.hop / tokens, times.read)
    local, visit = times.local / workers, times.visit / workers
    if balanced * away <= balanced * visit + (1 - balanced) * local:
        return balanced
    return max(local / (away - visit + local), LEAST * balanced)


class Work(NamedTuple):
    """What a factor e takes with some p_comm, by the proved contraction."""

    gradients: float
    jumps: float
    reads: float  # of shards, at most: one a visit


def work(p_comm: float, balanced: float, rate: float, gradients: float, jumps: int) -> Work:
    """What a factor e takes.

    Parameters
    ----------
    p_comm
        The share of visits.
    balanced, rate
        The balanced p_comm, and the contraction of a step with it.
    gradients
        Of a local step, on average.
    jumps
        Of a token before a visit.
    """
    steps = 1 / -math.log1p(-rate * rate_share(p_comm, balanced))
    visits = steps * p_comm
    return Work(steps * (1 - p_comm) * gradients, visits * jumps, visits)


def rate_share(p_comm: float, balanced: float) -> float:
    """The contraction of a step, in units of the one with the balanced p_comm."""
    return min(p_comm / balanced, (1 - p_comm) / (1 - balanced))
