"""Ranges of consecutive things: joined until they are worth handling together, and added up."""

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled

LEAF = 128  # values that are not halved any more


def joined(weights: NDArray[np.int64], limit: int, alone: int | None = None) -> NDArray[np.int64]:
    """The first member of each range; a range weighs at most ``limit``, unless it is a single member.

    Members of a weight of at least ``alone`` share a range with no other; None: those above the limit.

    Examples
    --------
    >>> joined(np.array([3, 4, 2, 20, 1, 1, 1]), 10)
    array([0, 3, 4])
    >>> joined(np.array([3, 4, 2, 20, 1, 1, 1]), 10, alone=4)
    array([0, 1, 2, 3, 4])
    """
    first = np.empty(len(weights), np.int64)
    count = _joined(np.ascontiguousarray(weights, np.int64), limit, limit + 1 if alone is None else alone, first)
    return first[:count].copy()


@compiled
def _joined(weights: NDArray[np.int64], limit: int, alone: int, first: NDArray[np.int64]) -> int:
    """Write the first members to ``first``, and return how many there are."""
    count, total, closed = 0, 0, True
    for member in range(len(weights)):
        large = weights[member] >= alone
        if closed or large or total + weights[member] > limit:
            first[count] = member
            count, total = count + 1, 0
        total += weights[member]
        closed = large
    return count


def range_sums(values: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sums of the values from each bound to the next, with the bits of ``values[a:b].sum()``; 0 of an empty range.

    Examples
    --------
    >>> range_sums(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3]))
    array([3., 0., 3.])
    """
    out = np.empty(len(first) - 1)
    _range_sums(np.ascontiguousarray(values), first, out)
    return out


@compiled
def _range_sums(values: NDArray[np.float64], first: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    for k in range(len(out)):
        out[k] = pairwise_sum(values, first[k], first[k + 1])


@compiled
def pairwise_sum(values: NDArray[np.float64], start: int, stop: int) -> float:
    """The sum of some values with the small error of halving, in the order that numpy has for them."""
    if stop - start <= LEAF:
        return _leaf_sum(values, start, stop)
    # Halves within halves, as a stack of ranges: compiled code does not call itself.
    begin, end, left = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64)
    done = np.zeros(64, np.int64)  # halves of each range that are added up
    depth, total = 0, 0.0
    begin[0], end[0] = start, stop
    while depth >= 0:
        half = (end[depth] - begin[depth]) // 2
        middle = begin[depth] + half - half % 8
        if end[depth] - begin[depth] <= LEAF:
            total = _leaf_sum(values, begin[depth], end[depth])
            depth -= 1
        elif done[depth] == 2:
            total = left[depth] + total
            depth -= 1
        else:
            if done[depth] == 0:
                begin[depth + 1], end[depth + 1] = begin[depth], middle
            else:
                left[depth] = total
                begin[depth + 1], end[depth + 1] = middle, end[depth]
            done[depth] += 1
            depth += 1
            done[depth] = 0
    return total


@compiled
def _leaf_sum(values: NDArray[np.float64], start: int, stop: int) -> float:
    """Eight sums side by side, then what is left over."""
    total, even = 0.0, start
    if stop - start >= 8:
        sums, even = values[start : start + 8].copy(), stop - (stop - start) % 8
        for k in range(start + 8, even, 8):
            for lane in range(8):
                sums[lane] += values[k + lane]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for k in range(even, stop):
        total += values[k]
    return total
