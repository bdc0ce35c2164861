"""How much memory a run will need, before any of its data are read."""

from collections.abc import Sequence

from dtoken.config.sections import Local
from dtoken.config.settings import Settings
from dtoken.data.ingest import default_store_root, store_key
from dtoken.data.remote import open_store
from dtoken.data.row_files import ENTRY_BYTES
from dtoken.data.store import ShardStore
from dtoken.engine.memory import MemoryNeed, memory_need, parse_memory, show

Sizes = tuple[int, Sequence[int], Sequence[int]]


def memory_estimate(settings: Settings) -> MemoryNeed | None:
    """What one process of the run needs: this one, or the average worker of a Dask cluster.

    Sizes come from the store if it was made already, else from a source that knows its size; then ``nonzeros`` is 0.
    None: nobody knows before the data are read.

    Examples
    --------
    >>> from dtoken.config.settings import make_settings
    >>> settings = make_settings(data={"kind": "rcv1_like", "rows": 1_000_000}, nodes=500, engine={"memory": "200MB"})
    >>> need = memory_estimate(settings)
    >>> print(need.refusal(200_000_000))
    The state of 500 nodes with 47,236 features and 1,000,000 rows needs 395 MB, ...: 468 MB of the 200 MB budget. Use
    engine.memory>=515MB, fewer nodes, or more workers
    """
    sizes = data_sizes(settings)
    return None if sizes is None else _of_process(settings, *sizes)


def data_sizes(settings: Settings) -> Sizes | None:
    """Features, and rows and non-zeros of each node: of the store, or of a source that knows them (non-zeros are 0)."""
    if isinstance(settings.store, str):
        return _sizes_of(open_store(settings.store, settings.scratch))
    place = (settings.store or default_store_root()) / store_key(settings.source, settings.partition, settings.labels)
    if (place / "zarr.json").exists():
        return _sizes_of(ShardStore.open(place))
    rows, features = getattr(settings.source, "rows", None), settings.source.features
    if rows is None or features is None:
        return None
    n = settings.partition.nodes
    return features, [rows // n] * n, [0] * n


def _sizes_of(store: ShardStore) -> Sizes:
    return store.d, store.node_rows, store.node_nonzeros


def store_need(settings: Settings, store: ShardStore) -> MemoryNeed:
    """The same for a store."""
    return _of_process(settings, *_sizes_of(store))


def _of_process(settings: Settings, features: int, rows: Sequence[int], nonzeros: Sequence[int]) -> MemoryNeed:
    n = len(rows)
    workers = 1 if isinstance(settings.engine, Local) else getattr(settings.cluster, "workers", None) or 1
    hosted = -(-n // min(workers, n))
    return memory_need(settings.method, n, features, rows[:hosted], nonzeros[:hosted])


def memory_line(settings: Settings, need: MemoryNeed) -> str | None:
    """For the description of a run that has a budget: what the budget goes into."""
    budget = parse_memory("engine.memory", settings.engine.memory)
    if budget is None:
        return None
    room, rows = need.room(budget), show(ENTRY_BYTES * need.nonzeros)
    held = "all" if room is None else f"{show(ENTRY_BYTES * room.entries)} at a time"
    return f"{show(budget)}: {show(need.state)} state, {show(need.tables)} tables, {rows} of rows, {held}"
