"""Writing shards: values are appended in any portions and leave as full chunks, so that memory stays bounded."""

import json
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.rows import RowBlock
from dtoken.data.store import ARRAYS, CHUNK_ENTRIES, CHUNK_ROWS, Meta, StoredArray

SPARSE_ATTRIBUTES = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
ARRAY_ATTRIBUTES = {"encoding-type": "array", "encoding-version": "0.2.0"}


class _ArrayWriter:
    """Collects the elements of one array and writes each chunk as soon as it is full."""

    def __init__(self, folder: Path, dtype: str, limit: int) -> None:
        (folder / "c").mkdir(parents=True)
        self._folder = folder
        self._dtype = np.dtype(dtype)
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

    def close(self, fill_value: object) -> StoredArray:
        length = self._written * self._limit + self._count
        array = StoredArray(self._folder, self._dtype, length, self._limit)
        if length:
            last = np.full(array.chunk, _as_scalar(fill_value), self._dtype)
            last[: self._count] = np.concatenate(self._waiting)
            self._write(last)
        write_json(self._folder, array.metadata(ARRAY_ATTRIBUTES, fill_value))
        return array

    def _write(self, chunk: NDArray[Any]) -> None:
        body = chunk.astype(self._dtype.newbyteorder("<"), copy=False).tobytes()
        with open(self._folder / "c" / str(self._written), "wb") as file:
            file.write(body)
            file.write(int(google_crc32c.value(body)).to_bytes(4, "little"))
        self._written += 1


def _as_scalar(fill_value: object) -> object:
    return np.nan if fill_value == "NaN" else fill_value


class ShardWriter:
    """Writes the rows of one node below ``nodes/<i>``."""

    def __init__(self, root: Path, node: int, features: int) -> None:
        self._folder = root / "nodes" / str(node)
        self._features = features
        limits = {"X/data": CHUNK_ENTRIES, "X/indices": CHUNK_ENTRIES, "X/indptr": CHUNK_ROWS, "y": CHUNK_ROWS}
        self._arrays = {
            name: _ArrayWriter(self._folder / name, dtype, limits[name]) for name, (dtype, _) in ARRAYS.items()
        }
        self._arrays["X/indptr"].append(np.zeros(1, np.int64))
        self.rows = 0
        self.nonzeros = 0

    def append(self, block: RowBlock) -> None:
        """Add rows at the end."""
        self._arrays["X/data"].append(block.data)
        self._arrays["X/indices"].append(block.indices)
        self._arrays["X/indptr"].append(block.indptr[1:] + self.nonzeros)
        self._arrays["y"].append(block.y)
        self.rows += block.rows
        self.nonzeros += len(block.data)

    def close(self) -> None:
        """Write the last chunks and the metadata."""
        for name, (_, fill_value) in ARRAYS.items():
            self._arrays[name].close(fill_value)
        shape = {"shape": [self.rows, self._features]}
        write_json(self._folder / "X", _group(SPARSE_ATTRIBUTES | shape))
        write_json(self._folder, _group({}))


def write_root(root: Path, meta: Meta) -> None:
    """Write the groups above the nodes; the root comes last, because it makes the folder a store."""
    write_json(root / "nodes", _group({}))
    write_json(root, _group(meta.attributes()))


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def write_json(folder: Path, content: dict[str, Any]) -> None:
    """Write ``zarr.json``."""
    (folder / "zarr.json").write_text(json.dumps(content, indent=1))
