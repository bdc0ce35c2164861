"""Building a store from a source in bounded memory.

1. Read the source once and spool its rows, gathering what only the whole can tell: number of rows, labels,
   indices.
2. Decide labels, first index and partition, and spread the rows over one spool per node.
3. Write the shards, one after the other, and the root last.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dtoken.data.given import take_column
from dtoken.data.labels import LabelCounts, LabelMap, Labels, decide
from dtoken.data.meta import Meta
from dtoken.data.partition import Partition
from dtoken.data.rows import RowBlock, Source
from dtoken.data.spool import NodeSpools, append_frame, read_frames
from dtoken.data.wrapped import add_column
from dtoken.data.writer import Shard, ShardWriter, write_root
from dtoken.errors import InputError

CHUNK_ENTRIES = 1 << 20  # 8 MB of values, 4 MB of indices
CHUNK_ROWS = 1 << 20  # 8 MB of row starts or labels
WRITERS = 2  # shards that are written side by side, each with a chunk of every array in memory
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
    spools = _spread(folder, partition, facts, label_map, base, place, watcher)
    columns = features if constant is None else features + 1

    watcher.stage(f"writing {partition.nodes} shards")
    store = folder / "store"
    shards = []
    with ThreadPoolExecutor(WRITERS, "dtoken-write") as pool:
        for shard in pool.map(lambda node: _write_shard(store, node, columns, spools), range(partition.nodes)):
            shards.append(shard)
            watcher.advance(len(shards) / partition.nodes)
    kept = sum(shard.rows for shard in shards)
    meta = Meta(
        n=partition.nodes,
        d=columns,
        rows=kept,
        nonzeros=sum(shard.nonzeros for shard in shards),
        dropped_rows=facts.rows - kept,
        classes=label_map.classes,
        label_map=label_map.as_dict(),
        index_base=base,
        node_rows=tuple(shard.rows for shard in shards),
        node_nonzeros=tuple(shard.nonzeros for shard in shards),
        node_positives=tuple(shard.positives if label_map.classes else 0 for shard in shards),
        chunk_entries=CHUNK_ENTRIES,
        chunk_rows=CHUNK_ROWS,
        partition=partition.identity(),
        source=identity,
    )
    write_root(store, meta, np.array([each for shard in shards for each in shard.checksums], np.uint32))
    return store


@dataclass
class _Facts:
    """What only the whole source can tell."""

    rows: int = 0
    lowest: int = 2**31
    highest: int = -1
    labels: LabelCounts = field(default_factory=LabelCounts)

    def add(self, block: RowBlock) -> None:
        self.rows += block.rows
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


def _spread(
    folder: Path,
    partition: Partition,
    facts: _Facts,
    label_map: LabelMap,
    base: int,
    place: Callable[[RowBlock], RowBlock],
    watcher: Watcher,
) -> NodeSpools:
    partition.check_rows(facts.rows)
    column = partition.column
    if column is not None and not base <= column <= facts.highest:
        raise InputError(f"partition.column={column}, but features are numbered {base} to {facts.highest}")
    assign = partition.assignment(facts.rows, label_map.positives) if column is None else None
    spools = NodeSpools(folder / "nodes", SPREAD_MEMORY)
    taken, done = np.zeros(partition.nodes, np.int64), 0
    for raw in read_frames(folder / "rows"):
        block = place(raw)
        if assign is not None:
            nodes = assign(block.y)
        elif column is not None:
            block, nodes = take_column(block, column - base, partition.nodes, done)
        taken += np.bincount(nodes[nodes >= 0], minlength=partition.nodes)
        spools.append(block, nodes)
        done += block.rows
        watcher.advance(done / facts.rows)
    if not taken.all():
        raise InputError(
            f"node {int(taken.argmin())} of {partition.nodes} has no rows by partition.column={column}; use another "
            "nodes=N, and number them without gaps"
        )
    spools.flush()
    (folder / "rows").unlink()
    return spools


def _write_shard(store: Path, node: int, features: int, spools: NodeSpools) -> Shard:
    writer = ShardWriter(store, node, features, CHUNK_ENTRIES, CHUNK_ROWS)
    for block in spools.frames(node):
        writer.append(block)
    return writer.close()
