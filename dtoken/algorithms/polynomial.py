"""Chebyshev acceleration (``theory.chebyshev``) in rounds of messages: K exchanges, then a load that ends them.

Nodes have ``current`` and ``before_last`` (y_k and y_{k-1}), ``arriving`` (what has come of (I - u Lap) y_k),
``weight`` (w_k) and ``stage`` (k); constants ``own``, ``unit``, ``quarter`` and ``rounds``.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Vector
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.events import Events, concatenate
from dtoken.schedule.rounds import exchange, loads
from dtoken.theory.chebyshev import Chebyshev, accelerated_network, chebyshev, check_rounds
from dtoken.theory.gossip import Network


class Polynomial(NamedTuple):
    """Constants of EXTRA with Chebyshev acceleration."""

    n: int
    sigma: float
    L_b: float
    kappa: float
    step: float
    gap: float  # of W = I - P(Lap) / (1 + delta)
    rounds: int  # K
    own: Vector  # (n,)
    unit: float
    quarter: float
    half: float  # 1 / (2 (1 + delta))


class ChebyshevAverages:
    """A method whose nodes average with their neighbours, by a polynomial if ``chebyshev`` says so."""

    chebyshev: bool | int
    plain_visit: ClassVar[Callable[..., None]]
    accelerated_visit: ClassVar[Callable[..., None]]

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the method that this is mixed into
        check_rounds(self.chebyshev)

    @property
    def visit(self) -> Callable[..., None]:
        """What a message does depends on the polynomial."""
        return self.accelerated_visit if self.chebyshev else self.plain_visit

    def accelerated(self, net: Network) -> tuple[Chebyshev, Network]:
        """The polynomial of as many exchanges as ``chebyshev`` says, and the network as it makes it."""
        found = chebyshev(net, None if self.chebyshev is True else int(self.chebyshev))
        return found, accelerated_network(net, found)


@compiled
def begin_round(c: Any, nodes: Any, message: Vector, i: int, start: Vector) -> bool:
    """Node i writes its message; True: all rounds are over, and ``current`` is y_K. y_0 is ``start``."""
    current, last, arriving, stage = nodes.current[i], nodes.before_last[i], nodes.arriving[i], nodes.stage[i]
    if stage == 0:
        nodes.weight[i] = 1.0
        for s in range(len(current)):
            current[s] = start[s]
            last[s] = 0.0
    else:
        w = nodes.weight[i]
        for s in range(len(current)):
            following = w * arriving[s] - (w - 1.0) * last[s]
            last[s] = current[s]
            current[s] = following
        nodes.weight[i] = 1.0 / (1.0 - (2.0 if stage == 1 else w) * c.quarter)
    if stage == c.rounds:
        nodes.stage[i] = 0
        return True
    for s in range(len(current)):
        message[s] = current[s]
        arriving[s] = c.own[i] * current[s]
    nodes.stage[i] = stage + 1
    return False


@compiled
def receive(c: Any, nodes: Any, message: Vector, i: int) -> None:
    """Node i gets the message of a neighbour."""
    for s in range(len(message)):
        nodes.arriving[i, s] += c.unit * message[s]


def exchanges(neighbours: list[NDArray[np.int32]], rounds: int) -> Events:
    """K exchanges, and the loads that end them."""
    return concatenate([exchange(neighbours)] * rounds + [loads(len(neighbours))])


def no_rounds(rows: HostedRows) -> tuple[Vector, Vector, Vector, Vector, NDArray[np.int64]]:
    """``current``, ``before_last``, ``arriving``, ``weight`` and ``stage`` before the first exchange."""
    hosted = len(rows.w)
    current, last, arriving = (np.zeros((hosted, rows.d)) for _ in range(3))
    return current, last, arriving, np.zeros(hosted), np.zeros(hosted, np.int64)
