"""What the rows of a store must keep, whoever wrote it: compiled code has no bounds but these.

Each function returns a fault, beginning with the array, or None. The first three are checked at every read.
"""

import numpy as np
from numpy.typing import NDArray

from dtoken.data.rows import RowBlock


def starts_fault(ends: NDArray[np.int64], first: int, entries: int, *, whole: bool) -> str | None:
    """Rule 4: rows begin at ``first``, do not go back and lie within ``entries``; ``whole``: they end there."""
    if ends[0] != first:
        return f"X/indptr begins with {ends[0]} instead of {first}"
    if np.any(ends[1:] < ends[:-1]):
        return "X/indptr decreases"
    if ends[-1] > entries or (whole and ends[-1] != entries):
        return f"X/indptr ends with {ends[-1]}, but there are {entries} entries"
    return None


def nodes_fault(found: NDArray[np.int64], listed: NDArray[np.int64], first: int) -> str | None:
    """Rule 16: nodes, from ``first`` on, begin at the entries that the list of their sizes says."""
    wrong = np.flatnonzero(found != listed)
    if not len(wrong):
        return None
    at = wrong[0]
    return f"X/indptr has node {first + at} begin at entry {found[at]}, but node_nonzeros says {listed[at]}"


def rows_fault(block: RowBlock, d: int, classes: bool) -> str | None:
    """Rules 5 and 7, and of rule 6 the labels: what a step could not survive."""
    if len(block.indices) and int(block.indices.view(np.uint32).max()) >= d:  # as unsigned, -1 is large
        return f"X/indices leaves the range 0..{d - 1}"
    if classes and not np.all(np.abs(block.y) == 1.0):
        return "y holds a label other than -1 and +1"
    if not np.isfinite(block.y).all():
        return "y holds a label that is not finite"
    return None


def order_fault(block: RowBlock) -> str | None:
    """The rest of rule 5: indices increase inside each row."""
    back = np.flatnonzero(np.diff(block.indices) <= 0) + 1
    return None if np.isin(back, block.indptr).all() else "X/indices does not increase inside a row"


def values_fault(block: RowBlock) -> str | None:
    """The rest of rule 6."""
    return None if np.isfinite(block.data).all() else "X/data holds a value that is not finite"
