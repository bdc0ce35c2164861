"""The arrays of a store: chunks of a fixed number of elements, uncompressed, each with its crc32c behind it.

A checksum of content alone does not tell whether a chunk lies where it belongs. So the store lists the checksums of all
its chunks (`meta`), and a chunk must have the one that is listed for its place. It is computed anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import ATTEMPTS, pause, reason
from dtoken.errors import RunError

CRC_BYTES = 4
REMEDY = "; delete the store and ingest again"


class ArrayKind(NamedTuple):
    """What is common to the arrays of one name in all packs."""

    dtype: str
    fill_value: str | int  # one that cannot occur shows a missing chunk to any reader
    per_entry: bool  # has an element per entry of the matrix; otherwise per row


ARRAYS = {
    "X/data": ArrayKind("float64", "NaN", per_entry=True),
    "X/indices": ArrayKind("int32", -1, per_entry=True),
    "X/indptr": ArrayKind("int64", -1, per_entry=False),
    "y": ArrayKind("float64", "NaN", per_entry=False),
}


class DamagedStore(RunError):
    """A part of a store is missing, truncated or has the wrong checksum."""


def read_bytes(file: Path) -> bytes:
    """The content of a file of a store; what the system fails to read is tried again."""
    for attempt in range(ATTEMPTS):
        pause(attempt)
        try:
            return file.read_bytes()
        except FileNotFoundError:
            raise DamagedStore(f"{file} is missing{REMEDY}") from None
        except OSError as error:  # of a network or a disk: it may come back
            failure = error
    raise DamagedStore(f"{file} cannot be read: {reason(failure)}{REMEDY}") from None


def array_metadata(
    shape: Sequence[int], chunk: Sequence[int], dtype: np.dtype[Any], attributes: dict[str, Any], fill_value: object
) -> dict[str, Any]:
    """The zarr.json of an array in chunks of plain bytes, each followed by its checksum."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "attributes": attributes,
    }


@dataclass(frozen=True)
class StoredArray:
    """A one-dimensional array of a store: where its chunks are and how they are checked."""

    path: Path
    dtype: np.dtype[Any]
    length: int
    limit: int  # the most elements that a chunk may have
    checksums: NDArray[np.uint32] = field(compare=False, repr=False)  # (chunks,) as the store lists them

    @property
    def chunk(self) -> int:
        """Elements per chunk; the last chunk of several is padded to it."""
        return max(1, min(self.length, self.limit))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.length // self.chunk)

    def chunk_path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.path / "c" / str(number)

    def metadata(self, attributes: dict[str, Any], fill_value: object) -> dict[str, Any]:
        """The array's zarr.json."""
        return array_metadata([self.length], [self.chunk], self.dtype, attributes, fill_value)

    def read_chunk(self, number: int) -> NDArray[Any]:
        """A chunk without its padding, or DamagedStore."""
        file = self.chunk_path(number)
        content = read_bytes(file)
        self.check(content, number, file)
        body = np.frombuffer(content, np.uint8)[:-CRC_BYTES]
        values = body.view(self.dtype.newbyteorder("<")).astype(self.dtype, copy=False)
        return values[: min(self.chunk, self.length - number * self.chunk)]

    def check(self, content: bytes, number: int, where: object) -> None:
        """DamagedStore unless these are the bytes of the chunk with this number, and of no other."""
        expected = self.chunk * self.dtype.itemsize + CRC_BYTES
        if len(content) != expected:
            raise DamagedStore(f"{where} has {len(content)} bytes instead of {expected}{REMEDY}")
        found = google_crc32c.value(np.frombuffer(content, np.uint8)[:-CRC_BYTES])
        if found != int.from_bytes(content[-CRC_BYTES:], "little"):
            raise DamagedStore(f"{where} is damaged: its checksum does not match{REMEDY}")
        if found != self.checksums[number]:
            raise DamagedStore(f"{where} is not what was written there: it is another chunk{REMEDY}")

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The elements from ``start`` to before ``stop``, read-only."""
        return self.cursor(start).take(stop - start)

    def cursor(self, start: int = 0) -> "Cursor":
        """A reader that goes through the array once, from the element ``start`` on."""
        return Cursor(self, start)


class Cursor:
    """Takes elements from a stored array in order, reading each chunk once."""

    def __init__(self, array: StoredArray, start: int) -> None:
        self._array = array
        self._next, self._skip = divmod(start, array.chunk)  # what lies before in the first chunk
        self._left: NDArray[Any] = np.empty(0, array.dtype)

    def take(self, count: int) -> NDArray[Any]:
        """The next ``count`` elements, read-only."""
        parts = []
        while count > len(self._left):
            parts.append(self._left)
            count -= len(self._left)
            self._left = self._array.read_chunk(self._next)[self._skip :]
            self._next, self._skip = self._next + 1, 0
        parts.append(self._left[:count])
        self._left = self._left[count:]
        parts = [part for part in parts if len(part)] or parts[:1]
        taken = parts[0] if len(parts) == 1 else np.concatenate(parts)
        taken.flags.writeable = False
        return taken
