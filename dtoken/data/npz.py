"""scipy's sparse ``.npz`` files as sources: decompressed on the way, all their members side by side."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

import numpy as np

from dtoken.data.files import existing_file, file_identity, reason
from dtoken.data.matrices import (
    INTEGERS,
    NUMBERS,
    Advance,
    Csr,
    Take,
    check_count,
    check_lengths,
    check_numbers,
    matrix_shape,
    reading,
    slices,
)
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError, RunError


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
        with reading(self.path), _archive(self.path) as archive:
            return _npz_shape(archive, self.path)[1]

    def identity(self) -> dict[str, object]:
        """The files as they are now."""
        labels = {"y": file_identity(self.y)} if self.y else {}
        return {"kind": self.kind} | labels | file_identity(self.path)

    def blocks(self, advance: Advance = None) -> Iterator[RowBlock]:
        """Yield the rows in order; ``advance`` is told the fraction done."""
        with reading(self.path), ExitStack() as stack:
            archive = stack.enter_context(_archive(self.path))
            rows, columns = _npz_shape(archive, self.path)
            indptr, starts = _member(stack, archive, "indptr", self.path, INTEGERS)
            indices, places = _member(stack, archive, "indices", self.path, INTEGERS)
            data, values = _member(stack, archive, "data", self.path)
            check_lengths(self.path, rows, starts, places, values)
            if self.y is None:
                labels, count = _member(stack, archive, "y", self.path)
            else:
                labels, count = _npy(stack.enter_context(open(existing_file(self.y), "rb")), self.y)
            check_count(count, rows, self.y or self.path)
            yield from slices(Csr(self.path, rows, columns, indptr, indices, data, labels), advance)


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
        return matrix_shape(sizes(count).tolist(), path)


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
    check_numbers(dtype, path, kinds)
    return lambda count: np.frombuffer(read(count * dtype.itemsize), dtype), int(np.prod(shape))
