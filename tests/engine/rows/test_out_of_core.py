"""Runs whose rows do not fit into memory: the same bits with any budget, and faults that are told."""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoken.algorithms.dvr import DVR
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.gd import GD
from dtoken.algorithms.nids import NIDS
from dtoken.algorithms.sdca import SDCA
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.algorithms.walkman import Walkman
from dtoken.data import build, chunks, row_files
from dtoken.data.chunks import DamagedStore
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.engine.local import LocalEngine
from dtoken.engine.rows import row_cache
from dtoken.engine.rows.memory import Room
from dtoken.engine.rows.row_cache import RowCache, unit_rows
from dtoken.problem.losses import get_loss
from dtoken.schedule.events import Events
from dtoken.schedule.permuted import slots
from dtoken.schedule.random import below, event_key
from tests.conftest import Rows
from tests.engine.small import setup

NODES, FEATURES = 5, 12
DRAWING = [
    TVR(tokens=2),
    TVR(tokens=2, block_rows=4),
    TVR(tokens=3, compute="on_arrival", sampling="uniform"),
    TAVR(tokens=2),
    DVR(),
    TVR(tokens=2, sampling="permuted", bucket_rows=4),
    TAVR(tokens=2, sampling="permuted", bucket_rows=3),
]
STARTED = [
    TVR(tokens=2, block_rows=4, start="local"),
    TAVR(tokens=2, start="local"),
    DVR(start="labels"),
    Token(tokens=2, block_rows=2, start="local"),
    Token(tokens=2, compute="on_arrival", start="local"),
]
FORESEEN = [SDCA(bucket_rows=3), SDCA(share=0.1, bucket_rows=1), SDCA(share=0.1, sampling="uniform")]
WHOLE = [Token(tokens=2, compute="on_arrival"), Walkman(), NIDS()]
DIVIDED = [Token(tokens=2, block_rows=3), Token(tokens=3, block_rows=1), GD(block_rows=2), EXTRA(block_rows=4)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardStore]:
    """Rows of very different lengths, in chunks of 37 entries: many rows lie in two."""
    rng = np.random.default_rng(3)
    density = rng.uniform(0.05, 1.0, (120, 1))
    dense = rng.standard_normal((120, FEATURES)) * (rng.random((120, FEATURES)) < density)
    dense[::11] = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "CHUNK_ENTRIES", 37)
        patch.setattr(build, "CHUNK_ROWS", 16)
        source = Rows(sp.csr_array(dense), np.where(rng.random(120) < 0.5, 1.0, -1.0))
        yield ingest(source, Partition(NODES), root=tmp_path_factory.mktemp("stores"))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_files, chunks):
        monkeypatch.setattr(module, "pause", lambda attempt: None)


def least_entries(method: Any, store: ShardStore) -> int:
    """Of the arena: two steps, which may use all rows of a node."""
    if method in WHOLE:
        return 2 * max(store.node_nonzeros)
    unit = unit_rows(method)
    return 2 * FEATURES * (max(map(method.reach, store.node_rows)) + unit if method in FORESEEN else unit)


def state_after(case: Any, room: Room | None, threads: int, cuts: list[int]) -> list[Any]:
    events = case.events(400)
    with LocalEngine(case.method, case.constants, case.shards, case.problem.loss, threads, room) as engine:
        for start, stop in zip([0, *cuts], [*cuts, events.size], strict=True):
            engine.run(events.between(start, stop))
        engine.settle()
        measured = engine.measure(float(events.at[-1]), np.ones(FEATURES))
        return [*engine.nodes, *engine.tokens, measured.values, measured.distances]


def happen(engine: LocalEngine, events: Events) -> None:
    engine.run(events)
    engine.settle()


def happen_and_measure(engine: LocalEngine, events: Events) -> None:
    """Twice: the rows of a chunk may have been kept in memory for the first time."""
    for _ in range(2):
        happen(engine, events)
        engine.measure(float(events.at[-1]), np.ones(FEATURES))


class Trouble:
    """Files that are slow, or cannot be opened or read the first times, as random numbers say."""

    def __init__(self, seed: int, slow: float, failing: float) -> None:
        self._random, self._slow, self._failing = random.Random(seed), slow, failing
        self._seen: set[Path] = set()
        self._failures: Counter[Any] = Counter()
        self._open, self._read = row_files.open_for_reading, row_files._read

    def open(self, path: Path) -> int:
        self._wait()
        first = path not in self._seen
        self._seen.add(path)
        return -1 if first and self._random.random() < self._failing else self._open(path)

    def _wait(self) -> None:
        if self._random.random() < self._slow:
            time.sleep(0.002)

    def read(self, spans: Any, start: int, stop: int, *where: Any) -> int:
        """As the compiled one: the first span that failed; no span does so more than twice."""
        self._wait()
        bad = self._random.randrange(start, stop) if start < stop else stop
        what = (int(spans.node[bad]), int(spans.entry[bad])) if start < stop else None
        if what and self._failures[what] < 2 and self._random.random() < self._failing:
            self._failures[what] += 1
            return int(self._read(spans, start, bad, *where))  # bad, or one before it
        return int(self._read(spans, start, stop, *where))


@settings(max_examples=25)
@given(data=st.data())
def test_any_budget_gives_the_same_bits(store: ShardStore, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from([*DRAWING, *FORESEEN, *WHOLE, *DIVIDED]))
    least = least_entries(method, store)
    room = Room(data.draw(st.integers(least, sum(store.node_nonzeros) + 10)), data.draw(st.booleans()))
    threads = data.draw(st.integers(1, 3))
    cuts = sorted(data.draw(st.lists(st.integers(0, 400), max_size=4)))
    slow, failing = data.draw(st.sampled_from([0, 0.1])), data.draw(st.sampled_from([0, 0.5]))
    trouble = Trouble(data.draw(st.integers(0, 99)), slow, failing)
    piece = data.draw(st.sampled_from([1, 60, 10**6]))  # entries of a part of the arena, where a step needs no more
    case = setup(store, method, graph="complete")
    expected = state_after(case, None, 1, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "open_for_reading", trouble.open)
        patch.setattr(row_files, "_read", trouble.read)
        patch.setattr(row_cache, "PIECE_ENTRIES", max(piece, FEATURES * row_cache.unit_rows(method)))
        found = state_after(case, room, threads, cuts)
    for x, y in zip(expected, found, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("method", STARTED, ids=lambda method: f"{type(method).__name__}-{method.start}")
def test_any_budget_gives_the_same_start(store: ShardStore, method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = setup(store, method)
    expected = state_after(case, None, 1, [])
    whole = not (method.draws_samples or method.phases)
    monkeypatch.setattr(row_cache, "PIECE_ENTRIES", 1)
    room = Room(2 * max(store.node_nonzeros) if whole else 2 * FEATURES * row_cache.unit_rows(method))
    assert room.entries < sum(store.node_nonzeros)
    assert all(map(np.array_equal, expected, state_after(case, room, 2, [])))


@pytest.mark.parametrize("method", DIVIDED, ids=["token", "token by rows", "gd", "extra"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_takes_its_node_in_parts_where_memory_does_not_hold_it(
    store: ShardStore, method: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = setup(store, method, graph="complete")
    expected = state_after(case, None, 1, [])
    monkeypatch.setattr(row_cache, "PIECE_ENTRIES", 1)
    room = Room(2 * FEATURES * method.block_rows)
    assert room.entries < max(store.node_nonzeros)
    assert all(map(np.array_equal, expected, state_after(case, room, threads, [150])))


@settings(max_examples=25)
@given(data=st.data())
def test_the_needed_rows_are_in_memory(store: ShardStore, data: st.DataObject) -> None:
    """Whatever is asked for; checked while the bytes for the next piece are already there, but the table is not."""
    entries = data.draw(st.integers(8 * FEATURES, 600))
    nodes = [0, 3, 4]
    shards = [store.shard(node) for node in nodes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "PIECE_ENTRIES", 4 * FEATURES)
        cache = RowCache(store, nodes, get_loss("logistic"), entries, TVR())
    total = sum(store.node_rows[node] for node in nodes)
    pieces = data.draw(st.lists(st.sets(st.integers(0, total - 1), max_size=4), min_size=1, max_size=12))
    before: list[int] = []
    for number, piece in enumerate(pieces):
        later = [np.array(sorted(rows), np.int64) for rows in pieces[number + 1 : number + 4]]
        change = cache.load(np.array(sorted(piece), np.int64), later)
        for rows in (before, sorted(piece)):  # the piece before is still at work
            for row in rows:
                i = int(np.searchsorted(cache.rows.first, row, "right")) - 1
                shard, j = shards[i], row - int(cache.rows.first[i])
                stored, own = slice(*shard.indptr[j : j + 2]), slice(cache.rows.start[row], cache.rows.stop[row])
                assert cache.rows.data[own].tolist() == shard.data[stored].tolist()
                assert cache.rows.indices[own].tolist() == shard.indices[stored].tolist()
            if rows is before:
                cache.commit(change)
        before = sorted(piece)
    cache.close()


def test_what_is_needed_last_is_dropped_first(store: ShardStore) -> None:
    """Rows 0 to 9 again and again, memory for half of them: a cache of the most recent ones would read all again."""
    rows = np.flatnonzero(np.abs(np.diff(store.shard(1).indptr)) > 0)[:10]
    sizes = np.diff(store.shard(1).indptr)[rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "PIECE_ENTRIES", int(sizes.max()))
        cache = RowCache(store, [1], get_loss("logistic"), int(sizes.max()) * 5, TVR())
    turns = [np.array([row]) for row in np.tile(rows, 6)]
    for number, needed in enumerate(turns):
        cache.commit(cache.load(needed, turns[number + 1 : number + 10]))
    cache.close()
    assert cache.entries_read < 0.8 * 6 * sizes.sum()


@pytest.mark.parametrize("kind", ["changed", "truncated"])
@pytest.mark.parametrize("method", [TVR(tokens=2), Token(tokens=2)], ids=["rows", "nodes"])
def test_damage_during_a_run_is_named(store: ShardStore, kind: str, method: Any, tmp_path: Path) -> None:
    case = setup(_copy(store, tmp_path / "copy.zarr"), method)
    chunk = int(store.meta.first_entry[2]) // 37 + 1  # one that node 2 has rows in
    file = case.shards.path / f"packs/0/X/indices/c/{chunk}"
    events = case.events(400)
    room = Room(2 * max(store.node_nonzeros))
    with LocalEngine(method, case.constants, case.shards, case.problem.loss, 2, room) as engine:
        _damage(file, kind)
        with pytest.raises(DamagedStore, match=rf"packs/0/X/indices/c/{chunk} (is damaged|has \d+ bytes)"):
            happen(engine, events)


@pytest.mark.parametrize("seed", range(20))
def test_damage_anywhere_is_named(store: ShardStore, seed: int, tmp_path: Path) -> None:
    """Any file of the rows, any method and budget that cannot hold all: what is read again is never wrong."""
    chance = random.Random(seed)
    method = chance.choice([*DRAWING, *FORESEEN, *WHOLE])
    case = setup(_copy(store, tmp_path / "copy.zarr"), method, graph="complete")
    name = chance.choice(["data", "indices"])
    folder = case.shards.path / f"packs/0/X/{name}/c"
    file = chance.choice(sorted(path for path in folder.iterdir() if path.name.isdigit()))
    least = least_entries(method, store)
    room = Room(chance.randint(least, max(least, sum(store.node_nonzeros) // 3)), chance.random() < 0.5)
    arguments = (method, case.constants, case.shards, case.problem.loss, chance.randint(1, 3), room)
    with LocalEngine(*arguments) as engine:
        _damage(file, chance.choice(["changed", "truncated"]))
        with pytest.raises(DamagedStore, match=rf"packs/0/X/{name}/c/{file.name} (is damaged|has \d+ bytes)"):
            happen_and_measure(engine, case.events(400))


def test_rows_that_never_can_be_read_are_named(store: ShardStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are fine, and yet the reads of some nodes fail, again and again."""
    case = setup(store, TVR(tokens=2))
    read, attempts = row_files._read, Counter[int]()

    def failing(spans: Any, start: int, stop: int, *where: Any) -> int:
        bad = [k for k in range(start, stop) if spans.entry[k] >= store.meta.first_entry[3]]
        attempts.update(int(spans.entry[k]) for k in bad[:1])
        return int(read(spans, start, bad[0] if bad else stop, *where))

    with LocalEngine(case.method, case.constants, store, case.problem.loss, 1, Room(100)) as engine:
        monkeypatch.setattr(row_files, "_read", failing)
        with pytest.raises(DamagedStore, match=r"packs/0/X cannot be read, or is not what it was at the start"):
            happen(engine, case.events(200))
    assert max(attempts.values()) > row_files.ATTEMPTS


def test_a_file_that_comes_back_is_no_damage(store: ShardStore, tmp_path: Path) -> None:
    """Too short at one attempt, whole at the next: the bits are those of an undisturbed run."""
    case = setup(_copy(store, tmp_path / "copy.zarr"), TVR(tokens=2))
    expected = state_after(setup(store, TVR(tokens=2)), None, 1, [])
    files = [file for file in case.shards.path.glob("packs/*/X/*/c/*") if file.name.isdigit()]
    contents = {file: file.read_bytes() for file in files}
    attempts: list[int] = []

    def restore(attempt: int) -> None:
        attempts.append(attempt)
        if attempt == 2:
            for file, content in contents.items():
                file.write_bytes(content)

    events = case.events(400)
    with LocalEngine(case.method, case.constants, case.shards, case.problem.loss, 1, Room(100, False)) as engine:
        for file in files:
            os.truncate(file, 8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_files, "pause", restore)
            happen(engine, events)
        measured = engine.measure(float(events.at[-1]), np.ones(FEATURES))
        found = [*engine.nodes, *engine.tokens, measured.values, measured.distances]
    assert 2 in attempts
    for x, y in zip(expected, found, strict=True):
        assert np.array_equal(x, y)


def test_what_never_can_be_read_is_named(store: ShardStore, monkeypatch: pytest.MonkeyPatch) -> None:
    case = setup(store, TVR(tokens=2))
    attempts: list[Path] = []

    def fail(path: Path) -> int:
        attempts.append(path)
        return -1

    def refuse(file: Path) -> bytes:
        raise OSError(5, "Input/output error")

    room = Room(100, read_ahead=False)
    with LocalEngine(case.method, case.constants, store, case.problem.loss, 1, room) as engine:
        engine._node_rows.pieces.cache._files.close()  # type: ignore[union-attr]
        monkeypatch.setattr(row_files, "open_for_reading", fail)
        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(DamagedStore, match=r"packs/0/X/data/c/\d+ cannot be read: input/output error"):
            happen(engine, case.events(50))
    assert len(attempts) > row_files.ATTEMPTS


def _copy(store: ShardStore, target: Path) -> ShardStore:
    shutil.copytree(store.path, target)
    return ShardStore.open(target)


def _damage(file: Path, kind: str) -> None:
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    if kind == "changed":
        file.write_bytes(content)
    else:
        os.truncate(file, 8)


@pytest.mark.parametrize("method", FORESEEN[1:], ids=["permuted", "uniform"])
def test_visits_read_the_rows_that_they_use_and_no_others(store: ShardStore, method: SDCA) -> None:
    case = setup(store, method)
    events = case.events(300)
    used = np.zeros(NODES, int)
    rows: Counter[tuple[int, int]] = Counter()
    for node, t in zip(events.node.tolist(), events.at.tolist(), strict=True):
        size = store.node_rows[node]
        count = -(-size // 10)
        key = np.uint64(event_key(np.uint64(0), t))
        drawn = [below(key, draw, size) for draw in range(count)]
        chosen = slots(0, node, size, 1, int(used[node]), count).tolist() if method.permuted else drawn
        used[node] += count
        rows.update((node, row) for row in set(chosen))
    lengths = [np.diff(store.shard(node).indptr) for node in range(NODES)]
    room = Room(min(least_entries(method, store), sum(store.node_nonzeros) // 2))
    with LocalEngine(method, case.constants, store, case.problem.loss, 1, room) as engine:
        pieces = engine._node_rows.pieces
        assert pieces is not None
        before = pieces.cache.entries_read
        happen(engine, events)
        read = pieces.cache.entries_read - before
    assert 0 < read <= sum(times * lengths[node][row] for (node, row), times in rows.items())


def test_buckets_are_read_whole_and_once_an_epoch(tmp_path: Path) -> None:
    """However the samples of a bucket are spread over pieces of work: a few reads more where a piece ends in one."""
    source = Synthetic(rows=200, features=FEATURES, seed=1)
    store = ingest(source, Partition(NODES), root=tmp_path)  # nodes that have 16 buckets
    method, spans = TVR(sampling="permuted", bucket_rows=2), []
    case = setup(store, method)
    events = case.events(6000)
    steps = np.count_nonzero(events.draw >= 0)
    room = Room(sum(store.node_nonzeros) // 3)
    with LocalEngine(method, case.constants, store, case.problem.loss, 1, room) as engine:
        pieces = engine._node_rows.pieces
        assert pieces is not None
        cache, read = pieces.cache, pieces.cache._files.read

        def counted(found: Any, *to: Any) -> None:
            spans.append(len(found.node))
            read(found, *to)

        cache._files.read = counted  # type: ignore[method-assign]
        before = cache.entries_read
        happen(engine, events)
        epochs = steps / sum(np.count_nonzero(np.diff(block.indptr)) for i in range(NODES) for block in store.blocks(i))
        assert cache.entries_read - before < 1.1 * epochs * sum(store.node_nonzeros)
    assert sum(spans) < 1.1 * steps / 2  # independent rows would be read one by one


@pytest.mark.parametrize("cached", [True, False])
def test_what_the_next_piece_reads_is_announced_where_a_disk_is_slow(
    store: ShardStore, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = TVR(sampling="permuted", bucket_rows=1)
    case = setup(store, method)
    expected = state_after(case, None, 1, [])
    told: set[tuple[int, int]] = set()
    looked, advise = [], os.posix_fadvise

    def noted(handle: int, at: int, size: int, advice: int) -> None:
        if advice == os.POSIX_FADV_WILLNEED:
            told.update((os.fstat(handle).st_ino, byte) for byte in range(at, at + size))
        advise(handle, at, size, advice)

    def look(handle: int, at: int) -> bool:
        looked.append(at)
        return cached

    monkeypatch.setattr(os, "posix_fadvise", noted)
    monkeypatch.setattr(row_files, "in_page_cache", look)
    monkeypatch.setattr(row_cache, "PIECE_ENTRIES", 60)
    assert all(map(np.array_equal, expected, state_after(case, Room(150), 1, [])))
    assert looked
    entries = sum(store.node_nonzeros)
    assert len(told) <= 12 * entries
    assert (len(told) > 0.9 * 12 * entries) != cached


def test_a_file_in_the_page_cache_is_seen_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with open(tmp_path / "file", "rb") as stream:
        assert stream.read() == b"abc"
        assert row_files.in_page_cache(stream.fileno(), 2)
        assert not row_files.in_page_cache(stream.fileno(), 3)
    assert not row_files.in_page_cache(-1, 0)
