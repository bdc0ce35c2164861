"""The shard store: a zarr v3 hierarchy per dataset, a CSR matrix with labels per node (docs/data-format.md).

Every array is cut into chunks of a fixed number of elements, stored uncompressed with a crc32c behind each
chunk. The metadata is written as JSON by the rules of the zarr v3 specification, so that a chunk is one file
that is read with one system call and checked in passing: any zarr reader opens the store, and dtoken reads a
shard at about twice the cost of ``np.load``.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import ATTEMPTS, pause, reason
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError, RunError

FORMAT = "dtoken-shards"
FORMAT_VERSION = 1
CRC_BYTES = 4
REMEDY = "; delete the store and ingest again"


class ArrayKind(NamedTuple):
    """What is common to the arrays of one name below ``nodes/<i>``."""

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


@dataclass(frozen=True)
class Meta:
    """The root attributes of a store."""

    n: int  # nodes
    d: int  # features
    rows: int  # rows kept
    nonzeros: int  # stored entries
    dropped_rows: int  # rows of the source that went to no node
    classes: bool  # True: labels are -1 and +1
    label_map: dict[str, float]  # label in the source -> label in the store; empty for real labels
    index_base: int  # number of the first feature in the source
    node_rows: tuple[int, ...]
    node_nonzeros: tuple[int, ...]
    node_positives: tuple[int, ...]  # rows labelled +1 (all 0 for real labels)
    chunk_entries: int  # elements of a chunk of X/data and X/indices, unless the whole array is shorter
    chunk_rows: int  # the same of X/indptr and y
    partition: dict[str, Any]
    source: dict[str, Any]

    def attributes(self) -> dict[str, Any]:
        """The attributes as written, with format, version and a checksum over all the others."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        fields = {"format": FORMAT, "format_version": FORMAT_VERSION} | fields
        return fields | {"checksum": _digest(fields)}


def _digest(attributes: dict[str, Any]) -> int:
    return int(google_crc32c.value(json.dumps(attributes, sort_keys=True).encode()))


@dataclass(frozen=True)
class ShardStore:
    """A finished store, open for reading.

    Examples
    --------
    >>> store = ShardStore.open("demo/tiny.zarr")  # doctest: +SKIP
    >>> store.shard(0).rows  # doctest: +SKIP
    250
    """

    path: Path
    meta: Meta

    @classmethod
    def open(cls, path: str | Path) -> "ShardStore":
        """Open the store at ``path``; only its root is read."""
        path = Path(path)
        attributes = _root_attributes(path)
        checksum = attributes.pop("checksum", None)
        if checksum != _digest(attributes):
            raise DamagedStore(f"{path}/zarr.json is damaged: its checksum does not match{REMEDY}")
        del attributes["format"], attributes["format_version"]
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
        return cls(path, Meta(**fields))

    @property
    def location(self) -> str:
        """Where other processes find the store."""
        return str(self.path.resolve())

    @property
    def scratch(self) -> Path | None:
        """The folder that was asked for, for what is fetched of the store."""
        return None

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.meta.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self.meta.d

    @property
    def classes(self) -> bool:
        """Whether labels are -1 and +1."""
        return self.meta.classes

    @property
    def node_rows(self) -> tuple[int, ...]:
        """Number of rows of each node."""
        return self.meta.node_rows

    @property
    def node_nonzeros(self) -> tuple[int, ...]:
        """Number of stored entries of each node."""
        return self.meta.node_nonzeros

    def array(self, node: int, name: str) -> "StoredArray":
        """One array of a node: ``X/data``, ``X/indices``, ``X/indptr`` or ``y``."""
        kind, meta = ARRAYS[name], self.meta
        length = meta.node_nonzeros[node] if kind.per_entry else meta.node_rows[node] + (name == "X/indptr")
        limit = meta.chunk_entries if kind.per_entry else meta.chunk_rows
        return StoredArray(self.path / "nodes" / str(node) / name, np.dtype(kind.dtype), length, limit)

    def shard(self, node: int) -> RowBlock:
        """All rows of a node, every chunk verified."""
        data, indices, indptr, y = (self.array(node, name).read() for name in ARRAYS)
        return RowBlock(data, indices, indptr, y)

    def blocks(self, node: int) -> Iterator[RowBlock]:
        """The rows of a node in blocks of about one chunk; every chunk is read and verified once."""
        data, indices, indptr, y = (self.array(node, name).cursor() for name in ARRAYS)
        ends = indptr.take(1)
        rows = self.node_rows[node]
        while rows:
            count = min(rows, self.meta.chunk_rows)
            ends = np.concatenate([ends[-1:], indptr.take(count)])
            start = 0
            while start < count:
                stop = int(np.searchsorted(ends, ends[start] + self.meta.chunk_entries, side="right")) - 1
                stop = max(stop, start + 1)
                entries = int(ends[stop] - ends[start])
                starts = ends[start : stop + 1] - ends[start]
                starts.flags.writeable = False
                yield RowBlock(data.take(entries), indices.take(entries), starts, y.take(stop - start))
                start = stop
            rows -= count


def _root_attributes(path: Path) -> dict[str, Any]:
    try:
        attributes = json.loads((path / "zarr.json").read_bytes())["attributes"]
    except FileNotFoundError:
        what = "is not a dtoken store: it has no zarr.json" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}") from None
    except NotADirectoryError:
        raise InputError(f"{path} is a file, not a dtoken store; ingest it first") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise DamagedStore(f"{path}/zarr.json is damaged{REMEDY}") from None
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise InputError(f"{path} is a zarr hierarchy, but not a dtoken store")
    version = attributes.get("format_version")
    if version != FORMAT_VERSION:
        known = f"this dtoken reads {FORMAT_VERSION}"
        raise InputError(f"{path} has format version {version}, {known}; ingest the source again")
    return attributes


def _content(file: Path) -> bytes:
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
        content = _content(file)
        expected = self.chunk * self.dtype.itemsize + CRC_BYTES
        if len(content) != expected:
            raise DamagedStore(f"{file} has {len(content)} bytes instead of {expected}{REMEDY}")
        raw = np.frombuffer(content, np.uint8)
        body, checksum = raw[:-CRC_BYTES], int.from_bytes(content[-CRC_BYTES:], "little")
        if google_crc32c.value(body) != checksum:
            raise DamagedStore(f"{file} is damaged: its checksum does not match{REMEDY}")
        values = body.view(self.dtype.newbyteorder("<")).astype(self.dtype, copy=False)
        return values[: min(self.chunk, self.length - number * self.chunk)]

    def read(self) -> NDArray[Any]:
        """The whole array, read-only."""
        return self.cursor().take(self.length)

    def cursor(self) -> "Cursor":
        """A reader that goes through the array once."""
        return Cursor(self)


class Cursor:
    """Takes elements from a stored array in order, reading each chunk once."""

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        self._next = 0
        self._left: NDArray[Any] = np.empty(0, array.dtype)

    def take(self, count: int) -> NDArray[Any]:
        """The next ``count`` elements, read-only."""
        parts = []
        while count > len(self._left):
            parts.append(self._left)
            count -= len(self._left)
            self._left = self._array.read_chunk(self._next)
            self._next += 1
        parts.append(self._left[:count])
        self._left = self._left[count:]
        parts = [part for part in parts if len(part)] or parts[:1]
        taken = parts[0] if len(parts) == 1 else np.concatenate(parts)
        taken.flags.writeable = False
        return taken
