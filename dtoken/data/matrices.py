"""CSR matrices that other tools wrote, read in slices: what the sources have in common that hold one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import reason
from dtoken.data.meta import MOST_FEATURES
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError, RunError

SLICE_ENTRIES = 1 << 19
SLICE_ROWS = 1 << 17
NUMBERS, INTEGERS = "biuf", "iu"  # kinds of numpy's types

Take = Callable[[int], NDArray[Any]]  # the next so many elements of an array
Advance = Callable[[float], None] | None


class Csr(NamedTuple):
    """A CSR matrix and its labels, to be taken in slices."""

    where: Path
    rows: int
    columns: int
    indptr: Take
    indices: Take
    data: Take
    labels: Take


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """One sentence about the source for whatever its file makes readers raise; they raise many kinds."""
    try:
        yield
    except (InputError, RunError):
        raise
    except OSError as error:
        raise RunError(f"{path} cannot be read: {reason(error)}") from error
    except Exception as error:
        raise InputError(f"{path} is damaged, or not what dtoken reads ({type(error).__name__}: {error})") from error


def matrix_shape(shape: Any, where: Path) -> tuple[int, int]:
    """Rows and columns, if there can be so many."""
    rows, columns = (int(size) for size in shape)
    if rows < 0 or not 0 < columns <= MOST_FEATURES:
        raise InputError(f"{where} has {rows} rows and {columns} columns; dtoken reads 1 to {MOST_FEATURES} columns")
    return rows, columns


def check_lengths(where: Path, rows: int, starts: int, places: int, values: int) -> None:
    """Refuse arrays of CSR whose lengths do not fit together."""
    if starts != rows + 1 or places != values:
        raise InputError(
            f"{where}: its arrays do not fit together (shape says {rows} rows; indptr has {starts} elements, "
            f"indices {places}, data {values}); it is no valid CSR matrix"
        )


def check_count(count: int, rows: int, where: Path) -> None:
    """Refuse more or fewer labels than rows."""
    if count != rows:
        raise InputError(f"{where} has {count} labels for {rows} rows")


def check_numbers(dtype: Any, where: Path, kinds: str) -> None:
    """Refuse elements that are not of these kinds."""
    if dtype.kind not in kinds:
        wanted = {NUMBERS: "numbers", INTEGERS: "integers"}.get(kinds, "text")
        raise InputError(f"{where} holds {dtype} instead of {wanted}")


def slices(matrix: Csr, advance: Advance) -> Iterator[RowBlock]:
    """Cut CSR arrays into blocks of whole rows, in canonical order (sorted, no duplicates)."""
    last = matrix.indptr(1).astype(np.int64)
    if last[0] != 0:
        raise InputError(f"{matrix.where}: its row starts (indptr) do not begin with 0")
    for first in range(0, matrix.rows, SLICE_ROWS):
        count = min(SLICE_ROWS, matrix.rows - first)
        ends = np.concatenate([last, matrix.indptr(count).astype(np.int64)])
        last = ends[-1:]
        if np.any(np.diff(ends) < 0):
            raise InputError(f"{matrix.where}: its row starts (indptr) decrease; it is no valid CSR matrix")
        start = 0
        while start < count:
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] + SLICE_ENTRIES, side="right")) - 1)
            entries = int(ends[stop] - ends[start])
            arrays = matrix.data(entries), matrix.indices(entries), ends[start : stop + 1] - ends[start]
            y = matrix.labels(stop - start)
            yield canonical(*arrays, y, matrix.columns, matrix.where, first + start)
            start = stop
        if advance is not None:
            advance((first + count) / matrix.rows)


def canonical(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[np.int64],
    y: NDArray[Any],
    columns: int,
    where: Path | str,
    first_row: int,
) -> RowBlock:
    """Check the entries of some rows and put them in order."""
    from scipy.sparse import csr_array

    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise InputError(f"{where}: a column lies outside 0..{columns - 1}; it is no valid CSR matrix")
    values, labels = data.astype(np.float64), y.astype(np.float64)
    bad_values, bad_labels = np.flatnonzero(~np.isfinite(values)), np.flatnonzero(~np.isfinite(labels))
    if len(bad_values):
        row = first_row + int(np.searchsorted(indptr, bad_values[0], side="right")) - 1
        raise InputError(f"{where}: a value of row {row} is not a finite number")
    if len(bad_labels):
        raise InputError(f"{where}: the label of row {first_row + int(bad_labels[0])} is not a finite number")
    matrix = csr_array((values, indices.astype(np.int32), indptr), shape=(len(y), columns))
    matrix.sum_duplicates()
    if len(matrix.data) < len(values) and not np.isfinite(matrix.data).all():
        raise InputError(f"{where}: values of the same place in rows from {first_row} on add up to infinity")
    return RowBlock(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), labels)
