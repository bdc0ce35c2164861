"""The compiled jump of a token: one uniform number, one next node; and the table that it searches."""

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


@compiled
def sums_of_rows(indptr: NDArray[np.integer[Any]], data: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums inside each row of probabilities, none of them empty; the last is exactly one."""
    sums = np.empty(len(data))
    for row in range(len(indptr) - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += data[entry]
            sums[entry] = min(total, 1.0)
        sums[indptr[row + 1] - 1] = 1.0
    return sums
