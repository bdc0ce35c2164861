"""Visits in permuted rounds: in each round every node is visited once, in a fresh random order, by any of the tokens.

Only on the complete graph, where any token can go anywhere.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.graph.topology import Topology, written_out
from dtoken.schedule.random import below
from dtoken.schedule.walks.contract import OwnWalk

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse
    from dtoken.graph.walks import Walk


class Constants(NamedTuple):
    """What jumps need."""

    n: int


@compiled
def jump(w: Any, state: Any, k: int, i: int, number: int, key: np.uint64) -> int:
    """The next of the nodes that were not visited in this round: those from place ``state[n]`` on."""
    place = int(state[w.n])
    other = place + below(key, 0, w.n - place)
    node = state[other]
    state[other], state[place] = state[place], node
    state[w.n] = (place + 1) % w.n
    return int(node)


@dataclass(frozen=True)
class Rounds(OwnWalk):
    """Visits in permuted rounds, on the complete graph."""

    name = "rounds"
    remembers = True
    reversible = True
    jump = staticmethod(jump)

    def transition(self, topology: Topology) -> "Sparse":
        """Of a jump in the long run: any node, all alike."""
        if not topology.complete:
            raise InputError(f"graph.walk=rounds needs graph=complete, where any node can be next, not {topology.name}")
        return csr_array(written_out(topology.n, "graph.walk=rounds") / topology.n)

    def stationary(self, topology: Topology) -> NDArray[np.float64]:
        """All nodes alike."""
        return np.full(topology.n, 1 / topology.n)

    def constants(self, walk: "Walk") -> Constants:
        """How many nodes there are."""
        return Constants(walk.n)

    def state(self, n: int, tokens: int) -> NDArray[np.float64]:
        """The nodes in some order, those of this round first, and how many these are."""
        return np.append(np.arange(n, dtype=np.float64), 0.0)

    def allows(self, state: NDArray[np.float64], n: int) -> bool:
        """Every node once, and a place among them."""
        return bool(np.array_equal(np.sort(state[:n]), np.arange(n)) and state[n] in np.arange(n))
