"""Chebyshev acceleration of averages over neighbours (Scaman, Bach, Bubeck, Lee, Massoulié 2017, Algorithm 2).

In the place of the Laplacian stands a polynomial of it, of degree K, whose eigenvalues but the 0 lie as closely
together as they can:

    P(Lap) = I - T_K(c (I - u Lap)) / T_K(c),      u = 2 / ((1 + gamma) lambda_max),      c = (1 + gamma) / (1 - gamma)

T_K the Chebyshev polynomial. They lie in [1 - delta, 1 + delta],

    delta = 1 / T_K(c) = 2 q^K / (1 + q^2K),      q = (1 - sqrt(gamma)) / (1 + sqrt(gamma)),

so that K = 1 / sqrt(gamma) exchanges make a gap of (1 - delta) / (1 + delta), at least 0.58, of any gap gamma. With
y_0 = x, y_K = T_K(c (I - u Lap)) x / T_K(c) comes out of

    y_{k+1} = w_k (I - u Lap) y_k - (w_k - 1) y_{k-1},      w_0 = 1,      w_1 = 1 / (1 - 1 / (2 c^2)),
    w_{k+1} = 1 / (1 - w_k / (4 c^2)).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.theory.gossip import Network

MOST_ROUNDS = 1_000


class Chebyshev(NamedTuple):
    """What P(Lap) is made of."""

    rounds: int  # K
    own: NDArray[np.float64]  # (n,) diagonal of I - u Lap
    unit: float  # u: its other entries, for neighbours
    quarter: float  # 1 / (4 c^2)
    delta: float


def chebyshev(net: Network, rounds: int | None) -> Chebyshev:
    """The polynomial of degree ``rounds``; None: 1 / sqrt(gamma), rounded up.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> from dtoken.theory.gossip import network
    >>> found = chebyshev(network(build("ring", 40), "extra"), None)
    >>> found.rounds, round((1 - found.delta) / (1 + found.delta), 3)
    (13, 0.594)
    """
    gamma = min(1.0, net.gap)
    rounds = math.ceil(1 / math.sqrt(gamma) - 1e-9) if rounds is None else rounds
    unit, root = 2 / ((1 + gamma) * net.lambda_max), math.sqrt(gamma)
    q = (1 - root) / (1 + root)
    delta = 2 * q**rounds / (1 + q ** (2 * rounds))
    return Chebyshev(rounds, 1 - unit * net.degree, unit, ((1 - gamma) / (1 + gamma)) ** 2 / 4, delta)


def accelerated_network(net: Network, polynomial: Chebyshev) -> Network:
    """The graph as if P(Lap) were its Laplacian."""
    return net._replace(lambda_max=1 + polynomial.delta, lambda_min=1 - polynomial.delta)


def check_rounds(value: bool | int) -> None:
    """Refuse degrees that make no sense."""
    if not isinstance(value, bool) and not 1 <= value <= MOST_ROUNDS:
        raise InputError(f"algorithm.chebyshev={value} is neither true nor false nor a number from 1 to {MOST_ROUNDS}")
