"""The shard store: a zarr v3 hierarchy per dataset, CSR matrices with the labels of their rows (docs/data-format.md).

The rows of consecutive nodes lie together in a pack, a large node in one of its own: node i is some rows of a pack.

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
from dtoken.data.meta import ROOT, Checksums, Counts, Meta, attributes_of, read_root
from dtoken.data.rows import RowBlock, concatenate
from dtoken.data.rules import nodes_fault, rows_fault, starts_fault
from dtoken.errors import InputError

BLOCK_ENTRIES = 1 << 20  # of what is read at once, and fits into a cache


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
        root = read_root(path, attributes, lambda name: read_bytes(path / name))
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
    def node_rows(self) -> Counts:
        """(n,) number of rows of each node."""
        return self.meta.node_rows

    @property
    def node_nonzeros(self) -> Counts:
        """(n,) number of stored entries of each node."""
        return self.meta.node_nonzeros

    @cached_property
    def _first_chunk(self) -> NDArray[np.int64]:
        """(4 packs + 1,) where the checksums of each array begin."""
        return np.concatenate([[0], np.cumsum(self.meta.chunk_counts())])

    @cached_property
    def _lengths(self) -> Counts:
        return self.meta.pack_lengths()

    def pack_path(self, pack: int) -> Path:
        """The folder of a pack."""
        return self.path / self.meta.folder / str(pack)

    def array(self, pack: int, name: str) -> StoredArray:
        """One array of a pack: ``X/data``, ``X/indices``, ``X/indptr`` or ``y``."""
        kind, column = ARRAYS[name], list(ARRAYS).index(name)
        limit = self.meta.chunk_entries if kind.per_entry else self.meta.chunk_rows
        place = len(ARRAYS) * pack + column
        checksums = self.checksums[self._first_chunk[place] : self._first_chunk[place + 1]]
        length = int(self._lengths[pack, column])
        return StoredArray(self.pack_path(pack) / name, np.dtype(kind.dtype), length, limit, checksums)

    def shard(self, node: int) -> RowBlock:
        """All rows of a node, every chunk verified."""
        found = concatenate(list(self.blocks(node)))
        for array in found:
            array.flags.writeable = False
        return found

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        """The rows of the nodes from ``first`` to before ``stop``, of one node by default, in blocks of bounded size.

        Every chunk is read and verified once. A block may hold rows of several nodes, and a node have several blocks.
        """
        meta, stop = self.meta, first + 1 if stop is None else stop
        while first < stop:
            pack = meta.pack_of(first)
            end = min(stop, self.n if pack + 1 == meta.packs else int(meta.pack_nodes[pack + 1]))
            yield from self._blocks_of_pack(pack, first, end)
            first = end

    def _blocks_of_pack(self, pack: int, first: int, stop: int) -> Iterator[RowBlock]:
        """The rows of some nodes of one pack."""
        meta, begin = self.meta, int(self.meta.pack_nodes[pack])
        bounds = meta.first_row[first : stop + 1] - meta.first_row[begin]
        starts = meta.first_entry[first : stop + 1] - meta.first_entry[begin]
        row, entry, last = int(bounds[0]), int(starts[0]), int(starts[-1])
        data, indices, indptr, y = (
            self.array(pack, name).cursor(entry if kind.per_entry else row) for name, kind in ARRAYS.items()
        )
        ends, rows = indptr.take(1), int(bounds[-1]) - row
        while rows:
            count = min(rows, meta.chunk_rows)
            ends = np.concatenate([ends[-1:], indptr.take(count)])
            self._check(pack, starts_fault(ends, entry, last, whole=rows == count))
            own = slice(*np.searchsorted(bounds, (row, row + count + 1)))
            self._check(pack, nodes_fault(ends[bounds[own] - row], starts[own], first + own.start))
            entry, start = int(ends[-1]), 0
            while start < count:
                cap = ends[start] + min(meta.chunk_entries, BLOCK_ENTRIES)
                end = max(int(np.searchsorted(ends, cap, side="right")) - 1, start + 1)
                entries = int(ends[end] - ends[start])
                places = ends[start : end + 1] - ends[start]
                places.flags.writeable = False
                block = RowBlock(data.take(entries), indices.take(entries), places, y.take(end - start))
                self._check(pack, rows_fault(block, self.d, self.classes))
                yield block
                start = end
            row, rows = row + count, rows - count

    def _check(self, pack: int, fault: str | None) -> None:
        if fault:
            raise DamagedStore(f"{self.pack_path(pack)}/{fault}{REMEDY}")


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
