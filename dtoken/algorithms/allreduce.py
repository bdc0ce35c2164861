"""All-reduces: how the sum of all nodes' gradients comes to every node, for gradient descent (`gd`).

A node has its gradient ``g``, ``total``, what has come of the sum, and ``sent``, whether its own gradient was sent (the
server of a star: how many have come).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Vector
from dtoken.compiled import compiled
from dtoken.schedule import rounds
from dtoken.schedule.events import LOADING


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
