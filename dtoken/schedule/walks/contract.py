"""What a walk of its own law is: a frozen dataclass whose fields are keys of the section ``graph``.

A walk says which chain over the nodes it is (``transition``). One that is nothing else needs nothing else: its jumps
are drawn from the table of the chain. Any other has a compiled ``jump`` that chooses the next node, and may remember
things in a state that the schedule carries from segment to segment:

    jump(w, state, k, i, number, key) -> node

where ``w`` are the walk's constants (a NamedTuple of numbers and arrays, from ``constants``), ``state`` its state, k
the token, i where that is, ``number`` how many jumps and moves it has made, and ``key`` a key for random numbers
(`dtoken.schedule.random`) that no other jump has. ``passing(node)`` instead of ``node``: the token passes through and
jumps on without mixing there.

A walk knows the graph and never the data's values as a run goes on: the schedule is a function of the seed alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.graph.topology import Topology, written_out

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse
    from dtoken.graph.walks import Walk


class OwnWalk:
    """A walk that is the chain ``transition``, until a subclass says more."""

    remembers: ClassVar[bool] = False  # whether jumps depend on more than where the token is: no chain over the nodes
    reversible: ClassVar[bool] = False  # whether the chain obeys detailed balance
    jump: ClassVar[Callable[..., int] | None] = None  # compiled; None: by the table of the chain
    uses_smoothness: ClassVar[bool] = False  # of the nodes' losses, which `with_smoothness` is then called with

    def transition(self, topology: Topology) -> "Sparse":
        """P[i, j], the probability to jump from i to j; of a walk that remembers, that of the chain it begins from."""
        raise NotImplementedError

    def stationary(self, topology: Topology) -> NDArray[np.float64] | None:
        """The long-run share of jumps that land at each node; None: as the chain says."""
        return None

    def constants(self, walk: "Walk") -> Any:
        """What ``jump`` needs to know of the walk, its tables among it."""
        return ()

    def state(self, n: int, tokens: int) -> NDArray[np.float64]:
        """What the walk remembers at the start, of any shape."""
        return np.zeros(1)

    def allows(self, state: NDArray[np.float64], n: int) -> bool:
        """Whether a walk over ``n`` nodes can remember this; it comes from a file, and compiled jumps trust it."""
        return True

    @property
    def most_moves(self) -> int:
        """The most nodes at which a jump arrives, those included through which the token passes."""
        return 1

    @property
    def mean_moves(self) -> float:
        """How many these are on average."""
        return 1.0

    def with_smoothness(self, L: NDArray[np.float64]) -> "OwnWalk":
        """The same with the smoothness of the nodes' losses."""
        return self


@compiled
def passing(node: int) -> int:
    """What ``jump`` returns for a node that the token passes through."""
    return -1 - node


def one_graph(topology: Topology, walk: str) -> "Sparse":
    """The adjacency of a graph that does not vary; that of the complete graph has all nodes as neighbours of all."""
    if len(topology.adjacency) > 1:
        raise InputError(f"graph.walk={walk} needs one graph, and {topology.name} varies; use simple or lazy")
    if topology.adjacency:
        return topology.adjacency[0]
    return written_out(topology.n, f"graph.walk={walk} on graph=complete")
