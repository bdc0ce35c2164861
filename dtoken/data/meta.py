"""The root of a store: its attributes, the list of its chunks' checksums, and the digest of both, its identity."""

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, fields
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import ARRAYS, CRC_BYTES, REMEDY, DamagedStore
from dtoken.errors import InputError

FORMAT = "dtoken-shards"
FORMAT_VERSION = 2
ROOT, CHECKSUMS = "zarr.json", "checksums"  # the list is an array like the others
MOST = 2**48  # of anything that is counted
MOST_FEATURES = 2**31 - 1  # numbers of features are 32-bit integers

Checksums = NDArray[np.uint32]


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

    def attributes(self, checksums: Checksums) -> dict[str, Any]:
        """The attributes as written, with format, version and the digest of all the others and of the list."""
        named: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        named = {"format": FORMAT, "format_version": FORMAT_VERSION} | named
        return named | {"digest": _digest(named, checksums)}

    def chunk_counts(self) -> NDArray[np.int64]:
        """(n, 4) how many chunks the arrays of each node have, in the order of ``ARRAYS``."""
        counts = np.empty((self.n, len(ARRAYS)), np.int64)
        for column, (name, kind) in enumerate(ARRAYS.items()):
            per_row = np.array(self.node_rows, np.int64) + (name == "X/indptr")
            lengths = np.array(self.node_nonzeros, np.int64) if kind.per_entry else per_row
            counts[:, column] = -(-lengths // (self.chunk_entries if kind.per_entry else self.chunk_rows))
        return counts

    def fault(self) -> str | None:
        """What makes the attributes impossible; None: nothing."""
        lists = (self.node_rows, self.node_nonzeros, self.node_positives)
        numbers = (self.n, self.d, self.rows, self.nonzeros, self.dropped_rows, self.index_base)
        counted = (*numbers, self.chunk_entries, self.chunk_rows, *(each for column in lists for each in column))
        if not all(type(number) is int and 0 <= number < MOST for number in counted):
            return "something that is counted is no possible number"
        if not 1 <= self.d <= MOST_FEATURES or min(self.chunk_entries, self.chunk_rows) < 1:
            return "d, chunk_entries or chunk_rows is out of range"
        if not len(self.node_rows) == len(self.node_nonzeros) == len(self.node_positives) == self.n >= 1:
            return "the lists do not have an entry for each of n nodes"
        if min(self.node_rows) < 1 or (sum(self.node_rows), sum(self.node_nonzeros)) != (self.rows, self.nonzeros):
            return "rows and nonzeros are not those of the nodes"
        if not all(isinstance(each, dict) for each in (self.partition, self.source, self.label_map)):
            return "partition, source or label_map is no object"
        return None if type(self.classes) is bool else "classes is neither true nor false"


def _digest(attributes: dict[str, Any], checksums: Checksums) -> str:
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(checksums, "<u4").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Root:
    """The root of a store, read and found in order."""

    meta: Meta
    checksums: Checksums  # of the chunks of all nodes; of each, those of its arrays in the order of ``ARRAYS``
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
    if version != FORMAT_VERSION:
        known = f"this dtoken reads {FORMAT_VERSION}; ingest the source again{_command(attributes)}"
        raise InputError(f"{where} has format version {version}, {known}")
    return attributes


def read_root(where: object, attributes: dict[str, Any], content: bytes) -> Root:
    """The root from its attributes and the bytes of the list, whose digest must be the one that it has."""
    given = dict(attributes)
    digest = given.pop("digest", None)
    listed = np.frombuffer(content[:-CRC_BYTES], "<u4") if len(content) % 4 == 0 else np.empty(0, "<u4")
    if google_crc32c.value(content[:-CRC_BYTES]) != int.from_bytes(content[-CRC_BYTES:], "little"):
        raise DamagedStore(f"{where}/{CHECKSUMS}/c/0 is damaged: its checksum does not match{REMEDY}")
    if digest != _digest(given, listed):
        raise DamagedStore(f"{where}/{ROOT} is damaged: its digest does not match{REMEDY}")
    del given["format"], given["format_version"]
    if given.keys() != {each.name for each in fields(Meta)}:
        raise DamagedStore(f"{where}/{ROOT} is damaged: its attributes are not those of a store{REMEDY}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    meta = Meta(**values)
    try:
        fault = meta.fault() or _list_fault(meta, listed)
    except (TypeError, ValueError, OverflowError):
        fault = "something is of the wrong kind"
    if fault:
        raise DamagedStore(f"{where}/{ROOT} is damaged: {fault}{REMEDY}")
    return Root(meta, listed.astype(np.uint32, copy=False), digest)


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
