"""Building a store from a source in bounded memory.

1. Read the source once and spool its rows, gathering what only the whole can tell: number of rows, labels,
   indices.
2. Decide labels, first index and partition, and spread the rows over spools of consecutive nodes.
3. Write the packs, one after the other, and the root last.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.data.given import take_column
from dtoken.data.labels import LabelCounts, LabelMap, Labels, decide
from dtoken.data.meta import Meta
from dtoken.data.partition import Partition
from dtoken.data.ranges import joined
from dtoken.data.rows import RowBlock, Source, cut
from dtoken.data.spool import NodeSpools, append_frame, read_frames
from dtoken.data.wrapped import add_column
from dtoken.data.writer import PackWriter, write_root
from dtoken.errors import InputError

CHUNK_ENTRIES = 1 << 20  # 8 MB of values, 4 MB of indices
CHUNK_ROWS = 1 << 20  # 8 MB of row starts or labels
CHUNKS = 32  # of an array: where there would be more, chunks are longer
LONGER = 4  # at most so many times
PACK_ENTRIES = 1 << 26  # of a pack of several nodes, and of its rows; 0: each node has a pack of its own
LARGE_NODE = 1 << 20  # entries, or rows, of a node that shares its pack with no other: whole chunks are its own
SPREAD_MEMORY = 32 << 20


def _ignore(_: object) -> None:
    pass


@dataclass(frozen=True)
class Watcher:
    """What a caller wants to be told while a store is made; the default is silent."""

    stage: Callable[[str], None] = _ignore  # a new stage begins
    advance: Callable[[float], None] = _ignore  # the stage is done to this fraction
    note: Callable[[str], None] = _ignore  # something the user should know


def build(source: Source, partition: Partition, labels: Labels, folder: Path, watcher: Watcher) -> Path:
    """Build the store of ``source`` somewhere below the empty ``folder`` and return where."""
    identity = source.identity()
    watcher.stage(f"reading {source.name}")
    facts = _spool(source, folder / "rows", watcher)
    if source.identity() != identity:
        raise InputError(f"{source.name} changed while it was read; try again when it is complete")
    label_map = decide(facts.labels.values(), labels, source.name)
    base = _index_base(source, facts)
    features = _features(source, facts, base)
    constant = getattr(source, "constant", None)

    def place(raw: RowBlock) -> RowBlock:
        """Rows as they are stored: features count from 0, labels as decided, a constant column at the end."""
        block = raw._replace(indices=raw.indices - np.int32(base), y=label_map.apply(raw.y))
        return block if constant is None else add_column(block, features, constant)

    watcher.stage(f"spreading {facts.rows:,} rows")
    spread = _spread(folder, partition, facts, label_map, base, place, watcher)
    columns = features if constant is None else features + 1
    kept, nonzeros = int(spread.rows.sum()), spread.spools.nonzeros
    meta = Meta(
        n=partition.nodes,
        d=columns,
        rows=kept,
        nonzeros=int(nonzeros.sum()),
        dropped_rows=facts.rows - kept,
        classes=label_map.classes,
        label_map=label_map.as_dict(),
        index_base=base,
        node_rows=spread.rows,
        node_nonzeros=nonzeros,
        node_positives=spread.positives,
        chunk_entries=_chunk(CHUNK_ENTRIES, int(nonzeros.sum())),
        chunk_rows=_chunk(CHUNK_ROWS, kept),
        partition=partition.identity(),
        source=identity,
        pack_nodes=joined(np.maximum(spread.rows, nonzeros), PACK_ENTRIES, min(PACK_ENTRIES, LARGE_NODE)),
    )
    watcher.stage(f"writing {kept:,} rows of {partition.nodes:,} nodes")
    store = folder / "store"
    write_root(store, meta, np.array(_write_packs(store, meta, spread.spools, watcher), np.uint32))
    return store


def _chunk(size: int, elements: int) -> int:
    """Elements of a chunk: more in a large store, so that its files stay few."""
    longer = 1
    while longer < LONGER and elements > CHUNKS * longer * size:
        longer *= 2
    return longer * size


def _write_packs(store: Path, meta: Meta, spools: NodeSpools, watcher: Watcher) -> list[int]:
    """Write all packs; the checksums of their chunks."""
    ends = np.append(meta.first_row[meta.pack_nodes[1:]], meta.rows).tolist()
    checksums: list[int] = []
    pack, row, writer = 0, 0, PackWriter(store, 0, meta.d, meta.chunk_entries, meta.chunk_rows)
    for block in spools.blocks():
        start = 0
        while start < block.rows:
            stop = min(block.rows, start + ends[pack] - row)
            writer.append(cut(block, start, stop))
            row, start = row + stop - start, stop
            if row == ends[pack]:
                checksums += writer.close()
                pack += 1
                if pack < meta.packs:
                    writer = PackWriter(store, pack, meta.d, meta.chunk_entries, meta.chunk_rows)
        watcher.advance(row / meta.rows)
    return checksums


@dataclass
class _Facts:
    """What only the whole source can tell."""

    rows: int = 0
    size: int = 0  # bytes
    lowest: int = 2**31
    highest: int = -1
    labels: LabelCounts = field(default_factory=LabelCounts)

    def add(self, block: RowBlock) -> None:
        self.rows += block.rows
        self.size += block.nbytes
        self.labels.add(block.y)
        if len(block.indices):
            self.lowest = min(self.lowest, int(block.indices.min()))
            self.highest = max(self.highest, int(block.indices.max()))


def _spool(source: Source, file: Path, watcher: Watcher) -> _Facts:
    facts = _Facts()
    for block in source.blocks(advance=watcher.advance):
        facts.add(block)
        append_frame(file, block)
    if facts.rows == 0:
        raise InputError(f"{source.name} has no rows")
    return facts


def _index_base(source: Source, facts: _Facts) -> int:
    if source.index_base is not None:
        if facts.lowest < source.index_base:
            raise InputError(
                f"{source.name} has index {facts.lowest}, but its first feature has index {source.index_base}"
            )
        return source.index_base
    return 0 if facts.lowest == 0 else 1


def _features(source: Source, facts: _Facts, base: int) -> int:
    needed = max(1, facts.highest - base + 1)
    if source.features is None:
        return needed
    if source.features < needed:
        raise InputError(
            f"features={source.features}, but {source.name} has index {facts.highest}; use features>={needed}"
        )
    return source.features


class _Spread(NamedTuple):
    """The rows by nodes, and what is counted of each."""

    spools: NodeSpools
    rows: NDArray[np.int64]
    positives: NDArray[np.int64]


def _spread(
    folder: Path,
    partition: Partition,
    facts: _Facts,
    label_map: LabelMap,
    base: int,
    place: Callable[[RowBlock], RowBlock],
    watcher: Watcher,
) -> _Spread:
    partition.check_rows(facts.rows)
    column = partition.column
    if column is not None and not base <= column <= facts.highest:
        raise InputError(f"partition.column={column}, but features are numbered {base} to {facts.highest}")
    assign = partition.assignment(facts.rows, label_map.positives) if column is None else None
    sizes = partition.node_sizes(facts.rows) if column is None else _sizes_by_column(folder, partition, column)
    spools = NodeSpools(folder / "nodes", sizes, facts.size / facts.rows, SPREAD_MEMORY)
    positives, done = np.zeros(partition.nodes, np.int64), 0
    for raw in read_frames(folder / "rows"):
        block = place(raw)
        if assign is not None:
            nodes = assign(block.y)
        elif column is not None:
            block, nodes = take_column(block, column - base, partition.nodes, done)
        if label_map.classes:
            positives += np.bincount(nodes[(nodes >= 0) & (block.y > 0)], minlength=partition.nodes)
        spools.append(block, nodes)
        done += block.rows
        watcher.advance(done / facts.rows)
    spools.flush()
    (folder / "rows").unlink()
    return _Spread(spools, sizes, positives)


def _sizes_by_column(folder: Path, partition: Partition, column: int) -> NDArray[np.int64]:
    """Rows of each node where a column has its number."""
    sizes, done = np.zeros(partition.nodes, np.int64), 0
    for raw in read_frames(folder / "rows"):
        _, nodes = take_column(raw, column, partition.nodes, done)
        sizes += np.bincount(nodes, minlength=partition.nodes)
        done += raw.rows
    if not sizes.all():
        raise InputError(
            f"node {int(sizes.argmin())} of {partition.nodes} has no rows by partition.column={column}; use another "
            "nodes=N, and number them without gaps"
        )
    return sizes
