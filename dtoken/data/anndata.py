"""anndata's zarr stores as sources: sparse (CSR) or dense matrices, read in slices."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import reason
from dtoken.data.matrices import (
    INTEGERS,
    NUMBERS,
    SLICE_ENTRIES,
    Advance,
    Csr,
    Take,
    canonical,
    check_count,
    check_lengths,
    check_numbers,
    matrix_shape,
    reading,
    slices,
)
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError


@dataclass(frozen=True)
class AnnData:
    """A sparse (CSR) or dense matrix in anndata's zarr encoding.

    Parameters
    ----------
    path
        The zarr store.
    x
        Where in it the matrix is.
    y
        Where in it the labels are, e.g. ``obs/label``; a categorical column counts by its codes.
    """

    path: Path
    x: str = "X"
    y: str = "y"
    index_base: ClassVar[int] = 0
    kind: ClassVar[str] = "anndata"

    @property
    def name(self) -> str:
        """The store's name, as messages show it."""
        return self.path.resolve().name

    @property
    def features(self) -> int:
        """Number of columns."""
        with reading(self.path):
            return self._matrix().shape[1]

    def identity(self) -> dict[str, object]:
        """The store as it is now, by the size and the newest of its files."""
        with reading(self.path):
            self._element(self.x)
            files = [file.stat() for file in self.path.rglob("*") if file.is_file()]
        return {
            "kind": self.kind,
            "x": self.x,
            "y": self.y,
            "path": str(self.path.resolve()),
            "size": sum(file.st_size for file in files),
            "mtime_ns": max(file.st_mtime_ns for file in files),
        }

    def blocks(self, advance: Advance = None) -> Iterator[RowBlock]:
        """Yield the rows in order; ``advance`` is told the fraction done."""
        with reading(self.path):
            (rows, columns), arrays = self._matrix()
            labels, count = self._labels()
            check_count(count, rows, self.path / self.y)
            if len(arrays) == 1:
                yield from _dense_slices(self.path, arrays[0], labels, advance)
                return
            check_lengths(self.path, rows, *(int(array.size) for array in arrays))
            indptr, indices = (_take_zarr(array, self.path, INTEGERS) for array in arrays[:2])
            data = _take_zarr(arrays[2], self.path)
            yield from slices(Csr(self.path, rows, columns, indptr, indices, data, labels), advance)

    def _matrix(self) -> "_Matrix":
        """The shape of the matrix and its arrays: indptr, indices and data, or one dense array."""
        element = self._element(self.x)
        encoding = element.attrs.get("encoding-type")
        if hasattr(element, "dtype") and len(element.shape) == 2:
            return _Matrix(matrix_shape(element.shape, self.path), (element,))
        if encoding != "csr_matrix":
            raise InputError(
                f"{self.path}/{self.x} is no matrix that dtoken reads (encoding {encoding}); "
                "use a csr_matrix or a dense array"
            )
        arrays = tuple(element[name] for name in ("indptr", "indices", "data"))
        return _Matrix(matrix_shape(element.attrs["shape"], self.path), arrays)

    def _labels(self) -> tuple[Take, int]:
        element = self._element(self.y)
        where = self.path / self.y
        encoding = element.attrs.get("encoding-type")
        codes = element["codes"] if encoding == "categorical" else element
        if not hasattr(codes, "dtype"):
            raise InputError(f"{where} holds no labels that dtoken reads (encoding {encoding})")
        take = _take_zarr(codes, where)

        def take_codes(count: int) -> NDArray[Any]:
            taken = take(count)
            if np.any(taken < 0):  # how anndata encodes a missing category
                raise InputError(f"{where} has rows without a label; leave them out")
            return taken

        return (take_codes if encoding == "categorical" else take), int(codes.shape[0])

    def _element(self, name: str) -> Any:
        import zarr

        try:
            return zarr.open_group(self.path, mode="r")[name]
        except KeyError:
            raise InputError(f"{self.path} has no {name}; say where it is with x=... and y=...") from None
        except (FileNotFoundError, ValueError):
            raise InputError(f"{self.path} is not a zarr group") from None
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {reason(error)}") from None


class _Matrix(NamedTuple):
    shape: tuple[int, int]
    arrays: tuple[Any, ...]


def _take_zarr(array: Any, where: Path, kinds: str = NUMBERS) -> Take:
    check_numbers(array.dtype, where, kinds)
    if missing := array.nchunks - array.nchunks_initialized:
        raise InputError(
            f"{where} lacks {missing} of {array.nchunks} chunks of {array.path}: lost, or left out as they are zero, "
            "which is not to be told apart; write it with zarr's setting array.write_empty_chunks=True"
        )
    position = 0

    def take(count: int) -> NDArray[Any]:
        nonlocal position
        position += count
        try:
            return np.asarray(array[position - count : position])
        except (OSError, ValueError, RuntimeError) as error:  # what codecs raise
            raise InputError(f"{where} is damaged ({error})") from None

    return take


def _dense_slices(where: Path, matrix: Any, labels: Take, advance: Advance) -> Iterator[RowBlock]:
    from scipy.sparse import csr_array

    rows, columns = matrix.shape
    step = max(1, SLICE_ENTRIES // max(1, columns))
    take = _take_zarr(matrix, where)
    for first in range(0, rows, step):
        part = csr_array(take(min(step, rows - first)))
        y = labels(part.shape[0])
        yield canonical(part.data, part.indices, part.indptr.astype(np.int64), y, columns, where, first)
        if advance is not None:
            advance((first + part.shape[0]) / rows)
