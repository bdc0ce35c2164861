"""Constants and rate of dual coordinate ascent along a walk (Shalev-Shwartz, Zhang 2013).

With independent visits, and one row a visit that is drawn uniformly, row ij comes up with probability
p_ij = pi_i / m_i, and for the dual D of the problem

    E[D* - D] falls by the factor 1 - r at each visit,      r = min_ij p_ij / (1 + L_ij / (n sigma)),
    E[F - F*] <= (F* / r) (1 - r)^t.

The proof is theirs with a step of each variable's own: s_ij = 1 / (1 + L_ij / (n sigma)) makes the quadratic terms of
the gain in D cancel, the rest is p_ij s_ij times the variable's share of the duality gap, and D is 0 at the start.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class DualAscent(NamedTuple):
    """Constants of dual coordinate ascent."""

    n: int
    sigma: float
    seed: np.uint64
    node: NDArray[np.int64]  # (n,) number of each node in the graph: its order of rows is made from it
    visited: NDArray[np.int64]  # (n,) rows that a visit uses
    bucket: int  # rows that are used one after the other; 0: rows are drawn independently
    rate: float


def ascent_rate(pi: Vector, share: Vector, largest: Vector, total: float) -> float:
    """r, where a visit of several rows is taken to be worth as many visits.

    Parameters
    ----------
    pi
        (n,) law of the visits.
    share
        (n,) share of a node's rows that a visit uses.
    largest
        (n,) the largest L_ij of each node.
    total
        n sigma.

    Examples
    --------
    >>> ascent_rate(np.full(2, 0.5), np.array([0.25, 0.5]), np.array([0.0, 3.0]), 1.0)
    0.0625
    """
    return float((pi * share / (1 + largest / total)).min())
