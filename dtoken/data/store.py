"""The shard store: a zarr v3 hierarchy per dataset, a CSR matrix with labels per node (docs/data-format.md).

The metadata is written as JSON by the rules of the zarr v3 specification, so that a chunk is one file that is read with
one system call and checked in passing: any zarr reader opens the store, and dtoken reads a shard at about twice the
cost of ``np.load``. What is read must be what was written in that place (`chunks`), and no index, row or label may lead
compiled code astray, whoever wrote it (`rules`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import ARRAYS, REMEDY, DamagedStore, StoredArray, read_bytes
from dtoken.data.files import reason
from dtoken.data.meta import CHECKSUMS, ROOT, Checksums, Meta, attributes_of, read_root
from dtoken.data.rows import RowBlock
from dtoken.data.rules import rows_fault, starts_fault
from dtoken.errors import InputError


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
    checksums: Checksums = field(compare=False, repr=False)
    digest: str  # the identity of the store: of its attributes and all its chunks

    @classmethod
    def open(cls, path: str | Path) -> "ShardStore":
        """Open the store at ``path``; only its root is read."""
        path = Path(path)
        attributes = attributes_of(path, _root_content(path))
        root = read_root(path, attributes, read_bytes(path / CHECKSUMS / "c" / "0"))
        return cls(path, root.meta, root.checksums, root.digest)

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

    @cached_property
    def _first_chunk(self) -> NDArray[np.int64]:
        """(4 n + 1,) where the checksums of each array begin."""
        return np.concatenate([[0], np.cumsum(self.meta.chunk_counts())])

    def array(self, node: int, name: str) -> StoredArray:
        """One array of a node: ``X/data``, ``X/indices``, ``X/indptr`` or ``y``."""
        kind, meta, place = ARRAYS[name], self.meta, len(ARRAYS) * node + list(ARRAYS).index(name)
        length = meta.node_nonzeros[node] if kind.per_entry else meta.node_rows[node] + (name == "X/indptr")
        limit = meta.chunk_entries if kind.per_entry else meta.chunk_rows
        checksums = self.checksums[self._first_chunk[place] : self._first_chunk[place + 1]]
        return StoredArray(self.path / "nodes" / str(node) / name, np.dtype(kind.dtype), length, limit, checksums)

    def shard(self, node: int) -> RowBlock:
        """All rows of a node, every chunk verified."""
        data, indices, indptr, y = (self.array(node, name).read() for name in ARRAYS)
        self._check(node, starts_fault(indptr, 0, len(data), whole=True))
        block = RowBlock(data, indices, indptr, y)
        self._check(node, rows_fault(block, self.d, self.classes))
        return block

    def blocks(self, node: int) -> Iterator[RowBlock]:
        """The rows of a node in blocks of about one chunk; every chunk is read and verified once."""
        data, indices, indptr, y = (self.array(node, name).cursor() for name in ARRAYS)
        ends, before = indptr.take(1), 0
        rows = self.node_rows[node]
        while rows:
            count = min(rows, self.meta.chunk_rows)
            ends = np.concatenate([ends[-1:], indptr.take(count)])
            self._check(node, starts_fault(ends, before, self.node_nonzeros[node], whole=rows == count))
            before = int(ends[-1])
            start = 0
            while start < count:
                stop = int(np.searchsorted(ends, ends[start] + self.meta.chunk_entries, side="right")) - 1
                stop = max(stop, start + 1)
                entries = int(ends[stop] - ends[start])
                starts = ends[start : stop + 1] - ends[start]
                starts.flags.writeable = False
                block = RowBlock(data.take(entries), indices.take(entries), starts, y.take(stop - start))
                self._check(node, rows_fault(block, self.d, self.classes))
                yield block
                start = stop
            rows -= count

    def _check(self, node: int, fault: str | None) -> None:
        if fault:
            raise DamagedStore(f"{self.path}/nodes/{node}/{fault}{REMEDY}")


def _root_content(path: Path) -> bytes:
    try:
        return (path / ROOT).read_bytes()
    except FileNotFoundError:
        what = "is not a dtoken store: it has no zarr.json" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}") from None
    except NotADirectoryError:
        raise InputError(f"{path} is a file, not a dtoken store; ingest it first") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
