"""The compiled jump of a token: one uniform number, one next node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled


@compiled
def step(
    indptr: NDArray[np.int64],
    neighbours: NDArray[np.int32],
    cumulative: NDArray[np.float64],
    position: int,
    table: int,
    u: float,
) -> Any:
    """Return the node to which a token at ``position`` jumps, by inversion of ``u`` in [0, 1).

    The first three arguments are those of a ``Walk``; ``table`` is ``walk.table(jump)``. An empty row
    stands for the uniform law over all nodes (the complete graph, whose table is never written out).

    Examples
    --------
    >>> from dtoken.graph import build, step, walk
    >>> w = walk(build("path", 3))
    >>> step(w.indptr, w.neighbours, w.cumulative, 1, 0, 0.7)
    2
    """
    low = indptr[table, position]
    high = indptr[table, position + 1] - 1
    if high < low:
        return np.int64(u * (indptr.shape[1] - 1))
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return np.int64(neighbours[low])
