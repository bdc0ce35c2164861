"""Reading a whole store to find what is damaged, truncated or missing, down to the chunk."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtoken.data.files import reason
from dtoken.data.store import ARRAYS, REMEDY, DamagedStore, ShardStore, StoredArray
from dtoken.data.writer import ARRAY_ATTRIBUTES, encoded, group, matrix_attributes


def verify(store: ShardStore, advance: Callable[[float], None] | None = None) -> list[str]:
    """Return one sentence for each fault; an empty list means that every bit is as it was written.

    Examples
    --------
    >>> verify(ShardStore.open("demo/tiny.zarr"))  # doctest: +SKIP
    []
    """
    faults = [
        *_metadata_faults(store.path, group(store.meta.attributes())),
        *_metadata_faults(store.path / "nodes", group({})),
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
    for name, kind in ARRAYS.items():
        array = store.array(node, name)
        yield from _metadata_faults(array.path, array.metadata(ARRAY_ATTRIBUTES, kind.fill_value))
        yield from _chunk_faults(array)


def _metadata_faults(folder: Path, expected: dict[str, Any]) -> Iterator[str]:
    file = folder / "zarr.json"
    try:
        if file.read_bytes() != encoded(expected):
            yield f"{file} is damaged: it is not what was written"
    except FileNotFoundError:
        yield f"{file} is missing"
    except OSError as error:
        yield f"{file} cannot be read: {reason(error)}"


def _chunk_faults(array: StoredArray) -> Iterator[str]:
    for number in range(array.chunks):
        try:
            array.read_chunk(number)
        except DamagedStore as fault:
            yield str(fault).removesuffix(REMEDY)


def _content_faults(store: ShardStore, node: int) -> Iterator[str]:
    where = f"{store.path}/nodes/{node}"
    for block in store.blocks(node):
        if np.any(np.diff(block.indptr) < 0):
            yield f"{where}/X/indptr decreases"
            return
        if len(block.indices) and (block.indices.min() < 0 or block.indices.max() >= store.d):
            yield f"{where}/X/indices leaves the range 0..{store.d - 1}"
        if not np.isfinite(block.data).all():
            yield f"{where}/X/data holds a value that is not finite"
        if store.classes and not np.isin(block.y, (-1.0, 1.0)).all():
            yield f"{where}/y holds a label other than -1 and +1"
