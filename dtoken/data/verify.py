"""Reading a whole store to find what is damaged, missing or against the rules of its format, down to the chunk."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtoken.data.chunks import ARRAYS, REMEDY, DamagedStore, StoredArray
from dtoken.data.files import reason
from dtoken.data.meta import CHECKSUMS, ROOT
from dtoken.data.rules import order_fault, values_fault
from dtoken.data.store import ShardStore
from dtoken.data.writer import ARRAY_ATTRIBUTES, encoded, group, list_metadata, matrix_attributes


def verify(store: ShardStore, advance: Callable[[float], None] | None = None) -> list[str]:
    """Return one sentence for each fault; an empty list means that every bit is as it was written, and may be used.

    Examples
    --------
    >>> verify(ShardStore.open("demo/tiny.zarr"))  # doctest: +SKIP
    []
    """
    nodes = store.path / "nodes"
    faults = [
        *_metadata_faults(store.path, group(store.meta.attributes(store.checksums))),
        *_metadata_faults(store.path / CHECKSUMS, list_metadata(store.checksums)),
        *_metadata_faults(nodes, group({})),
        *_strangers(store.path, [ROOT, CHECKSUMS, "nodes"]),
        *_strangers(store.path / CHECKSUMS, [ROOT, "c"]),
        *_strangers(store.path / CHECKSUMS / "c", ["0"]),
        *_strangers(nodes, [ROOT, *map(str, range(store.n))]),
    ]
    for node in range(store.n):
        found = list(_node_faults(store, node))
        # The contents are only looked at where every byte is right: damage would be reported twice.
        faults += found or list(_content_faults(store, node))
        if advance is not None:
            advance((node + 1) / store.n)
    return faults


def _node_faults(store: ShardStore, node: int) -> Iterator[str]:
    folder = store.path / "nodes" / str(node)
    yield from _metadata_faults(folder, group({}))
    yield from _metadata_faults(folder / "X", group(matrix_attributes(store.node_rows[node], store.d)))
    yield from _strangers(folder, [ROOT, "X", "y"])
    yield from _strangers(folder / "X", [ROOT, "data", "indices", "indptr"])
    for name, kind in ARRAYS.items():
        array = store.array(node, name)
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


def _content_faults(store: ShardStore, node: int) -> Iterator[str]:
    """Rules 4 to 7, and 16: what is counted of the labels."""
    where, positives = f"{store.path}/nodes/{node}", 0
    try:
        for block in store.blocks(node):
            yield from (f"{where}/{fault}" for fault in (order_fault(block), values_fault(block)) if fault)
            positives += int(np.count_nonzero(block.y > 0))
    except DamagedStore as fault:
        yield str(fault).removesuffix(REMEDY)
        return
    listed = store.meta.node_positives[node]
    if listed != (positives if store.classes else 0):
        yield f"{where}/y has {positives} positive labels, but node_positives says {listed}"
