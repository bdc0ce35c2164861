"""From a uniform number to a sample of a node: uniform, or with given weights by Walker's alias method.

Samples with q = 0 contribute a constant and are never drawn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.ranges import range_sums
from dtoken.schedule.events import GIVEN, NO_SAMPLE


class Samples(NamedTuple):
    """What the hosted nodes draw from; node i owns positions first[i] to before first[i + 1]."""

    first: NDArray[np.int64]  # (hosted + 1,)
    kept: NDArray[np.int32]  # (samples that count,) inside the node the number of the row in which each begins
    accept: NDArray[np.float64]  # (same, or empty for uniform draws) chance to keep the slot that was hit
    alias: NDArray[np.int32]  # (same, or empty) the slot to take otherwise, counted inside the node


def no_samples(hosted: int) -> Samples:
    """For methods whose steps use all rows of a node."""
    return Samples(np.zeros(hosted + 1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0, np.int32))


def uniform_samples(first: NDArray[np.int64], kept: NDArray[np.int32]) -> Samples:
    """Each node draws uniformly from its own samples."""
    return Samples(first, kept, np.empty(0), np.empty(0, np.int32))


def weighted_samples(first: NDArray[np.int64], kept: NDArray[np.int32], weights: NDArray[np.float64]) -> Samples:
    """Each node draws from its samples with probabilities proportional to their weights."""
    counts = np.diff(first)
    factor = counts / np.where(counts > 0, range_sums(weights, first), 1.0)
    accept, alias = np.empty(len(kept)), np.empty(len(kept), np.int32)
    _alias_tables(first, weights, factor, accept, alias)
    return Samples(first, kept, accept, alias)


@compiled
def _alias_tables(
    first: NDArray[np.int64],
    weights: NDArray[np.float64],
    factor: NDArray[np.float64],
    accept: NDArray[np.float64],
    alias: NDArray[np.int32],
) -> None:
    """Make the table of each node from its weights, whose mean becomes 1 by the factor."""
    most = 0
    for node in range(len(factor)):
        most = max(most, first[node + 1] - first[node])
    small, large = np.empty(most, np.int32), np.empty(most, np.int32)
    for node in range(len(factor)):
        start, stop = first[node], first[node + 1]
        for k in range(start, stop):
            accept[k] = weights[k] * factor[node]
        _alias_table(accept[start:stop], alias[start:stop], small, large)


@compiled
def _alias_table(
    accept: NDArray[np.float64], alias: NDArray[np.int32], small: NDArray[np.int32], large: NDArray[np.int32]
) -> None:
    """Walker's table for weights whose mean is 1, by Vose's method; ``small`` and ``large`` are scratch."""
    size = len(accept)
    smalls = larges = 0
    for slot in range(size):
        alias[slot] = slot
        if accept[slot] < 1.0:
            small[smalls] = slot
            smalls += 1
        else:
            large[larges] = slot
            larges += 1
    while smalls > 0 and larges > 0:
        low, high = small[smalls - 1], large[larges - 1]
        smalls -= 1
        alias[low] = high
        accept[high] -= 1.0 - accept[low]
        if accept[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    for slot in small[:smalls]:  # left over by rounding: their weight is 1
        accept[slot] = 1.0
    for slot in large[:larges]:
        accept[slot] = 1.0


def share(samples: Samples, node: int, sample: int) -> float:
    """The probability with which a node draws a sample.

    Examples
    --------
    >>> two = weighted_samples(np.array([0, 2]), np.array([0, 4], np.int32), np.array([3.0, 1.0]))
    >>> share(two, 0, 4)
    0.25
    """
    own = slice(samples.first[node], samples.first[node + 1])
    size, hit = own.stop - own.start, samples.kept[own] == sample
    if len(samples.accept) == 0 or not hit.any():
        return float(hit.sum() / size) if size else 0.0
    accept, alias = samples.accept[own], samples.alias[own]
    return float((accept[hit].sum() + (1 - accept)[alias == np.argmax(hit)].sum()) / size)


@compiled
def row_of(samples: Samples, first_row: NDArray[np.int64], node: int, draw: float) -> int:
    """The row of hosted node ``node`` in which the sample begins that ``draw`` stands for; -1: no single sample."""
    if draw == NO_SAMPLE or len(samples.kept) == 0:
        return -1
    if draw < 0.0:
        return int(first_row[node] + np.int64(GIVEN - draw))
    first = samples.first[node]
    scaled = draw * (samples.first[node + 1] - first)
    slot = np.int64(scaled)
    if len(samples.accept) > 0 and scaled - slot >= samples.accept[first + slot]:
        slot = np.int64(samples.alias[first + slot])
    return int(first_row[node] + np.int64(samples.kept[first + slot]))
