"""Writing shards: values come in any portions and leave as full chunks, so that memory stays bounded."""

import json
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.rows import RowBlock
from dtoken.data.store import ARRAYS, ArrayKind, Meta, StoredArray

ARRAY_ATTRIBUTES = {"encoding-type": "array", "encoding-version": "0.2.0"}


class _ArrayWriter:
    """Collects the elements of one array and writes each chunk as soon as it is full."""

    def __init__(self, folder: Path, kind: ArrayKind, limit: int) -> None:
        (folder / "c").mkdir(parents=True)
        self._folder = folder
        self._kind = kind
        self._dtype = np.dtype(kind.dtype)
        self._limit = limit
        self._waiting: list[NDArray[Any]] = []
        self._count = 0
        self._written = 0

    def append(self, values: NDArray[Any]) -> None:
        self._waiting.append(values.astype(self._dtype, copy=False))
        self._count += len(values)
        # Only when more follows is it known that a chunk has the full size: a short array is one short chunk.
        if self._count > self._limit:
            everything = np.concatenate(self._waiting)
            while len(everything) > self._limit:
                self._write(everything[: self._limit])
                everything = everything[self._limit :]
            self._waiting = [everything.copy()]
            self._count = len(everything)

    def close(self) -> None:
        length = self._written * self._limit + self._count
        array = StoredArray(self._folder, self._dtype, length, self._limit)
        if length:
            last = np.full(array.chunk, self._dtype.type(self._kind.fill_value))
            last[: self._count] = np.concatenate(self._waiting)
            self._write(last)
        write_metadata(self._folder, array.metadata(ARRAY_ATTRIBUTES, self._kind.fill_value))

    def _write(self, chunk: NDArray[Any]) -> None:
        body = np.ascontiguousarray(chunk, self._dtype.newbyteorder("<"))
        with open(self._folder / "c" / str(self._written), "wb") as file:
            file.write(body.data)
            file.write(int(google_crc32c.value(body)).to_bytes(4, "little"))
        self._written += 1


class ShardWriter:
    """Writes the rows of one node below ``nodes/<i>``."""

    def __init__(self, root: Path, node: int, features: int, chunk_entries: int, chunk_rows: int) -> None:
        self._folder = root / "nodes" / str(node)
        self._features = features
        self._arrays = {
            name: _ArrayWriter(self._folder / name, kind, chunk_entries if kind.per_entry else chunk_rows)
            for name, kind in ARRAYS.items()
        }
        self._arrays["X/indptr"].append(np.zeros(1, np.int64))
        self.rows = 0
        self.nonzeros = 0
        self.positives = 0

    def append(self, block: RowBlock) -> None:
        """Add rows at the end."""
        self._arrays["X/data"].append(block.data)
        self._arrays["X/indices"].append(block.indices)
        self._arrays["X/indptr"].append(block.indptr[1:] + self.nonzeros)
        self._arrays["y"].append(block.y)
        self.rows += block.rows
        self.nonzeros += len(block.data)
        self.positives += int(np.count_nonzero(block.y > 0))

    def close(self) -> None:
        """Write the last chunks and the metadata."""
        for array in self._arrays.values():
            array.close()
        write_metadata(self._folder / "X", group(matrix_attributes(self.rows, self._features)))
        write_metadata(self._folder, group({}))


def write_root(root: Path, meta: Meta) -> None:
    """Write the groups above the nodes; the root comes last, because it makes the folder a store."""
    write_metadata(root / "nodes", group({}))
    write_metadata(root, group(meta.attributes()))


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
