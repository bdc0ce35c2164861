"""Pairs (x, v) that relax towards each other all the time, dx/dt = rho (v - x), dv/dt = rho (x - v).

During a time dt both move by the share (1 - exp(-2 rho dt)) / 2 of v - x. So x + v does not relax, and v - x decays by
one factor for a whole node: nodes keep x + v, and v - x without that factor, which is multiplied in at a visit. A step
then touches only the entries of its row.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Vector
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows

SMALLEST_DECAY = 2.0**-40  # below, a node's decay is multiplied in early: dividing by it would lose digits


class Nodes(NamedTuple):
    """State of the hosted nodes; v - x = decay * difference."""

    pair: Vector  # (hosted, d, 2) x + v and difference, side by side because steps read both
    decay: Vector  # (hosted,)
    time: Vector  # (hosted,) until when the node has relaxed
    sample: Vector  # (rows, 4) gx, gv, time, and the last root u, where the next search begins


class Tokens(NamedTuple):
    """State of the tokens."""

    x: Vector  # (K, d)
    v: Vector  # (K, d)
    time: Vector  # (K,) until when the token has relaxed


def zero_pairs(rows: HostedRows, K: int) -> tuple[Nodes, Tokens]:
    """All pairs at zero."""
    hosted, d = len(rows.w), rows.d
    nodes = Nodes(np.zeros((hosted, d, 2)), np.ones(hosted), np.zeros(hosted), np.zeros((len(rows.y), 4)))
    return nodes, Tokens(np.zeros((K, d)), np.zeros((K, d)), np.zeros(K))


def relaxed(rho: float, nodes: Nodes, tokens: Tokens, t: float) -> tuple[Vector, Vector]:
    """x of nodes and tokens at time t; the states stay as they are."""
    decay = nodes.decay * np.exp(-2.0 * rho * (t - nodes.time))
    x_nodes = 0.5 * (nodes.pair[:, :, 0] - decay[:, None] * nodes.pair[:, :, 1])
    share = -0.5 * np.expm1(-2.0 * rho * (t - tokens.time))
    return x_nodes, tokens.x + share[:, None] * (tokens.v - tokens.x)


@compiled
def share(rho: float, dt: float) -> float:
    """By which share of v - x both x and v move during dt."""
    return -0.5 * math.expm1(-2.0 * rho * dt)


@compiled
def decay_until(rho: float, nodes: Any, i: int, t: float) -> float:
    """The decay of node i at time t, until when it relaxes."""
    decay: float = nodes.decay[i] * math.exp(-2.0 * rho * (t - nodes.time[i]))
    if decay < SMALLEST_DECAY:
        for s in range(nodes.pair.shape[1]):  # an array expression, though rarely reached, slows every step
            nodes.pair[i, s, 1] *= decay
        decay = 1.0
    nodes.decay[i], nodes.time[i] = decay, t
    return decay


@compiled
def row_dot_x(rows: Any, r: int, pair: Vector, decay: float) -> float:
    """a^T x of row r."""
    total = difference = 0.0
    start, stop = rows.start[r], rows.stop[r]
    values, places = rows.data[start:stop], rows.indices[start:stop]
    for e in range(len(values)):
        total += values[e] * pair[places[e], 0]
        difference += values[e] * pair[places[e], 1]
    return 0.5 * (total - decay * difference)


@compiled
def subtract_row(rows: Any, r: int, delta: float, b: float, pair: Vector, decay: float) -> None:
    """v -= delta a, x -= b delta a for row r."""
    start, stop = rows.start[r], rows.stop[r]
    values, places = rows.data[start:stop], rows.indices[start:stop]
    for e in range(len(values)):
        pair[places[e], 0] -= (1.0 + b) * delta * values[e]
        pair[places[e], 1] -= (1.0 - b) * delta / decay * values[e]
