"""What each node can learn about each other node's data: pairwise network differential privacy of a noisy walk.

A token carries x; at visit t node i_t replaces it by

    x <- x - gamma_t (g_i(x) + sigma x + s C xi_t),      xi_t standard normal,

where g_i is the mean of the gradients of the node's rows, each cut to norm C. Node v sees x whenever the token comes
to it, and knows its own noise; it also knows the walk, which is public. Data sets are neighbours if they differ in the
rows of one node u, all of them, whose g_u then changes by at most 2 C.

Between two times that v sees the token, let u be visited at some times p_1 < p_2 < ...; each time the two worlds move
apart by at most 2 C gamma. If all steps are contractions (see ``walk_sgd``), privacy amplification by iteration
(Feldman, Mironov, Talwar, Thakurta 2018) bounds the Renyi divergence of order a of what v sees next by

    a / 2 sum_t a_t^2 / (s C gamma_t)^2

for any a_t >= 0 whose sums up to t never exceed those of the shifts, and are equal at the end. The best a_t are the
slopes of the greatest convex minorant of the sum of shifts over the variance of the noise so far: ``pairwise``. What v
sees later depends on what it saw then and on later steps, so that divergences add up (adaptive composition). The sum is
rho a, for all a: zero-concentrated differential privacy, hence (eps, delta) with

    eps = rho + 2 sqrt(rho ln(1 / delta))                                     (Bun, Steinke 2016).

One visit of u and ``d`` steps of equal size until v sees the token: rho = 2 / (s^2 d). Without contractions nothing is
amplified: every visit of u counts 2 / s^2, whoever looks (``local``).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError

ASSUMPTIONS = (
    "neighbouring data sets differ in all rows of one node; numbers of rows and the bound of the smoothness are public",
    "a node sees the token when it comes by, and knows the graph, the walk and its own noise; all see the last model",
    "no two nodes put together what they see, and none eavesdrops on others: no guarantee there",
    "what dtoken measures (F, gaps, models of all nodes) is for who experiments: no guarantee if it is published",
    "the noise is secret: this run makes it from its seed, so it shows what private runs do and protects nobody itself",
)


@dataclass(frozen=True)
class Privacy:
    """Noise that hides the data of nodes from each other.

    Parameters
    ----------
    clip
        C, the largest norm of the gradient of a row; longer ones are cut. null: no limit.
    noise
        s: nodes add normal noise of standard deviation s * C to every coordinate of a gradient; 0: none.
    delta
        For which epsilon is told.
    """

    clip: float | None = None
    noise: float = 0.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"privacy.clip={self.clip} is the largest norm of a gradient; it must be positive")
        if not 0 <= self.noise < math.inf:
            raise InputError(f"privacy.noise={self.noise} must be a finite number, not a negative one")
        if self.noise > 0 and self.clip is None:
            raise InputError(
                f"privacy.noise={self.noise:g} hides nothing if gradients are of any length; give privacy.clip, too"
            )
        if not 0 < self.delta < 1:
            raise InputError(f"privacy.delta={self.delta} must lie in (0, 1)")

    @property
    def asked(self) -> bool:
        """Whether gradients are to be cut or made noisy."""
        return self.clip is not None


NO_PRIVACY = Privacy()


class Losses(NamedTuple):
    """rho of every pair, and of a node against all."""

    pairwise: NDArray[np.float64]  # (n, n) rho[u, v]: what v learns about u; nan on the diagonal
    local: NDArray[np.float64]  # (n,) of u against whoever sees everything


def losses(
    nodes: NDArray[np.int32], steps: NDArray[np.float64], n: int, noise: float, *, published: bool = True
) -> Losses:
    """rho of a walk.

    Parameters
    ----------
    nodes
        (T,) where the token is, one after the other.
    steps
        (T,) gamma_t; 0 where it only passes through.
    n
        Number of nodes.
    noise
        s.
    published
        Whether all see the last model.

    Examples
    --------
    >>> found = losses(np.array([0, 1, 2]), np.ones(3), 3, noise=2.0, published=False)
    >>> found.pairwise[0].tolist(), found.local.tolist()  # node 1 sees it after one noise, node 2 after two
    ([nan, 0.5, 0.25], [0.5, 0.5, 0.5])
    """
    unit = 2.0 / noise**2
    local = unit * np.bincount(nodes[steps > 0], minlength=n).astype(np.float64)
    pairs = unit * _pairwise(nodes.astype(np.int64), steps.astype(np.float64), n, published)
    np.fill_diagonal(pairs, np.nan)
    return Losses(pairs, local)


def epsilon(rho: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """The smallest eps of rho-zCDP by its Renyi divergences.

    Examples
    --------
    >>> float(epsilon(np.array(1.0), math.exp(-4.0)))
    5.0
    """
    return np.asarray(rho + 2 * np.sqrt(rho * math.log(1 / delta)), dtype=np.float64)


@compiled
def _pairwise(nodes: NDArray[np.int64], steps: NDArray[np.float64], n: int, published: bool) -> NDArray[np.float64]:
    """Sums of squared slopes of convex minorants: for each v, from one sight of the token to the next."""
    found, T = np.zeros((n, n)), len(nodes)
    before = np.zeros(T + 1)  # variance of the noise before each event
    for t in range(T):
        before[t + 1] = before[t] + steps[t] ** 2
    xs, ys, below = np.empty(T), np.empty(T), np.empty(T, np.int64)  # corners of minorants, and the corner before each
    top, total, seen = np.full(n, -1), np.zeros(n), np.empty(n, np.int64)
    for v in range(n):
        count = 0  # nodes that were visited since v saw the token
        for t in range(T + 1):
            u = nodes[t] if t < T else v
            if u == v:
                for each in range(count):
                    other = seen[each]
                    if t < T or published:
                        found[other, v] += _energy(xs, ys, below, top[other], before[t], total[other])
                    top[other], total[other] = -1, 0.0
                count = 0
            elif steps[t] > 0.0:
                if top[u] < 0:
                    seen[count] = u
                    count += 1
                corner = _corner(xs, ys, below, top[u], before[t], total[u])
                xs[t], ys[t], below[t] = before[t], total[u], corner
                top[u] = t
                total[u] += steps[t]
    return found


@compiled
def _corner(
    xs: NDArray[np.float64], ys: NDArray[np.float64], below: NDArray[np.int64], top: int, x: float, y: float
) -> int:
    """The last corner that stays one when the point (x, y) is added; -1: there is none."""
    while top >= 0 and below[top] >= 0:
        last = below[top]
        if (ys[top] - ys[last]) * (x - xs[top]) < (y - ys[top]) * (xs[top] - xs[last]):
            break
        top = last
    return top


@compiled
def _energy(
    xs: NDArray[np.float64], ys: NDArray[np.float64], below: NDArray[np.int64], top: int, x: float, y: float
) -> float:
    """Sum over the pieces of the minorant that ends at (x, y) of rise^2 / run."""
    total, top = 0.0, _corner(xs, ys, below, top, x, y)
    while top >= 0:
        total += (y - ys[top]) ** 2 / (x - xs[top])
        x, y, top = xs[top], ys[top], below[top]
    return total


def published_formula(W: NDArray[np.float64], T: int, noise: float) -> NDArray[np.float64]:
    """The sum of Cyffers, Bellet, Upadhyay (2024): divergence of order a over a, with walks as secret as noise.

    Every node is visited T / n times; a token that left u is at v after d steps with probability (W^d)_uv, which counts
    2 / (s^2 d); twice that because divergences of mixtures are only weakly convex (which needs s^2 >= 8 a (a - 1)):

        4 / s^2  T / n  sum_{d = 1}^T (W^d)_uv / d  =  4 / s^2  T / n  (H_T / n - ln(I - W + 1 1^T / n)_uv),

    the second form up to what follows T, for symmetric W. It is a mean over walks, for comparison: ``losses`` is what
    holds for the walk of a run.
    """
    values, vectors = np.linalg.eigh(W)
    d = np.arange(1, T + 1)
    sums = np.array([np.sum(value**d / d) for value in np.clip(values, -1.0, 1.0)])
    return np.asarray(4 / noise**2 * T / len(W) * (vectors * sums) @ vectors.T, dtype=np.float64)
