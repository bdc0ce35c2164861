"""Reading a whole store to find what is damaged, missing or against the rules of its format, down to the chunk."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtoken.data.chunks import ARRAYS, REMEDY, DamagedStore, StoredArray
from dtoken.data.files import reason
from dtoken.data.meta import ROOT
from dtoken.data.rules import order_fault, values_fault
from dtoken.data.store import ShardStore
from dtoken.data.writer import ARRAY_ATTRIBUTES, encoded, group, list_metadata, matrix_attributes, root_lists


def verify(store: ShardStore, advance: Callable[[float], None] | None = None) -> list[str]:
    """Return one sentence for each fault; an empty list means that every bit is as it was written, and may be used.

    Examples
    --------
    >>> verify(ShardStore.open("demo/tiny.zarr"))  # doctest: +SKIP
    []
    """
    faults = list(_root_faults(store))
    for pack in range(store.meta.packs):
        found = list(_pack_faults(store, pack))
        # The contents are only looked at where every byte is right: damage would be reported twice.
        faults += found or list(_content_faults(store, pack))
        if advance is not None:
            advance((pack + 1) / store.meta.packs)
    return faults


def _root_faults(store: ShardStore) -> Iterator[str]:
    meta, lists = store.meta, root_lists(store.meta, store.checksums)
    yield from _metadata_faults(store.path, group(meta.attributes(store.checksums)))
    yield from _metadata_faults(store.path / meta.folder, group({}))
    yield from _strangers(store.path, [ROOT, meta.folder, *lists])
    yield from _strangers(store.path / meta.folder, [ROOT, *map(str, range(meta.packs))])
    for name, values in lists.items():
        yield from _metadata_faults(store.path / name, list_metadata(values))
        yield from _strangers(store.path / name, [ROOT, "c"])
        yield from _strangers(store.path / name / "c", ["0"])


def _pack_faults(store: ShardStore, pack: int) -> Iterator[str]:
    folder = store.pack_path(pack)
    yield from _metadata_faults(folder, group({}))
    yield from _metadata_faults(folder / "X", group(matrix_attributes(store.array(pack, "y").length, store.d)))
    yield from _strangers(folder, [ROOT, "X", "y"])
    yield from _strangers(folder / "X", [ROOT, "data", "indices", "indptr"])
    for name, kind in ARRAYS.items():
        array = store.array(pack, name)
        yield from _metadata_faults(array.path, array.metadata(ARRAY_ATTRIBUTES, kind.fill_value))
        yield from _chunk_faults(array)
        yield from _strangers(array.path, [ROOT, "c"])
        yield from _strangers(array.path / "c", map(str, range(array.chunks)))


def _metadata_faults(folder: Path, expected: dict[str, Any]) -> Iterator[str]:
    file = folder / ROOT
    try:
        if file.read_bytes() != encoded(expected):
            yield f"{file} is damaged: it is not what was written"
    except FileNotFoundError:
        yield f"{file} is missing"
    except OSError as error:
        yield f"{file} cannot be read: {reason(error)}"


def _strangers(folder: Path, known: Iterable[str]) -> Iterator[str]:
    """Rules 1 and 18: nothing is there that was not written."""
    if folder.is_dir():
        for name in sorted({file.name for file in folder.iterdir()} - set(known)):
            yield f"{folder / name} does not belong to the store"


def _chunk_faults(array: StoredArray) -> Iterator[str]:
    for number in range(array.chunks):
        try:
            array.read_chunk(number)
        except DamagedStore as fault:
            yield str(fault).removesuffix(REMEDY)


def _content_faults(store: ShardStore, pack: int) -> Iterator[str]:
    """Rules 4 to 7, and 16: what is counted of the labels."""
    meta, where = store.meta, store.pack_path(pack)
    first = int(meta.pack_nodes[pack])
    stop = store.n if pack + 1 == meta.packs else int(meta.pack_nodes[pack + 1])
    ends, row = meta.first_row[first + 1 : stop + 1] - meta.first_row[first], 0
    positives = np.zeros(stop - first, np.int64)
    try:
        for block in store.blocks(first, stop):
            yield from (f"{where}/{fault}" for fault in (order_fault(block), values_fault(block)) if fault)
            nodes = np.searchsorted(ends, row + np.flatnonzero(block.y > 0), "right")
            positives += np.bincount(nodes, minlength=len(positives))
            row += block.rows
    except DamagedStore as fault:
        yield str(fault).removesuffix(REMEDY)
        return
    listed = meta.node_positives[first:stop]
    for node in np.flatnonzero(listed != (positives if store.classes else 0)).tolist():
        said = f"{positives[node]} positive labels, but node_positives says {listed[node]}"
        yield f"{where}/y: node {first + node} has {said}"
