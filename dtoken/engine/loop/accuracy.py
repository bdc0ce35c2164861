"""When a run has come to an accuracy: the one definition that stopping, summaries, tables and claims share.

A curve of a stochastic method is noisy: it dips below an accuracy, rises again, and stays below later. The first dip
depends on how often one looks, so what counts as needed is from where on a curve stays below.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e4 * sys.float_info.epsilon  # suboptimalities below this share of F say little
LAST_SHARE = 0.2  # of a run that has brought it no closer
LAST_RECORDS = 10  # at least


class Crossing(NamedTuple):
    """At which record points a run came to an accuracy; None: at none."""

    reached: int | None  # the first at or below it that comes after one above it
    stays_below: int | None  # from here to the end, all are at or below it


def measurable(accuracy: float, optimum: float) -> bool:
    """Whether F - F* can be told to be at most ``accuracy``: float64 has no numbers between F* and F* (1 + epsilon).

    Examples
    --------
    >>> measurable(1e-15, 2.5), measurable(1e-18, 2.5)
    (True, False)
    """
    return accuracy >= sys.float_info.epsilon * abs(optimum)


def crossing(suboptimalities: ArrayLike, accuracy: float, optimum: float = 0.0) -> Crossing:
    """Where a run came to ``accuracy``; a start that is below it by chance and rises has not reached it.

    A run that is below it from its start to its end came there at its start. None comes to an accuracy that cannot be
    told from 0 beside the ``optimum`` F*.

    Examples
    --------
    >>> crossing([3.0, 0.9, 2.0, 0.8, 0.7], 1.0)
    Crossing(reached=1, stays_below=3)
    >>> crossing([0.1, 600.0, 0.2, 3.0], 1.0)
    Crossing(reached=2, stays_below=None)
    >>> crossing([3.0, 0.0, 0.0], 1e-18, 2.5)
    Crossing(reached=None, stays_below=None)
    """
    if not measurable(accuracy, optimum):
        return Crossing(None, None)
    above = ~(np.asarray(suboptimalities, dtype=np.float64) <= accuracy)  # what is no number is above
    if not above.any():
        return Crossing(0, 0) if above.size else Crossing(None, None)
    dips = np.flatnonzero(above[:-1] & ~above[1:])
    after = int(np.flatnonzero(above)[-1]) + 1
    return Crossing(int(dips[0]) + 1 if dips.size else None, after if after < above.size else None)


def settled(suboptimalities: Sequence[float], accuracy: float, patience: int, optimum: float = 0.0) -> bool:
    """Whether the last ``patience`` record points are all at or below ``accuracy``, as far as that can be told.

    Examples
    --------
    >>> settled([3.0, 0.9, 2.0, 0.8, 0.7], 1.0, 2), settled([0.9], 1.0, 2)
    (True, False)
    """
    last = suboptimalities[-patience:]
    return len(last) == patience and all(value <= accuracy for value in last) and measurable(accuracy, optimum)


def exhausted(
    events: Sequence[int], suboptimalities: Sequence[float], distances: Sequence[float], floor: float
) -> bool:
    """Whether a run cannot get closer: the last fifth of it, ten records or more, is at the floor and came no nearer.

    Parameters
    ----------
    events, suboptimalities, distances
        Of each record point: events so far, F - F*, and the squared distance to the optimum.
    floor
        What F - F* cannot be told from 0 below, because of rounding errors and the error of F* itself.

    Examples
    --------
    >>> events = range(100)
    >>> falls = [0.5**k for k in events]
    >>> exhausted(events, falls, falls, 1e-12), exhausted(events, falls, [max(each, 1e-20) for each in falls], 1e-12)
    (False, True)
    """
    if not suboptimalities or not abs(suboptimalities[-1]) <= floor:
        return False
    last = min(int(np.searchsorted(events, (1 - LAST_SHARE) * events[-1], "right")), len(events) - LAST_RECORDS)
    if last < 1 or not all(abs(value) <= floor for value in suboptimalities[last:]):
        return False
    return min(distances[last:]) >= min(distances[:last])
