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
    read: float = 0.0  # of what a local step uses, a sample or a whole node, where rows are not all in memory
    link: float = 0.0  # in which a visit, on average, keeps the tokens of other visits from leaving their host


def reads_a_visit(p_comm: float, samples: float) -> float:
    """Samples of a node that are used at all between two of its visits, on average: at most so many are read.

    Between two visits a node uses each of its m samples before the next visit with probability p_comp / m against
    p_comm. Where a step uses all rows of a node, these are its only sample.

    Examples
    --------
    >>> reads_a_visit(0.5, 1), reads_a_visit(0.01, 1)  # whole nodes: once a visit, unless there was no step
    (0.5, 0.99)
    >>> round(reads_a_visit(0.5, 1000), 3), round(reads_a_visit(0.01, 1000), 1)  # about one a local step, if few are
    (0.999, 90.1)
    """
    p_comp = 1 - p_comm
    return p_comp * samples / (p_comp + samples * p_comm)


def choose_p_comm(balanced: float, times: Times, tokens: int, jumps: int, workers: int, samples: float = 1.0) -> float:
    """The smallest p_comm, down to a quarter of the balanced one, that promises no longer run than the balanced one.

    Computing, jumps and reading ahead go on at the same time, and the slowest of them sets the pace. Below the balanced
    p_comm progress is by visits. A visit takes (visit + p_comp / p_comm local) / workers of computing, the jumps before
    it, of which several tokens make several at a time, but not more than their link takes, and reading what the node
    uses until then.

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
    samples
        Of a node, on average; 1 where a step uses all its rows.

    Examples
    --------
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=1e-5), tokens=1, jumps=1, workers=2)
    0.05263157894736842
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=0.0), tokens=1, jumps=1, workers=2)
    0.2
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=1e-5, read=1.0), tokens=1, jumps=1, workers=2)
    0.2
    >>> choose_p_comm(0.2, Times(local=1e-6, visit=2e-6, hop=1e-5, link=1e-5), tokens=20, jumps=1, workers=2)
    0.05263157894736842
    """
    local, visit = times.local / workers, times.visit / workers
    computing = visit + local * (1 - balanced) / balanced
    reading = reads_a_visit(balanced, samples) * times.read
    pace = max(computing, reading, jumps * times.hop / tokens, times.link)
    if pace in (computing, reading):  # both take longer with any smaller p_comm
        return balanced
    as_long = local / (pace - visit + local)  # with this p_comm computing takes as long as the jumps
    if samples * times.read > pace:
        rest = samples - pace / times.read
        as_long = max(as_long, rest / (rest + samples * pace / times.read))  # and reading
    return min(balanced, max(as_long, LEAST * balanced))


class Work(NamedTuple):
    """What a factor e takes with some p_comm, by the proved contraction."""

    gradients: float
    jumps: float
    reads: float  # of rows, at most: those that are used between two visits of a node, once for each visit


def work(p_comm: float, balanced: float, rate: float, gradients: float, jumps: int, samples: float) -> Work:
    """What a factor e takes.

    Parameters
    ----------
    p_comm
        The share of visits.
    balanced, rate
        The balanced p_comm, and the contraction of a step with it.
    gradients
        Of a local step, on average: rows of a sample.
    jumps
        Of a token before a visit.
    samples
        Of a node, on average; 1 where a step uses all its rows.
    """
    steps = 1 / -math.log1p(-rate * rate_share(p_comm, balanced))
    visits = steps * p_comm
    return Work(steps * (1 - p_comm) * gradients, visits * jumps, visits * reads_a_visit(p_comm, samples) * gradients)


def rate_share(p_comm: float, balanced: float) -> float:
    """The contraction of a step, in units of the one with the balanced p_comm."""
    return min(p_comm / balanced, (1 - p_comm) / (1 - balanced))
