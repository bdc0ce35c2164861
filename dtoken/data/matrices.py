"""Matrices that other tools wrote, as sources: scipy's sparse ``.npz`` files and anndata's zarr stores.

Both are read in slices; a compressed ``.npz`` is decompressed on the way, all its members side by side.
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import existing_file, file_identity, reason
from dtoken.data.meta import MOST_FEATURES
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError, RunError

SLICE_ENTRIES = 1 << 19
SLICE_ROWS = 1 << 17
NUMBERS, INTEGERS = "biuf", "iu"  # kinds of numpy's types

Take = Callable[[int], NDArray[Any]]  # the next so many elements of an array
Advance = Callable[[float], None] | None


class _Csr(NamedTuple):
    """A CSR matrix and its labels, to be taken in slices."""

    where: Path
    rows: int
    columns: int
    indptr: Take
    indices: Take
    data: Take
    labels: Take


@dataclass(frozen=True)
class Npz:
    """A matrix from ``scipy.sparse.save_npz`` (CSR) with its labels.

    Parameters
    ----------
    path
        The ``.npz`` file.
    y
        A ``.npy`` file with one label per row; None takes the member ``y`` of the ``.npz`` file.
    """

    path: Path
    y: Path | None = None
    index_base: ClassVar[int] = 0
    kind: ClassVar[str] = "npz"

    @property
    def name(self) -> str:
        """The file's name, as messages show it."""
        return self.path.name

    @property
    def features(self) -> int:
        """Number of columns."""
        with _reading(self.path), _archive(self.path) as archive:
            return _npz_shape(archive, self.path)[1]

    def identity(self) -> dict[str, object]:
        """The files as they are now."""
        labels = {"y": file_identity(self.y)} if self.y else {}
        return {"kind": self.kind} | labels | file_identity(self.path)

    def blocks(self, advance: Advance = None) -> Iterator[RowBlock]:
        """Yield the rows in order; ``advance`` is told the fraction done."""
        with _reading(self.path), ExitStack() as stack:
            archive = stack.enter_context(_archive(self.path))
            rows, columns = _npz_shape(archive, self.path)
            indptr, starts = _member(stack, archive, "indptr", self.path, INTEGERS)
            indices, places = _member(stack, archive, "indices", self.path, INTEGERS)
            data, values = _member(stack, archive, "data", self.path)
            _check_lengths(self.path, rows, starts, places, values)
            if self.y is None:
                labels, count = _member(stack, archive, "y", self.path)
            else:
                labels, count = _npy(stack.enter_context(open(existing_file(self.y), "rb")), self.y)
            _check_count(count, rows, self.y or self.path)
            yield from _slices(_Csr(self.path, rows, columns, indptr, indices, data, labels), advance)


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
        with _reading(self.path):
            return self._matrix().shape[1]

    def identity(self) -> dict[str, object]:
        """The store as it is now, by the size and the newest of its files."""
        with _reading(self.path):
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
        with _reading(self.path):
            (rows, columns), arrays = self._matrix()
            labels, count = self._labels()
            _check_count(count, rows, self.path / self.y)
            if len(arrays) == 1:
                yield from _dense_slices(self.path, arrays[0], labels, advance)
                return
            _check_lengths(self.path, rows, *(int(array.size) for array in arrays))
            indptr, indices = (_take_zarr(array, self.path, INTEGERS) for array in arrays[:2])
            data = _take_zarr(arrays[2], self.path)
            yield from _slices(_Csr(self.path, rows, columns, indptr, indices, data, labels), advance)

    def _matrix(self) -> "_Matrix":
        """The shape of the matrix and its arrays: indptr, indices and data, or one dense array."""
        element = self._element(self.x)
        encoding = element.attrs.get("encoding-type")
        if hasattr(element, "dtype") and len(element.shape) == 2:
            return _Matrix(_shape(element.shape, self.path), (element,))
        if encoding != "csr_matrix":
            raise InputError(
                f"{self.path}/{self.x} is no matrix that dtoken reads (encoding {encoding}); "
                "use a csr_matrix or a dense array"
            )
        arrays = tuple(element[name] for name in ("indptr", "indices", "data"))
        return _Matrix(_shape(element.attrs["shape"], self.path), arrays)

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


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """One sentence about the source for whatever its file makes readers raise; they raise many kinds."""
    try:
        yield
    except (InputError, RunError):
        raise
    except OSError as error:
        raise RunError(f"{path} cannot be read: {reason(error)}") from error
    except Exception as error:
        raise InputError(f"{path} is damaged, or not what dtoken reads ({type(error).__name__}: {error})") from error


def _shape(shape: Any, where: Path) -> tuple[int, int]:
    rows, columns = (int(size) for size in shape)
    if rows < 0 or not 0 < columns <= MOST_FEATURES:
        raise InputError(f"{where} has {rows} rows and {columns} columns; dtoken reads 1 to {MOST_FEATURES} columns")
    return rows, columns


def _check_lengths(where: Path, rows: int, starts: int, places: int, values: int) -> None:
    if starts != rows + 1 or places != values:
        raise InputError(
            f"{where}: its arrays do not fit together (shape says {rows} rows; indptr has {starts} elements, "
            f"indices {places}, data {values}); it is no valid CSR matrix"
        )


def _check_count(count: int, rows: int, where: Path) -> None:
    if count != rows:
        raise InputError(f"{where} has {count} labels for {rows} rows")


def _slices(matrix: _Csr, advance: Advance) -> Iterator[RowBlock]:
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


def _take_zarr(array: Any, where: Path, kinds: str = NUMBERS) -> Take:
    _check_numbers(array.dtype, where, kinds)
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


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(existing_file(path))
    except zipfile.BadZipFile:
        raise InputError(f"{path} is not an .npz file, or it was cut short") from None


def _npz_shape(archive: zipfile.ZipFile, path: Path) -> tuple[int, int]:
    with ExitStack() as stack:
        kind = _member(stack, archive, "format", path, kinds="SU")[0](1)[0]
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        if kind != "csr":
            raise InputError(f"{path} holds a {kind} matrix, and dtoken reads csr; save X.tocsr()")
        sizes, count = _member(stack, archive, "shape", path, INTEGERS)
        return _shape(sizes(count).tolist(), path)


def _member(
    stack: ExitStack, archive: zipfile.ZipFile, name: str, path: Path, kinds: str = NUMBERS
) -> tuple[Take, int]:
    try:
        file = archive.open(f"{name}.npy")
    except KeyError:
        remedy = "give the labels with y=FILE.npy" if name == "y" else "write it with scipy.sparse.save_npz"
        raise InputError(f"{path} has no member {name}; {remedy}") from None
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is damaged ({error})") from None
    return _npy(stack.enter_context(file), path, kinds)


def _npy(file: IO[bytes], path: Path, kinds: str = NUMBERS) -> tuple[Take, int]:
    """A reader of the elements of an ``.npy`` stream, and their number."""

    def read(count: int) -> bytes:
        try:
            content = file.read(count)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InputError(f"{path} is damaged ({error})") from None
        except OSError as error:
            raise RunError(f"{path} cannot be read: {reason(error)}") from None
        if len(content) < count:
            raise InputError(f"{path} ends early; it was cut short")
        return content

    try:
        version = np.lib.format.read_magic(file)
        headers = np.lib.format
        read_header = headers.read_array_header_1_0 if version == (1, 0) else headers.read_array_header_2_0
        shape, _, dtype = read_header(file)
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError):
        raise InputError(f"{path} holds no .npy data, or it is damaged") from None
    _check_numbers(dtype, path, kinds)
    return lambda count: np.frombuffer(read(count * dtype.itemsize), dtype), int(np.prod(shape))


def _check_numbers(dtype: Any, where: Path, kinds: str) -> None:
    if dtype.kind not in kinds:
        wanted = {NUMBERS: "numbers", INTEGERS: "integers"}.get(kinds, "text")
        raise InputError(f"{where} holds {dtype} instead of {wanted}")
