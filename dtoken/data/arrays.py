"""A user's own arrays as a source: numpy, scipy.sparse, pandas and dask, known by their content.

Rows are taken in the order in which they stand: labels belong to rows by their place, not by an index of pandas.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dtoken.data.matrices import SLICE_ENTRIES, canonical
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError

NUMBERS = "biuf"  # kinds of dtypes that are numbers
NUMBERED = "; numpy.unique(y, return_inverse=True)[1] numbers them"


@dataclass(frozen=True, eq=False)
class Arrays:
    """A matrix and its labels, in memory or as dask arrays.

    The same rows are the same dataset, whichever kind of array holds them: stores are found by a hash of the content.

    Parameters
    ----------
    X
        (rows, features) numpy, scipy.sparse, pandas or dask. Dask computes one chunk of rows at a time.
    y
        (rows,) labels, or the name of the column of a data frame ``X`` that holds them.

    Examples
    --------
    >>> own = Arrays([[0.5, 0.0], [1.5, 2.0]], [-1, 1])
    >>> own.rows, own.features
    (2, 2)
    >>> from scipy.sparse import coo_array
    >>> Arrays(coo_array(own.X), own.y).identity() == own.identity()
    True
    """

    X: Any
    y: Any
    index_base: ClassVar[int] = 0
    kind: ClassVar[str] = "arrays"
    name: ClassVar[str] = "arrays"

    def __post_init__(self) -> None:
        X, y = self.X, self.y
        if isinstance(y, str):
            X, y = _without_labels(X, y)
        X, y = _matrix(X), _labels(y)
        if X.shape[0] != len(y):
            raise InputError(f"data has {X.shape[0]} rows but {len(y)} labels; X and y belong together row by row")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """The arrays that a user gave as ``(X, y)``, as scikit-learn's bunch or by the keys X and y; None: no such."""
        if isinstance(value, Mapping):
            for names in (("data", "target"), ("X", "y")):
                if all(name in value for name in names):
                    return cls(*(value[name] for name in names))
        if isinstance(value, tuple | list):
            if len(value) != 2:
                raise InputError(f"data has {len(value)} parts; give (X, y)")
            return cls(*value)
        return None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def identity(self) -> dict[str, object]:
        """The content, by its hash."""
        return {"kind": self.kind, "rows": self.rows, "features": self.features, "digest": self._digest}

    @cached_property
    def _digest(self) -> str:
        states = [hashlib.sha256() for _ in range(4)]  # one each: where blocks end must not matter
        for block in self.blocks():
            parts = (block.data, block.indices, np.diff(block.indptr), block.y)
            for state, part in zip(states, parts, strict=True):
                state.update(np.ascontiguousarray(part).data)
        return hashlib.sha256(b"".join(state.digest() for state in states)).hexdigest()

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Yield the rows in order; ``advance`` is told the fraction done."""
        from scipy.sparse import csr_array

        for first, part in _parts(self.X):
            matrix = csr_array(part)
            starts = matrix.indptr.astype(np.int64)
            labels = self.y[first : first + matrix.shape[0]]
            yield canonical(matrix.data, matrix.indices, starts, labels, self.features, "data", first)
            if advance is not None:
                advance((first + matrix.shape[0]) / self.rows)


def _parts(X: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a matrix in parts that can be worked on, each with the number of its first row."""
    step, first = max(1, SLICE_ENTRIES // X.shape[1]), 0
    for size in X.chunks[0] if _is_dask(X) else (X.shape[0],):
        chunk = X[first : first + size]
        chunk = chunk.compute() if _is_dask(X) else chunk
        for start in range(0, size, step):
            yield first + start, chunk[start : start + step]
        first += size


def _is_dask(value: Any) -> bool:
    return hasattr(value, "dask") and hasattr(value, "chunks")


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def _without_labels(X: Any, column: str) -> tuple[Any, Any]:
    if hasattr(X, "to_dask_array"):
        raise InputError(
            f"y={column!r} names a column of a dask data frame; give arrays: frame.drop(columns={column!r})"
            f".to_dask_array(lengths=True), and frame[{column!r}] in the same way"
        )
    if not _is_frame(X):
        raise InputError(f"y={column!r} names a column, but X is no data frame; give the labels themselves")
    if column not in X.columns:
        raise InputError(f"y={column!r} is no column of X; it has {', '.join(map(str, X.columns[:8]))}")
    return X.drop(columns=[column]), X[column]


def _matrix(X: Any) -> Any:
    if _is_frame(X):
        X = _numbers_of(X)
    elif hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not _is_dask(X):
        X = _as_array(X, "X")
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise InputError(
            f"X has the shape {shape}; give a matrix with a row for each sample and a column for each feature"
        )
    if any(size != size for size in shape):
        raise InputError("X is a dask array of unknown size; call X.compute_chunk_sizes() first")
    if 0 in shape:
        raise InputError(f"X has the shape {shape}; there must be at least one row and one column")
    _check_numbers(X.dtype, "X")
    return X


def _numbers_of(frame: Any) -> Any:
    for column, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if dtype.kind not in NUMBERS:
            raise InputError(f"column {column!r} of X holds {dtype} instead of numbers; encode it, or leave it out")
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _labels(y: Any) -> NDArray[np.float64]:
    if _is_dask(y):
        y = y.compute()
    y = _as_array(y, "y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"y has the shape {y.shape}; give one label for each row")
    _check_numbers(y.dtype, "y", NUMBERED)
    labels: NDArray[np.float64] = y.astype(np.float64)
    return labels


def _as_array(values: Any, name: str) -> Any:
    try:
        found = np.asarray(values)
        return found.astype(np.float64) if found.dtype == object else found
    except (TypeError, ValueError):
        raise InputError(f"{name} cannot be read as an array of numbers{NUMBERED if name == 'y' else ''}") from None


def _check_numbers(dtype: Any, name: str, remedy: str = "") -> None:
    if np.dtype(dtype).kind not in NUMBERS:
        raise InputError(f"{name} holds {dtype} instead of numbers{remedy}")
