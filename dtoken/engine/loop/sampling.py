"""Record points that do not need all: a seeded sample of rows and tokens, and what it says of the objective.

F - F* is the mean over tokens k of sum_r w_r (phi_r(theta_k) - phi_r(theta*)) and the difference of the regularisers,
w_r = 1 / m_i for the rows of node i. Rows and tokens are drawn without replacement, anew at every record point from the
seed and the number of events, so errors of several records are independent and the same on every engine. Differences to
the optimum are estimated, not losses: their error goes to 0 with the distance.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Vector
from dtoken.engine.loop.settings import Recording

Integers = NDArray[np.int64]


class Sample(NamedTuple):
    """Rows and tokens to measure."""

    nodes: Integers  # (rows,) node of each row
    rows: Integers  # (rows,) its number inside the node
    tokens: Integers  # numbers of tokens, increasing

    def of(self, slot: Integers) -> "Sample":
        """The part of it that concerns nodes with a place among the hosted ones, which are named by it."""
        places = slot[self.nodes]
        return Sample(places[places >= 0], self.rows[places >= 0], self.tokens)


class Estimate(NamedTuple):
    """What a sample says."""

    suboptimality: float
    error: float  # standard error


def draw(recording: Recording, node_rows: Integers, tokens: int, seed: int, event: int) -> Sample:
    """The sample of the record after ``event`` events; no more rows and tokens than there are."""
    rng = np.random.default_rng([seed, event])
    ends = np.cumsum(node_rows)
    total = int(ends[-1])
    size = total if recording.sample is None else min(recording.sample, total)
    rows = np.sort(rng.choice(total, size, replace=False, shuffle=False))
    nodes = np.searchsorted(ends, rows, side="right")
    count = tokens if recording.tokens is None else min(recording.tokens, tokens)
    chosen = np.sort(rng.choice(tokens, count, replace=False))
    return Sample(nodes, rows - (ends[nodes] - node_rows[nodes]), chosen)


def estimate(excess: Vector, total_rows: int, regularisers: Vector, tokens: int) -> Estimate:
    """F - F* and its standard error.

    Parameters
    ----------
    excess
        (rows, tokens) w_r (phi_r(theta_k) - phi_r(theta*)) of the sample.
    total_rows, tokens
        How many there are in all.
    regularisers
        (tokens,) of the sampled tokens, less that of the optimum.
    """
    size, count = excess.shape
    of_rows = excess.mean(axis=1)
    of_tokens = total_rows / size * excess.sum(axis=0) + regularisers
    found = total_rows * math.fsum(of_rows) / size + math.fsum(regularisers) / count
    variance = total_rows**2 * _variance_of_mean(of_rows, total_rows) + _variance_of_mean(of_tokens, tokens)
    return Estimate(found, math.sqrt(variance))


def _variance_of_mean(values: Vector, total: int) -> float:
    """Of a sample without replacement; 0 where it has everything."""
    size = len(values)
    return 0.0 if size == total else float(np.var(values, ddof=1)) / size * (1 - size / total)
