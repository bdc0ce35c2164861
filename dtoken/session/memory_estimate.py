"""How much memory a run will need, before any of its data are read."""

import math
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from dtoken.config.settings import Settings
from dtoken.data.ingest import default_store_root, store_key
from dtoken.data.remote import open_store
from dtoken.data.row_files import ENTRY_BYTES
from dtoken.data.store import ShardStore
from dtoken.engine.loop.experiment import with_slots
from dtoken.engine.rows.memory import LIMIT_SHARE, MB, PYTHON, MemoryNeed, Room, memory_need
from dtoken.engine.rows.row_cache import unit_rows
from dtoken.errors import InputError, RunError
from dtoken.graph.topologies import build
from dtoken.graph.walks import Walk
from dtoken.schedule.walks.registry import make_walk
from dtoken.text import show_bytes

Counts = NDArray[np.int64]
Sizes = tuple[int, Counts, Counts]


def memory_estimate(settings: Settings, walk: Walk | None = None) -> MemoryNeed | None:
    """What one process of the run needs: this one, or the average worker of a Dask cluster.

    Sizes come from the store if it was made already, else from a source that makes its rows itself. None: nobody knows
    before the data are read. The walk is made unless it is given.

    Examples
    --------
    >>> from dtoken.config.settings import make_settings
    >>> settings = make_settings(data={"kind": "rcv1_like", "rows": 1_000_000}, nodes=500, engine={"memory": "200MB"})
    >>> need = memory_estimate(settings)
    >>> print(need.refusal(200_000_000))
    The state of 500 nodes with 47,236 features and 1,000,000 rows needs 395 MB, ...: 471 MB of the 200 MB budget. Use
    engine.memory>=519MB, or fewer nodes
    """
    sizes = data_sizes(settings)
    return None if sizes is None else _of_process(settings, walk or walk_of(settings), *sizes)


def data_sizes(settings: Settings) -> Sizes | None:
    """Features, and rows and non-zeros of each node: of the store, or expected ones of a source that makes its rows."""
    if isinstance(settings.store, str):
        return _sizes_of(open_store(settings.store, settings.scratch))
    place = (settings.store or default_store_root()) / store_key(settings.training, settings.partition, settings.labels)
    if (place / "zarr.json").exists():
        return _sizes_of(ShardStore.open(place))
    source: Any = settings.source
    if not hasattr(source, "expected_nonzeros"):
        return None
    rows = settings.partition.node_sizes(source.rows)
    nonzeros = np.ceil(rows * (source.expected_nonzeros / source.rows)).astype(np.int64)
    return source.features, rows, nonzeros


def _sizes_of(store: ShardStore) -> Sizes:
    return store.d, store.node_rows, store.node_nonzeros


def store_need(settings: Settings, store: ShardStore, walk: Walk) -> MemoryNeed:
    """The same for a store."""
    return _of_process(settings, walk, *_sizes_of(store))


def _of_process(settings: Settings, walk: Walk, features: int, rows: Counts, nonzeros: Counts) -> MemoryNeed:
    n = len(rows)
    hosted = -(-n // min(settings.engine.processes(settings.cluster), n))
    method, jumps = with_slots(settings.method, settings.failures, n), len(walk.neighbours)
    return memory_need(method, n, features, rows[:hosted], nonzeros[:hosted], jumps)


def walk_of(settings: Settings) -> Walk:
    """The walk of the tokens, before the data are there."""
    graph = settings.graph
    topology = build(graph.kind, settings.partition.nodes, **graph.params)
    return make_walk(topology, graph.walk, graph.stay, graph.law)


def check_state(settings: Settings) -> None:
    """Refuse a run in this process whose nodes' models alone are more than the machine has, before anything is made."""
    features, n = getattr(settings.source, "features", None), settings.partition.nodes
    memory = psutil.virtual_memory().total
    if features is None or not settings.engine.here or 8 * n * features <= memory:
        return
    needed, fits = show_bytes(8 * n * features), memory // (16 * features)
    raise InputError(
        f"nodes={n} with {features:,} features: the models of the nodes alone take {needed}, and this machine has "
        f"{show_bytes(memory)}; use nodes<={fits}, or engine=dask with workers of several machines"
    )


def memory_budget(settings: Settings) -> int | None:
    """Bytes that a process may use, as far as the settings say so.

    Examples
    --------
    >>> from dtoken.config.settings import make_settings
    >>> memory_budget(make_settings(engine="dask", cluster={"kind": "local", "memory": "1GB"}))
    600000000
    """
    budget, limit = settings.engine.budget, settings.engine.worker_memory(settings.cluster)
    return budget if budget is not None or limit is None else int(LIMIT_SHARE * limit)


def check_memory(settings: Settings, need: MemoryNeed | None) -> Room | None:
    """What the budget leaves for rows, None: all fit, as far as that is known; InputError if it is too small."""
    _check_worker(settings, need)
    if need is None:
        return None
    return need.room(memory_budget(settings), settings.engine.read_ahead, workers=not settings.engine.here)


def _check_worker(settings: Settings, need: MemoryNeed | None) -> None:
    """Refuse workers whose memory limit is below what they will use: Dask would kill them."""
    limit = settings.engine.worker_memory(settings.cluster)
    if limit is None:
        return
    least = _worker_least(settings.engine.budget, need)
    if least <= limit:
        return
    share = f"{LIMIT_SHARE:.0%}" if settings.engine.memory is None else f"engine.memory={settings.engine.memory}"
    nodes = f", which need {show_bytes(need.least)} at least" if need else ""
    fits = need is not None and need.least <= limit - PYTHON
    other = f", or engine.memory={(limit - PYTHON) // int(MB)}MB" if fits else ""
    raise InputError(
        f"cluster.memory={getattr(settings.cluster, 'memory', None)} is too little for a worker: Python and its "
        f"libraries take {show_bytes(PYTHON)}, and {share} is for its nodes{nodes}. "
        f"Use cluster.memory>={math.ceil(1.1 * least / MB)}MB{other}"
    )


def _worker_least(budget: int | None, need: MemoryNeed | None) -> int:
    """The smallest memory limit of a worker that uses all of its budget, or as much as it needs."""
    everything, least = (need.everything, need.least) if need else (0, 0)
    if budget is not None:
        return PYTHON + min(everything, budget)
    return int(max(min(PYTHON + everything, PYTHON / (1 - LIMIT_SHARE)), least / LIMIT_SHARE))


def memory_line(settings: Settings, need: MemoryNeed, budget: int | None = None) -> str | None:
    """For the description of a run: what its budget, or that of each worker, goes into."""
    budget = budget or memory_budget(settings)
    if budget is None:
        return None
    room, rows = need.room(budget, workers=True), show_bytes(ENTRY_BYTES * need.nonzeros)
    held = "all"
    if room is not None:
        stretch = f" in stretches of {unit_rows(settings.method)} rows" if settings.method.draws_samples else ""
        reads = f"a pass reads about {show_bytes(reads_a_pass(need, room))}{stretch}"
        held = f"{show_bytes(ENTRY_BYTES * room.entries)} at a time: {reads}"
    given = f"{show_bytes(budget)}{settings.engine.each}"
    state, tables = show_bytes(need.state), show_bytes(need.tables + need.graph)
    return f"{given}: {state} state, {tables} tables, {rows} of rows, {held}"


def reads_a_pass(need: MemoryNeed, room: Room | None) -> int:
    """Bytes to be read for as many gradients as there are rows; what was read last is still in memory."""
    return 0 if room is None else ENTRY_BYTES * (need.nonzeros - room.entries)


def memory_text(settings: Settings) -> str:
    """What a run will need, before its data are there; InputError if its budget is too small."""
    try:
        need = None if isinstance(settings.store, str) else memory_estimate(settings)
    except (InputError, RunError):  # the data are not on this machine, or not as they should be
        need = None
    if need is None:
        return "unknown until the data are ingested"
    check_memory(settings, need)
    found = memory_line(settings, need) or f"about {show_bytes(need.everything)}{settings.engine.each}"
    return f"{found}; beside it {show_bytes(PYTHON)} for Python and its libraries"
