"""The self-repelling random walk (Doshi, Hu, Eun 2023): it goes rather where it has been less.

With P a reversible chain with stationary law pi, here that of Metropolis and Hastings, and x_j the visits of node j so
far, a token at i goes to j with probability

    K_ij = P_ij r_j / sum_k P_ik r_k,      r_j = (x_j / pi_j)^-alpha.

Visits still have the long-run shares pi, almost surely. Averages along the walk have the asymptotic covariance, with
the eigenvalues l and left eigenvectors u of P other than the first,

    sum_l  1 / (2 alpha (1 + l) + 1)  *  (1 + l) / (1 - l)  *  u u^T:

it falls like 1 / alpha, and alpha = 0 is the chain itself.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.schedule.random import uniform
from dtoken.schedule.walks.weighted import Weighted

if TYPE_CHECKING:
    from dtoken.graph.walks import Walk


class Constants(NamedTuple):
    """What jumps need."""

    indptr: NDArray[np.int64]  # (n + 1,)
    neighbours: NDArray[np.int32]
    probability: NDArray[np.float64]  # of each neighbour, by the chain
    pi: NDArray[np.float64]  # (n,)
    alpha: float


@compiled
def jump(w: Any, state: Any, k: int, i: int, number: int, key: np.uint64) -> int:
    """Token k chooses among the neighbours of i by how often these were visited."""
    visits = state[k % len(state)]
    first, last = w.indptr[i], w.indptr[i + 1]
    total = 0.0
    for e in range(first, last):
        j = w.neighbours[e]
        total += w.probability[e] * (visits[j] / w.pi[j]) ** -w.alpha
    left = uniform(key, 0) * total
    e = first - 1
    while left >= 0.0 and e + 1 < last:
        e += 1
        j = w.neighbours[e]
        left -= w.probability[e] * (visits[j] / w.pi[j]) ** -w.alpha
    node = w.neighbours[e]
    visits[node] += 1.0
    return int(node)


@dataclass(frozen=True)
class SelfRepelling(Weighted):
    """The self-repelling random walk.

    Parameters
    ----------
    weights
        The law of the visits: one positive number a node; ``smoothness``; or ``uniform``.
    alpha
        How strongly it is repelled; 0: not at all.
    shared
        Whether tokens are repelled by each other's visits, too.
    """

    weights: Any = "uniform"
    alpha: float = 2.0
    shared: bool = False

    name = "self_repelling"
    remembers = True
    jump = staticmethod(jump)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < math.inf:
            raise InputError(f"graph.alpha={self.alpha} must be a finite number, not a negative one")

    def constants(self, walk: "Walk") -> Constants:
        """The chain, and the power."""
        P = walk.transition()
        pi = walk.stationary
        return Constants(walk.indptr[0], walk.neighbours, np.asarray(P.data), pi, float(self.alpha))

    def state(self, n: int, tokens: int) -> NDArray[np.float64]:
        """Visits of each node, by each token or by all; each node begins with one, so that shares exist."""
        return np.ones((1 if self.shared else tokens, n))
