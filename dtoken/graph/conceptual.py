"""The conceptual graph of the paper ("Building the conceptual graph"), written out for small n.

Vertices: n communication nodes, K tokens, one computation node per sample. Edges: every node with every token
(weight 1), optionally every two tokens (weight 1), and every communication node with its computation nodes
(weight mu_ij^2 = alpha L_ij). Nothing in a run needs these matrices; the tests of the theory do.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space

Samples = Sequence[ArrayLike] | NDArray[np.float64]  # smoothness L_ij: one array per node; nodes may differ in size


def incidence(
    n: int, K: int, L: Samples | None = None, alpha: float = 1.0, token_edges: bool = False
) -> NDArray[np.float64]:
    """Weighted incidence matrix A (vertices x edges): column e is mu_e (1_u - 1_v).

    Parameters
    ----------
    n, K : int
        Numbers of nodes and tokens.
    L : sequence of n arrays, optional
        Smoothness L_ij of each sample of each node; without it there are no computation nodes.
    alpha : float
        Scale of the computation edges, mu_ij^2 = alpha L_ij.
    token_edges : bool
        Whether every two tokens are joined too.

    Returns
    -------
    ndarray
        Vertices: nodes, tokens, samples (node by node). Edges: node-token (node by node), token-token,
        computation.

    Examples
    --------
    >>> incidence(2, 1)
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1., -1.]])
    """
    samples = _samples(n, L)
    edges = [(i, n + k, 1.0) for i in range(n) for k in range(K)]
    if token_edges:
        edges += [(n + k, n + other, 1.0) for k, other in combinations(range(K), 2)]
    owners = np.repeat(np.arange(n), [len(own) for own in samples])
    weights = np.sqrt(alpha * np.concatenate(samples))
    edges += [(int(i), n + K + s, float(mu)) for s, (i, mu) in enumerate(zip(owners, weights, strict=True))]
    A = np.zeros((n + K + len(owners), len(edges)))
    for e, (u, v, mu) in enumerate(edges):
        A[u, e], A[v, e] = mu, -mu
    return A


def effective_resistances(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """R_e = (A^+ A)_ee of each edge; they sum to the number of vertices minus one.

    Examples
    --------
    >>> effective_resistances(incidence(3, 2)).round(12).tolist() == [round((3 + 2 - 1) / (3 * 2), 12)] * 6
    True
    """
    return np.asarray(np.diag(np.linalg.pinv(A) @ A))


def smallest_eigenvalue(A: NDArray[np.float64]) -> float:
    """Smallest non-zero eigenvalue of the Laplacian A A^T of a connected graph; K for nodes and tokens, 2
    <= n >= K.

    Examples
    --------
    >>> round(smallest_eigenvalue(incidence(5, 3)), 12)
    3.0
    """
    return float(np.linalg.eigvalsh(A @ A.T)[1])


def strong_convexity(n: int, K: int, L: Samples, sigma_t: float, alpha: float, token_edges: bool = False) -> float:
    """Relative strong convexity sigma_A ("Relative Strong Convexity"): the largest mu with f - mu h convex.

    f is the dual objective q_A + sum_ij f*_ij(mu_ij y_ij), q_A(x) = |A x|^2 / (2 sigma_t) over nodes and
    tokens, and h = |x|^2_{A^+ A} / 2 + sum_ij f*_ij(mu_ij y_ij) / alpha its reference. The
    conjugates' share in f - mu h is (1 - mu/alpha) f*_ij: mu must not exceed alpha, and then the curvature
    in y_ij is at least (1 - mu/alpha) mu_ij^2 / L_ij = alpha - mu. With Sigma = sigma_t at nodes and tokens
    and L_ij at samples, the condition is therefore A^T Sigma^-1 A >= mu A^+ A: mu is the smallest non-zero
    eigenvalue of A^T Sigma^-1 A, that is of Sigma^-1/2 A A^T Sigma^-1/2 (below alpha whenever n >= 2).

    Examples
    --------
    With kappa = 1 + 8/2 and alpha = 2 K / (sigma_t kappa), two nodes of equal samples give r alpha, where r
    is the smaller root of 2 r^2 - 3 kappa r + kappa:

    >>> alpha = 2 * 1 / (2.0 * 5)
    >>> r = min(np.roots([2, -15, 5]))
    >>> bool(np.isclose(strong_convexity(2, 1, [[8.0], [8.0]], 2.0, alpha), r * alpha))
    True
    """
    A = incidence(n, K, L, alpha, token_edges)
    Sigma = np.concatenate([np.full(n + K, sigma_t), *_samples(n, L)])
    scaled = A / np.sqrt(Sigma)[:, None]
    # The null space is known (Sigma^1/2 times constants); leaving it out keeps a tiny mu apart from rounding.
    basis = null_space(np.sqrt(Sigma)[None])
    return float(min(alpha, np.linalg.eigvalsh(basis.T @ (scaled @ scaled.T) @ basis)[0]))


def _samples(n: int, L: Samples | None) -> list[NDArray[np.float64]]:
    if L is None:
        return [np.empty(0) for _ in range(n)]
    if len(L) != n:
        raise ValueError(f"L has the samples of {len(L)} nodes but n={n}; give one array per node")
    return [np.asarray(own, dtype=np.float64) for own in L]
