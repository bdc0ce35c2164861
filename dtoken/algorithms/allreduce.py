"""All-reduces: how the sum of all nodes' gradients comes to every node, for gradient descent (`gd`, `agd`).

A node has its gradient ``g``, ``total``, what has come of the sum, and ``sent``, whether its own gradient was sent (the
server of a star: how many have come).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import NO_MARGINS, InBlocks
from dtoken.algorithms.contract import Arrays, Facts, Vector, check_choice
from dtoken.algorithms.synchronous import RoundMethod
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.graph.topology import COMPLETE_TABLE_LIMIT
from dtoken.problem.hosted import HostedRows, add_gradient
from dtoken.schedule import rounds
from dtoken.schedule.events import LOADING, concatenate
from dtoken.schedule.stream import Schedule


class Tokens(NamedTuple):
    """State of the tokens."""

    message: Vector  # (K, d) a sum of gradients
    parts: NDArray[np.int64]  # (K,) how many


@compiled
def _put(source: Vector, target: Vector) -> None:
    """target[:] = source; written so, numba compiles the sentence of an error along with it."""
    for s in range(len(source)):
        target[s] = source[s]


@compiled
def _add(source: Vector, target: Vector) -> None:
    for s in range(len(source)):
        target[s] += source[s]


@compiled
def all_to_all(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """All nodes add up all gradients in the same order, their own when it is loaded for the second time."""
    if r == LOADING and nodes.sent[i] == 0:
        _put(nodes.g[i], tokens.message[k])
        nodes.sent[i] = 1
    else:
        _add(tokens.message[k], nodes.total[i])


@compiled
def ring(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """First lap: the token takes the node's gradient. Second lap: it hands out the sum."""
    if nodes.sent[i] == 1:
        _put(tokens.message[k], nodes.total[i])
    elif tokens.parts[k] == c.n:
        _put(nodes.g[i], tokens.message[k])
        tokens.parts[k] = 1
    else:
        _add(nodes.g[i], tokens.message[k])
        tokens.parts[k] += 1
    nodes.sent[i] = 1


@compiled
def centralized(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Messages of one gradient are for the server, which adds them up; it sends the sum when all are there."""
    if r == LOADING:
        tokens.parts[k] = max(1, nodes.sent[i])
        _put(nodes.total[i] if tokens.parts[k] == c.n > 1 else nodes.g[i], tokens.message[k])
    elif tokens.parts[k] == c.n:
        _put(tokens.message[k], nodes.total[i])
    else:
        _add(tokens.message[k], nodes.total[i])
        nodes.sent[i] += 1


VISITS: dict[str, Callable[..., None]] = {"all_to_all": all_to_all, "ring": ring, "centralized": centralized}
PATTERNS = {"all_to_all": rounds.all_to_all, "ring": rounds.two_laps, "centralized": rounds.star}


class Descent(NamedTuple):
    """Constants of gradient descent."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    kappa: float  # 1 + L_b / sigma
    step: float  # s


@dataclass(frozen=True)
class AllReduceMethod(InBlocks, RoundMethod):
    """A method whose rounds are an all-reduce of gradients, and a step at every node.

    Parameters
    ----------
    smoothness, factor, step, block_rows
        As for all methods with rounds.
    allreduce
        How nodes add up their gradients: ``all_to_all``, ``ring`` or ``centralized``.
    """

    allreduce: str = "all_to_all"

    refuses = NO_MARGINS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("allreduce", self.allreduce, tuple(VISITS))

    @property
    def visit(self) -> Callable[..., None]:
        """What a token does depends on the all-reduce."""
        return VISITS[self.allreduce]

    def token_start(self, n: int) -> NDArray[np.int64]:
        """The ring has one token, the others one message per node."""
        return np.arange(1 if self.allreduce == "ring" else n, dtype=np.int64)

    def descent(self, facts: Facts) -> Descent:
        """The step size."""
        if self.allreduce == "all_to_all" and facts.n > COMPLETE_TABLE_LIMIT:
            raise InputError(
                f"{self.name} would send {facts.n}**2 messages a step; use algorithm.allreduce=ring or centralized"
            )
        L_b = self.batch_smoothness(facts)
        return Descent(facts.n, facts.sigma, L_b, 1 + L_b / facts.sigma, self.step / (L_b + facts.sigma))

    def schedule(self, c: Arrays, facts: Facts, seed: int) -> Schedule:
        """The all-reduce, then a local step everywhere."""
        return rounds.Rounds(concatenate([PATTERNS[self.allreduce](c.n), rounds.local_steps(c.n)]))

    def notes(self, c: Arrays, facts: Facts) -> tuple[str, ...]:
        """The graph plays no role."""
        if facts.walk.topology.complete:
            return super().notes(c, facts)
        name = facts.walk.topology.name
        note = f"{self.name} does not use {name}: its messages go as allreduce={self.allreduce} says"
        return (*super().notes(c, facts), note)

    def begin(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> None:
        """The first gradients, at theta = 0: without the regulariser's share."""
        for i in np.flatnonzero(np.diff(rows.first)).tolist():
            add_gradient(rows, i, rows.first[i], rows.first[i + 1], nodes.theta[i], nodes.g[i])

    def sums(self, c: Arrays, rows: HostedRows) -> tuple[Vector, NDArray[np.int64], Tokens]:
        """``total`` and ``sent`` of the nodes, and the tokens, before the first round."""
        K, hosted = len(self.token_start(c.n)), len(rows.w)
        tokens = Tokens(np.zeros((K, rows.d)), np.full(K, c.n))
        return np.zeros((hosted, rows.d)), np.zeros(hosted, np.int64), tokens
