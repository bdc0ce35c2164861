"""Chebyshev acceleration (``theory.chebyshev``) in rounds of messages: K exchanges, then a load that ends them.

Nodes have ``current`` and ``before_last`` (y_k and y_{k-1}), ``arriving`` (what has come of (I - u Lap) y_k),
``weight`` (w_k) and ``stage`` (k); constants ``own``, ``unit``, ``quarter`` and ``rounds``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Vector
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.events import Events, concatenate
from dtoken.schedule.rounds import exchange, loads


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
