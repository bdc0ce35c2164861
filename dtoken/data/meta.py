"""The root of a store: its attributes, the lists of nodes, packs and checksums, and the digest of all, its identity.

The rows of consecutive nodes lie together in a pack (docs/design/store.md); a large node is a pack of its own. Version
2 had one folder per node, which is a pack of one node, and its lists were attributes.
"""

import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import ARRAYS, CRC_BYTES, REMEDY, DamagedStore
from dtoken.errors import InputError

FORMAT = "dtoken-shards"
FORMAT_VERSION = 3
OF_NODES = 2  # the version that had a folder per node
ROOT, CHECKSUMS = "zarr.json", "checksums"
LISTS = ("node_rows", "node_nonzeros", "node_positives")  # an entry for each node
INDEX = (*LISTS, "pack_nodes")  # arrays of the root since version 3
MOST = 2**48  # of anything that is counted
MOST_FEATURES = 2**31 - 1  # numbers of features are 32-bit integers

Checksums = NDArray[np.uint32]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Meta:
    """The root attributes and lists of a store."""

    n: int  # nodes
    d: int  # features
    rows: int  # rows kept
    nonzeros: int  # stored entries
    dropped_rows: int  # rows of the source that went to no node
    classes: bool  # True: labels are -1 and +1
    label_map: dict[str, float]  # label in the source -> label in the store; empty for real labels
    index_base: int  # number of the first feature in the source
    node_rows: Counts = field(compare=False, repr=False)  # (n,)
    node_nonzeros: Counts = field(compare=False, repr=False)  # (n,)
    node_positives: Counts = field(compare=False, repr=False)  # (n,) rows labelled +1 (all 0 for real labels)
    chunk_entries: int  # elements of a chunk of X/data and X/indices, unless the whole array is shorter
    chunk_rows: int  # the same of X/indptr and y
    partition: dict[str, Any]
    source: dict[str, Any]
    pack_nodes: Counts = field(compare=False, repr=False)  # (packs,) the first node of each pack
    version: int = FORMAT_VERSION

    def attributes(self, checksums: Checksums) -> dict[str, Any]:
        """The attributes as written, with format, version and the digest of all the others and of the lists."""
        named: dict[str, Any] = {"format": FORMAT, "format_version": self.version}
        for name in _names(self.version):
            value = getattr(self, name)
            named[name] = value.tolist() if name in LISTS else value
        named = json.loads(json.dumps(named))
        return named | {"digest": _digest(named, checksums, self.index())}

    def index(self) -> dict[str, Counts]:
        """The lists that are arrays of the root."""
        return {name: getattr(self, name) for name in (INDEX if self.version > OF_NODES else ())}

    @property
    def packs(self) -> int:
        """Number of packs."""
        return len(self.pack_nodes)

    @property
    def folder(self) -> str:
        """The group that has the packs."""
        return "packs" if self.version > OF_NODES else "nodes"

    @cached_property
    def first_row(self) -> Counts:
        """(n + 1,) the first row of each node, counted over all nodes."""
        return np.concatenate([[0], np.cumsum(self.node_rows)])

    @cached_property
    def first_entry(self) -> Counts:
        """(n + 1,) the first entry of each node, counted over all nodes."""
        return np.concatenate([[0], np.cumsum(self.node_nonzeros)])

    def pack_of(self, node: int) -> int:
        """The pack in which a node lies."""
        return int(np.searchsorted(self.pack_nodes, node, "right")) - 1

    def pack_lengths(self) -> Counts:
        """(packs, 4) how long the arrays of each pack are, in the order of ``ARRAYS``."""
        rows = np.add.reduceat(self.node_rows, self.pack_nodes)
        entries = np.add.reduceat(self.node_nonzeros, self.pack_nodes)
        per_row = {name: rows + (name == "X/indptr") for name in ARRAYS}
        return np.stack([entries if kind.per_entry else per_row[name] for name, kind in ARRAYS.items()], axis=1)

    def chunk_counts(self) -> Counts:
        """(packs, 4) how many chunks the arrays of each pack have, in the order of ``ARRAYS``."""
        limits = np.array([self.chunk_entries if kind.per_entry else self.chunk_rows for kind in ARRAYS.values()])
        return np.asarray(-(-self.pack_lengths() // limits))

    def fault(self) -> str | None:
        """What makes the attributes and lists impossible; None: nothing."""
        lists = (self.node_rows, self.node_nonzeros, self.node_positives)
        numbers = (self.n, self.d, self.rows, self.nonzeros, self.dropped_rows, self.index_base)
        counted = (*numbers, self.chunk_entries, self.chunk_rows)
        if not all(type(number) is int and 0 <= number < MOST for number in counted):
            return "something that is counted is no possible number"
        if not 1 <= self.d <= MOST_FEATURES or min(self.chunk_entries, self.chunk_rows) < 1:
            return "d, chunk_entries or chunk_rows is out of range"
        if not all(len(each) == self.n >= 1 for each in lists):
            return "the lists do not have an entry for each of n nodes"
        if not all(each.min() >= 0 and each.max() < MOST for each in lists):
            return "something that is counted is no possible number"
        totals = (_total(self.node_rows), _total(self.node_nonzeros))
        if self.node_rows.min() < 1 or totals != (self.rows, self.nonzeros):
            return "rows and nonzeros are not those of the nodes"
        packs = self.pack_nodes
        if len(packs) < 1 or packs[0] != 0 or packs[-1] >= self.n or not np.all(packs[1:] > packs[:-1]):
            return "the packs are not ranges of nodes"
        if not all(isinstance(each, dict) for each in (self.partition, self.source, self.label_map)):
            return "partition, source or label_map is no object"
        return None if type(self.classes) is bool else "classes is neither true nor false"


def _names(version: int) -> list[str]:
    """The attributes of a version, in the order in which they are written."""
    left_out = ("pack_nodes", "version", *(LISTS if version > OF_NODES else ()))
    return [each.name for each in fields(Meta) if each.name not in left_out]


def _total(counts: Counts) -> int:
    """The sum of numbers below 2^48, which int64 need not hold."""
    return (int(np.sum(counts >> 24)) << 24) + int(np.sum(counts & 0xFFFFFF))


def _digest(attributes: dict[str, Any], checksums: Checksums, index: dict[str, Counts]) -> str:
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(checksums, "<u4").tobytes())
    for values in index.values():
        digest.update(np.ascontiguousarray(values, "<i8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Root:
    """The root of a store, read and found in order."""

    meta: Meta
    checksums: Checksums  # of the chunks of all packs; of each, those of its arrays in the order of ``ARRAYS``
    digest: str


def attributes_of(where: object, content: bytes) -> dict[str, Any]:
    """The attributes in the ``zarr.json`` of a store; InputError if it is none, or of another version."""
    try:
        attributes = json.loads(content)["attributes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedStore(f"{where}/{ROOT} is damaged{REMEDY}") from None
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise InputError(f"{where} is a zarr hierarchy, but not a dtoken store")
    version = attributes.get("format_version")
    if type(version) is not int or version not in (OF_NODES, FORMAT_VERSION):
        known = f"this dtoken reads {OF_NODES} and {FORMAT_VERSION}; ingest the source again{_command(attributes)}"
        raise InputError(f"{where} has format version {version}, {known}")
    return attributes


def read_root(where: object, attributes: dict[str, Any], read: Callable[[str], bytes]) -> Root:
    """The root from its attributes and its arrays, whose digest must be the one that it has.

    ``read`` gives the content of a file of the store.
    """
    given = dict(attributes)
    digest = given.pop("digest", None)
    listed = _read_list(where, CHECKSUMS, "<u4", read)
    index: dict[str, Any] = {}
    if given["format_version"] > OF_NODES:
        index = {name: _read_list(where, name, "<i8", read).astype(np.int64, copy=False) for name in INDEX}
    if digest != _digest(given, listed, index):
        raise DamagedStore(f"{where}/{ROOT} is damaged: its digest does not match{REMEDY}")
    del given["format"]
    version = given.pop("format_version")
    if given.keys() != set(_names(version)):
        raise DamagedStore(f"{where}/{ROOT} is damaged: its attributes are not those of a store{REMEDY}")
    try:
        if version == OF_NODES:
            index = {name: _counts(given.pop(name)) for name in LISTS}
            index["pack_nodes"] = np.arange(len(index["node_rows"]))
        meta = Meta(**given, **index, version=version)
        fault = meta.fault() or _list_fault(meta, listed)
    except (TypeError, ValueError, OverflowError):
        fault = "something is of the wrong kind"
    if fault:
        raise DamagedStore(f"{where}/{ROOT} is damaged: {fault}{REMEDY}")
    return Root(meta, listed.astype(np.uint32, copy=False), digest)


def _read_list(where: object, name: str, dtype: str, read: Callable[[str], bytes]) -> NDArray[Any]:
    """An array of the root, which is one chunk."""
    file = f"{name}/c/0"
    content = read(file)
    if google_crc32c.value(content[:-CRC_BYTES]) != int.from_bytes(content[-CRC_BYTES:], "little"):
        raise DamagedStore(f"{where}/{file} is damaged: its checksum does not match{REMEDY}")
    body = content[:-CRC_BYTES]
    return np.frombuffer(body, dtype) if len(body) % np.dtype(dtype).itemsize == 0 else np.empty(0, dtype)


def _counts(values: object) -> Counts:
    """A list of version 2."""
    if not isinstance(values, list) or not all(type(each) is int for each in values):
        raise TypeError
    return np.array(values, np.int64)


def _list_fault(meta: Meta, listed: Checksums) -> str | None:
    return None if meta.chunk_counts().sum() == len(listed) else "it lists too many, or too few, chunks"


def _command(attributes: dict[str, Any]) -> str:
    """How a store of another version is made anew, as far as its attributes tell."""
    try:
        source, partition = dict(attributes["source"]), dict(attributes["partition"])
        words = [str(source.pop("path", source["kind"])), "--nodes", str(partition["nodes"])]
        words += ["--partition", str(partition["kind"]), "--sizes", str(partition["sizes"])]
        words += [word for key in ("seed", "alpha") if key in partition for word in (f"--{key}", str(partition[key]))]
        left_out = ("kind", "size", "mtime_ns", "generator_version", "y")
        words += [f"{key}={value}" for key, value in source.items() if key not in left_out and value is not None]
    except (KeyError, TypeError, ValueError):
        return ""
    return f": dtoken-data ingest {shlex.join(words)}"
