"""How fast gradient tracking contracts (Qu, Li 2018, Theorem 1): DIGing with a doubly stochastic matrix.

With X the models of all nodes, x their mean, Y the trackers, y their mean, the three errors
e = (||Y - 1 y||, ||X - 1 x||, sqrt(n) ||x - x*||) obey e <- G e, entry by entry, for n functions that are L-smooth and
mu-strongly convex and a matrix that contracts what is not the mean by delta:

        [ delta + s L   L (2 + s L)   s L^2                          ]
    G = [ s             delta         0                              ]
        [ 0             s L           max(|1 - s mu|, |1 - s L|)     ]

Rows two and three are the recursions with a gradient step on the mean; row one is
||Y+ - 1 y+|| <= delta ||Y - 1 y|| + L ||X+ - X||, and X+ - X = (M - I)(X - 1 x) - s Y, M the matrix. Where the spectral
radius of G is below 1, it is the rate of all three.
"""

import numpy as np


def tracking_radius(step: float, L: float, mu: float, delta: float) -> float:
    """The spectral radius of G; at least 1: the theorem says nothing.

    Examples
    --------
    >>> tracking_radius(0.0, 1.0, 0.1, 0.5)
    1.0
    >>> round(tracking_radius(0.01, 1.0, 0.5, 0.0), 6)  # 1 - s mu, and a little
    0.995001
    """
    s = step
    G = [
        [delta + s * L, L * (2 + s * L), s * L**2],
        [s, delta, 0.0],
        [0.0, s * L, max(abs(1 - s * mu), abs(1 - s * L))],
    ]
    return float(np.abs(np.linalg.eigvals(np.array(G))).max())


def longest_proved(L: float, mu: float, delta: float) -> float:
    """The longest step of the form 2^-k / L for which the theorem gives a rate.

    Examples
    --------
    >>> longest_proved(1.0, 0.5, 0.0)
    0.25
    """
    step = 1 / L
    while tracking_radius(step, L, mu, delta) >= 1 and step * mu > 1e-15:
        step /= 2
    return step
