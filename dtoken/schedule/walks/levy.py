"""Metropolis-Hastings with Levy jumps (Liu, El Rouayheb, Dwyer 2024): out of corners where a weighted walk is trapped.

With probability ``p_jump`` a token goes d steps of the simple walk, passing through the nodes between without mixing;
d is geometric with parameter ``p_distance``, cut at ``longest``. Otherwise it makes one step of Metropolis-Hastings.
Every step is along an edge and is a message. With W the simple walk and q_d the law of d, visits are the chain

    P = (1 - p_jump) P_MH + p_jump sum_d q_d W^d,      q_d = p (1 - p)^(d - 1) / (1 - (1 - p)^longest).

Its stationary law is computed: that of P_MH only if jumps are rare, or the graph is regular and the law uniform.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.graph.sampler import step
from dtoken.graph.topology import Topology
from dtoken.schedule.random import below, uniform
from dtoken.schedule.walks.contract import one_graph, passing
from dtoken.schedule.walks.weighted import Weighted, metropolis

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse
    from dtoken.graph.walks import Walk

LONGEST = 1000


class Constants(NamedTuple):
    """What jumps need."""

    indptr: NDArray[np.int64]  # (1, n + 1) of the Metropolis-Hastings walk
    neighbours: NDArray[np.int32]
    cumulative: NDArray[np.float64]
    edges: NDArray[np.int64]  # (n + 1,) of the graph
    ends: NDArray[np.int32]
    p_jump: float
    distance: NDArray[np.float64]  # (longest,) probability that a jump is at most so long


@compiled
def jump(w: Any, state: Any, k: int, i: int, number: int, key: np.uint64) -> int:
    """Token k goes on with the jump it is in, begins one, or makes one step."""
    if state[k] == 0.0 and uniform(key, 0) < w.p_jump:
        state[k] = 1.0 + np.searchsorted(w.distance, uniform(key, 1), side="right")
    if state[k] == 0.0:
        return int(step(w.indptr, w.neighbours, w.cumulative, i, 0, uniform(key, 2)))
    first = w.edges[i]
    node = int(w.ends[first + below(key, 3, w.edges[i + 1] - first)])
    state[k] -= 1.0
    return passing(node) if state[k] > 0.0 else node


@dataclass(frozen=True)
class Levy(Weighted):
    """Metropolis-Hastings with Levy jumps.

    Parameters
    ----------
    weights
        The law of the walk without jumps: one positive number a node; ``smoothness``; or ``uniform``.
    p_jump
        Probability of a jump.
    p_distance
        Probability that a jump ends at each of its steps.
    longest
        The most steps of a jump.
    """

    weights: Any = "uniform"
    p_jump: float = 0.1
    p_distance: float = 0.5
    longest: int = 3

    name = "levy"
    reversible = False
    jump = staticmethod(jump)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.p_jump <= 1:
            raise InputError(f"graph.p_jump={self.p_jump} is a probability; it must lie in [0, 1]")
        if not 0 < self.p_distance <= 1:
            raise InputError(f"graph.p_distance={self.p_distance} is a probability; it must lie in (0, 1]")
        if not 1 <= self.longest <= LONGEST:
            raise InputError(f"graph.longest={self.longest}, but a jump has from 1 to {LONGEST} steps")

    @property
    def distances(self) -> NDArray[np.float64]:
        """(longest,) q_d, the law of the length of a jump."""
        law = self.p_distance * (1 - self.p_distance) ** np.arange(self.longest)
        return np.asarray(law / law.sum(), dtype=np.float64)

    @property
    def most_moves(self) -> int:
        """A jump has so many steps at most."""
        return self.longest

    @property
    def mean_moves(self) -> float:
        """One, or the length of a jump."""
        return float(1 - self.p_jump + self.p_jump * (self.distances @ np.arange(1, self.longest + 1)))

    def stationary(self, topology: Topology) -> NDArray[np.float64]:
        """What the chain has."""
        return None  # type: ignore[return-value]

    def transition(self, topology: Topology) -> "Sparse":
        """Steps and jumps."""
        simple = _simple(one_graph(topology, self.name))
        chain, power = (1 - self.p_jump) * self._steps(topology), simple
        for share in self.distances:
            chain, power = chain + self.p_jump * share * power, power @ simple
        return csr_array(chain)

    def _steps(self, topology: Topology) -> "Sparse":
        return metropolis(one_graph(topology, self.name), super().stationary(topology), topology, self.name)

    def constants(self, walk: "Walk") -> Constants:
        """Both walks as tables."""
        from dtoken.graph.walks import cumulative_rows

        graph, steps = one_graph(walk.topology, self.name), self._steps(walk.topology)
        steps.sort_indices()
        return Constants(
            steps.indptr.astype(np.int64)[None],
            steps.indices.astype(np.int32),
            cumulative_rows(steps),
            graph.indptr.astype(np.int64),
            graph.indices.astype(np.int32),
            float(self.p_jump),
            np.cumsum(self.distances)[:-1],
        )

    def state(self, n: int, tokens: int) -> NDArray[np.float64]:
        """Steps that each token has left of the jump it is in."""
        return np.zeros(tokens)

    def allows(self, state: NDArray[np.float64], n: int) -> bool:
        """So many steps as a jump has at most."""
        return bool(np.all((state >= 0) & (state <= self.longest)))


def _simple(graph: "Sparse") -> "Sparse":
    degree = np.diff(graph.indptr)
    return csr_array((np.repeat(1 / degree, degree), graph.indices, graph.indptr), shape=graph.shape)
