"""Writing packs: values come in any portions and leave as full chunks, so that memory stays bounded."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import ARRAYS, CRC_BYTES, ArrayKind, StoredArray, array_metadata
from dtoken.data.meta import CHECKSUMS, Checksums, Meta
from dtoken.data.rows import RowBlock

ARRAY_ATTRIBUTES = {"encoding-type": "array", "encoding-version": "0.2.0"}


class _ArrayWriter:
    """Collects the elements of one array and writes each chunk as soon as it is full."""

    def __init__(self, folder: Path, kind: ArrayKind, limit: int) -> None:
        folder.mkdir()
        (folder / "c").mkdir()
        self._folder = folder
        self._kind = kind
        self._limit = limit
        self._chunk = np.empty(0, kind.dtype)  # grows to the limit: small packs never need that
        self._filled = 0
        self._checksums: list[int] = []

    def append(self, values: NDArray[Any]) -> None:
        while len(values):
            # Only when more follows is a full chunk written: a short array is one short chunk.
            if self._filled == self._limit:
                self._write(self._chunk)
                self._filled = 0
            taken = values[: self._limit - self._filled]
            self._make_room(self._filled + len(taken))
            self._chunk[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            values = values[len(taken) :]

    def _make_room(self, size: int) -> None:
        if size > len(self._chunk):
            wider = np.empty(min(self._limit, max(size, 2 * len(self._chunk))), self._chunk.dtype)
            wider[: self._filled] = self._chunk[: self._filled]
            self._chunk = wider

    def close(self) -> list[int]:
        """Write the last chunk and the metadata; the checksums of all chunks."""
        length = len(self._checksums) * self._limit + self._filled
        chunk = max(1, min(length, self._limit))
        if length:
            self._make_room(chunk)
            self._chunk[self._filled : chunk] = self._chunk.dtype.type(self._kind.fill_value)
            self._write(self._chunk[:chunk])
        (self._folder / "zarr.json").write_bytes(_array_metadata(self._kind, length, self._limit))
        return self._checksums

    def _write(self, chunk: NDArray[Any]) -> None:
        self._checksums.append(write_chunk(self._folder / "c" / str(len(self._checksums)), chunk))


def write_chunk(path: Path, chunk: NDArray[Any]) -> int:
    """Write the bytes of a chunk, and their checksum, which is returned."""
    body = np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("<")).ravel()
    checksum = int(google_crc32c.value(body))
    with open(path, "wb") as file:
        file.write(body.data)
        file.write(checksum.to_bytes(CRC_BYTES, "little"))
    return checksum


@lru_cache(4096)
def _array_metadata(kind: ArrayKind, length: int, limit: int) -> bytes:
    """The ``zarr.json`` of an array; many packs may have arrays of the same length."""
    array = StoredArray(Path(), np.dtype(kind.dtype), length, limit, np.empty(0, np.uint32))
    return encoded(array.metadata(ARRAY_ATTRIBUTES, kind.fill_value))


class PackWriter:
    """Writes the rows of some nodes below ``packs/<p>``."""

    def __init__(self, root: Path, pack: int, features: int, chunk_entries: int, chunk_rows: int) -> None:
        self._folder = root / "packs" / str(pack)
        self._features = features
        (self._folder / "X").mkdir(parents=True)
        self._arrays = {
            name: _ArrayWriter(self._folder / name, kind, chunk_entries if kind.per_entry else chunk_rows)
            for name, kind in ARRAYS.items()
        }
        self._arrays["X/indptr"].append(np.zeros(1, np.int64))
        self._rows = self._entries = 0

    def append(self, block: RowBlock) -> None:
        """Add rows at the end."""
        self._arrays["X/data"].append(block.data)
        self._arrays["X/indices"].append(block.indices)
        self._arrays["X/indptr"].append(block.indptr[1:] + self._entries)
        self._arrays["y"].append(block.y)
        self._rows, self._entries = self._rows + block.rows, self._entries + len(block.data)

    def close(self) -> list[int]:
        """Write the last chunks and the metadata; the checksums of all chunks, array by array."""
        checksums = [checksum for array in self._arrays.values() for checksum in array.close()]
        write_metadata(self._folder / "X", group(matrix_attributes(self._rows, self._features)))
        write_metadata(self._folder, group({}))
        return checksums


def write_root(root: Path, meta: Meta, checksums: Checksums) -> None:
    """Write the lists and the groups above the packs; the root makes the folder a store, and comes last."""
    for name, values in root_lists(meta, checksums).items():
        (root / name / "c").mkdir(parents=True)
        write_chunk(root / name / "c" / "0", values)
        write_metadata(root / name, list_metadata(values))
    write_metadata(root / meta.folder, group({}))
    write_metadata(root, group(meta.attributes(checksums)))


def root_lists(meta: Meta, checksums: Checksums) -> dict[str, NDArray[Any]]:
    """The arrays of the root, each of them a single chunk."""
    return {CHECKSUMS: checksums, **meta.index()}


def list_metadata(values: NDArray[Any]) -> dict[str, Any]:
    """The ``zarr.json`` of an array of the root, a single chunk; counts are never negative."""
    fill_value = 0 if values.dtype == np.uint32 else -1
    return array_metadata(values.shape, values.shape, values.dtype, ARRAY_ATTRIBUTES, fill_value)


def matrix_attributes(rows: int, features: int) -> dict[str, Any]:
    """The attributes of a group that is a CSR matrix in anndata's encoding."""
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [rows, features]}


def group(attributes: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def encoded(metadata: dict[str, Any]) -> bytes:
    """The bytes of a ``zarr.json``."""
    return json.dumps(metadata, indent=1).encode()


def write_metadata(folder: Path, metadata: dict[str, Any]) -> None:
    """Write ``zarr.json``."""
    (folder / "zarr.json").write_bytes(encoded(metadata))
