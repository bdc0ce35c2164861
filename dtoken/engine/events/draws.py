"""What the nodes draw their samples from."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dtoken.algorithms.contract import Arrays, Method, Vector
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.samples import Samples, no_samples, uniform_samples, weighted_samples


def hosted_samples(method: Method, c: Arrays, rows: HostedRows) -> Samples:
    """What the hosted nodes draw from: never an empty row, nor a block of such."""
    norms = [rows.q[first : last : rows.block] for first, last in pairwise(rows.first)]
    return drawn_samples(method, c, norms, rows.c * rows.w)


def drawn_samples(method: Method, c: Arrays, norms: Sequence[Vector], scale: Vector) -> Samples:
    """The same from the numbers q_ij of each node's samples, L_ij = scale_i q_ij."""
    if not method.draws_samples:
        return no_samples(len(norms))
    counted, weights = [], []
    for q, factor in zip(norms, scale, strict=True):
        used = np.flatnonzero(q > 0)
        counted.append((used * method.blocks.rows).astype(np.int32))  # the number of the sample's first row
        weights.append(_checked(method, method.weights(c, factor * q[used]), len(used)))
    drawn = [w for w in weights if w is not None]
    if drawn and getattr(method, "sampling", "") == "permuted":
        raise InputError(
            f"algorithm.sampling=permuted uses every row once an epoch, but {method.name} has importance weights; use "
            "sampling=importance, or no weights, which loses nothing where rows have equal norms"
        )
    return weighted_samples(counted, drawn) if drawn else uniform_samples(counted)


def _checked(method: Method, weights: Vector | None, samples: int) -> Vector | None:
    if weights is None or (np.shape(weights) == (samples,) and np.isfinite(weights).all() and (weights > 0).all()):
        return weights
    raise InputError(
        f"{type(method).__name__}.weights must give each of a node's {samples} samples a positive number, or be None"
    )
