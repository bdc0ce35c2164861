"""Rows of a sparse matrix with their labels: what sources yield, stores keep and problems read."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled


class RowBlock(NamedTuple):
    """Consecutive rows in CSR form. The arrays may be read-only."""

    data: NDArray[np.float64]  # (nnz,) values
    indices: NDArray[np.int32]  # (nnz,) feature of each value, increasing inside a row
    indptr: NDArray[np.int64]  # (rows + 1,) row r is data[indptr[r]:indptr[r + 1]]; starts at 0
    y: NDArray[np.float64]  # (rows,) label of each row

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes + self.y.nbytes


class Source(Protocol):
    """Where rows come from."""

    @property
    def name(self) -> str:
        """Short name for messages and file names."""

    @property
    def index_base(self) -> int | None:
        """Number of the first feature in the blocks; None: 0 if index 0 occurs, else 1."""

    @property
    def features(self) -> int | None:
        """Number of features; None: as the largest index says."""

    def identity(self) -> dict[str, object]:
        """What makes this dataset this dataset, as JSON values; part of the cache key."""

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Stream the rows in blocks of bounded size; ``advance`` is told the fraction done."""


def cut(block: RowBlock, start: int, stop: int) -> RowBlock:
    """The rows from ``start`` to before ``stop``; values, indices and labels are views."""
    first, last = block.indptr[start], block.indptr[stop]
    indptr = block.indptr[start : stop + 1] - first
    return RowBlock(block.data[first:last], block.indices[first:last], indptr, block.y[start:stop])


def concatenate(blocks: Sequence[RowBlock]) -> RowBlock:
    """Put blocks one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0] + [int(block.indptr[-1]) for block in blocks])
    return RowBlock(
        np.concatenate([block.data for block in blocks]),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate(
            [blocks[0].indptr[:1]]
            + [block.indptr[1:] + start for block, start in zip(blocks, starts[:-1], strict=True)]
        ),
        np.concatenate([block.y for block in blocks]),
    )


def select(block: RowBlock, rows: NDArray[np.intp]) -> RowBlock:
    """The rows with the given numbers, in the given order."""
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.diff(block.indptr)[rows], out=indptr[1:])
    data, indices = np.empty(indptr[-1], np.float64), np.empty(indptr[-1], np.int32)
    _copy_rows(block.data, block.indices, block.indptr[rows], indptr, data, indices)
    return RowBlock(data, indices, indptr, block.y[rows])


@compiled
def _copy_rows(
    data: NDArray[np.float64],
    indices: NDArray[np.int32],
    starts: NDArray[np.int64],
    indptr: NDArray[np.int64],
    out_data: NDArray[np.float64],
    out_indices: NDArray[np.int32],
) -> None:
    for row in range(len(starts)):
        shift = starts[row] - indptr[row]
        for entry in range(indptr[row], indptr[row + 1]):
            out_data[entry] = data[entry + shift]
            out_indices[entry] = indices[entry + shift]
