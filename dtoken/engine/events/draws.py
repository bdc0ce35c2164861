"""What the nodes draw their samples from."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Vector
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.samples import Samples, no_samples, uniform_samples, weighted_samples


class _Norms(NamedTuple):
    """The numbers q_ij: those of node i stand in ``q`` from ``begin[i]`` on, each ``step`` after the one before."""

    q: Vector
    begin: NDArray[np.int64]  # (nodes,)
    step: int
    counts: NDArray[np.int64]  # (nodes,)


def hosted_samples(method: Method, c: Arrays, rows: HostedRows) -> Samples:
    """What the hosted nodes draw from: never an empty row, nor a block of such."""
    counts = method.blocks.counts(np.diff(rows.first))
    return _drawn(method, c, _Norms(rows.q, rows.first[:-1], rows.block, counts), rows.c * rows.w)


def drawn_samples(method: Method, c: Arrays, q: Vector, rows: NDArray[np.int64], scale: Vector) -> Samples:
    """The same from the q_ij of all samples, node after node, and the rows of each node; L_ij = scale_i q_ij."""
    counts = method.blocks.counts(rows)
    return _drawn(method, c, _Norms(q, np.cumsum(counts) - counts, 1, counts), scale)


def _drawn(method: Method, c: Arrays, norms: _Norms, scale: Vector) -> Samples:
    if not method.draws_samples:
        return no_samples(len(scale))
    first = np.zeros(len(scale) + 1, np.int64)
    _count(norms, first[1:])
    np.cumsum(first, out=first)
    kept, L = np.empty(first[-1], np.int32), np.empty(first[-1])
    _collect(norms, method.blocks.rows, scale, kept, L)
    weights = _checked(method, method.weights(c, L), len(L))
    if weights is None:
        return uniform_samples(first, kept)
    if getattr(method, "sampling", "") == "permuted":
        raise InputError(
            f"algorithm.sampling=permuted uses every row once an epoch, but {method.name} has importance weights; use "
            "sampling=importance, or no weights, which loses nothing where rows have equal norms"
        )
    return weighted_samples(first, kept, weights)


@compiled
def _count(norms: Any, out: NDArray[np.int64]) -> None:
    """Write how many samples of each node count."""
    for i in range(len(norms.counts)):
        for j in range(norms.counts[i]):
            out[i] += norms.q[norms.begin[i] + j * norms.step] > 0


@compiled
def _collect(norms: Any, block: int, scale: Vector, kept: NDArray[np.int32], L: Vector) -> None:
    """Write their first rows, and their L_ij."""
    place = 0
    for i in range(len(norms.counts)):
        for j in range(norms.counts[i]):
            q = norms.q[norms.begin[i] + j * norms.step]
            if q > 0:
                kept[place], L[place] = j * block, scale[i] * q
                place += 1


def _checked(method: Method, weights: Vector | None, samples: int) -> Vector | None:
    if weights is None or (np.shape(weights) == (samples,) and np.isfinite(weights).all() and (weights > 0).all()):
        return weights
    raise InputError(
        f"{type(method).__name__}.weights must give each of {samples} samples a positive number, or be None"
    )
