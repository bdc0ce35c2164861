"""Rows from a store in any order: compiled reads of exactly the bytes that are wanted, each of them checked.

The checksums of a store cover chunks, and reading a chunk for the sake of one row would cost a thousand times the row.
So the first pass over a node, whose chunks are all verified, notes a digest of every span of rows that will be read
together, and every later read of it is compared. What does not agree is read again some times, then the chunk is
verified, and named.
"""

import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from dtoken.compiled import compiled
from dtoken.data.chunks import DamagedStore
from dtoken.data.files import ATTEMPTS, pause
from dtoken.data.store import ShardStore

ENTRY_BYTES = 12  # of data and indices together
RUN_ENTRIES = 1 << 16  # at most so many entries are read at once: they are still in cache when they are checked
PARTS = 8  # of what is read for each thread: one that got no processor for a while leaves the rest to the others
NAMES, WIDTHS = ("X/data", "X/indices"), (8, 4)
LOOKED_AT = 8  # spans by which one sees whether the system has them in memory

# The C library's own; the address travels as a number.
_pread = types.ExternalFunction("pread", types.intp(types.intc, types.intp, types.intp, types.int64))


class Spans(NamedTuple):
    """What to read, rows or runs of rows, ordered by node and entry, and where to put them."""

    node: NDArray[np.int64]  # place of the node among those of the reader; inside it, of the pack
    entry: NDArray[np.int64]  # first entry inside the node; then inside the pack
    size: NDArray[np.int64]  # entries
    digest: NDArray[np.uint32]  # what `digest_of` must give
    target: NDArray[np.int64]  # where the entries go

    def between(self, start: int, stop: int) -> "Spans":
        """Some of them, as views."""
        part = slice(start, stop)
        return Spans(self.node[part], self.entry[part], self.size[part], self.digest[part], self.target[part])


class RowFiles:
    """The chunk files of some nodes of a store, pack by pack; ``read`` may be called from one thread at a time.

    Parameters
    ----------
    store
        Where the rows are.
    nodes
        Numbers of the nodes whose rows will be read, in increasing order.
    threads
        How many threads read side by side.
    """

    def __init__(self, store: ShardStore, nodes: ArrayLike, threads: int = 1) -> None:
        meta, numbers = store.meta, np.asarray(nodes, np.int64)
        pack = np.searchsorted(meta.pack_nodes, numbers, "right") - 1
        packs, self._place = np.unique(pack, return_inverse=True)  # of each node among the packs that are read
        self._offset = meta.first_entry[numbers] - meta.first_entry[meta.pack_nodes[pack]]  # of each node in its pack
        self._store, self._packs = store, packs.tolist()
        arrays = [store.array(pack, NAMES[0]) for pack in self._packs]
        self._chunk = np.array([array.chunk for array in arrays], np.int64)
        self._first = np.cumsum([0] + [array.chunks for array in arrays])
        self._handles = np.full((2, self._first[-1]), -1, np.int32)
        self._places = (self._chunk, self._first, self._handles, store.d)
        self._open: dict[int, None] = {}  # chunks with open files, the longest unused first
        # two files each, and half of what a process may open is for others
        self._most = max(2, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "dtoken-read") if threads > 1 else None

    def read(self, spans: Spans, data: NDArray[np.float64], indices: NDArray[np.uint32]) -> None:
        """Read rows into ``data`` and ``indices``; DamagedStore where that is not possible."""
        spans = self._in_packs(spans)
        chunks = self._chunks_of(spans)
        start = 0
        while start < len(spans.node):
            stop = int(np.searchsorted(chunks[1], chunks[0][start] + self._most // 2, "left"))
            stop = max(stop, start + 1)
            self._make_open(np.unique(np.concatenate([_distinct(column[start:stop]) for column in chunks])))
            self._read_opened(spans.between(start, stop), data, indices)
            start = stop

    def announce(self, spans: Spans) -> None:
        """Let the system begin to read spans that will be wanted soon, unless it has them in its own memory.

        A disk is as fast as in order only if it knows of many reads at a time. Where a few spans that are looked at are
        all in memory, nothing is asked for: that would take longer than it helps.
        """
        spans = self._in_packs(spans)
        chunks = self._chunks_of(spans)
        stop = int(np.searchsorted(chunks[1], chunks[0][:1].sum() + self._most // 4, "left"))
        if stop == 0 or not hasattr(os, "posix_fadvise"):
            return
        self._make_open(np.unique(np.concatenate([_distinct(column[:stop]) for column in chunks])))
        looked_at = sorted(set(np.linspace(0, stop - 1, LOOKED_AT).astype(np.int64).tolist()))
        if not all(in_page_cache(handle, at) for k in looked_at for handle, at, _ in self._extents(spans, k)):
            for k in range(stop):
                for handle, at, size in self._extents(spans, k):
                    os.posix_fadvise(handle, at, size, os.POSIX_FADV_WILLNEED)

    def _in_packs(self, spans: Spans) -> Spans:
        """Places of nodes become those of packs, where several nodes may lie."""
        return spans._replace(node=self._place[spans.node], entry=spans.entry + self._offset[spans.node])

    def _extents(self, spans: Spans, k: int) -> Iterator[tuple[int, int, int]]:
        """File handle, first byte and bytes of all parts of a span; files that could not be opened are left out."""
        node, entry, left = int(spans.node[k]), int(spans.entry[k]), int(spans.size[k])
        while left > 0:
            number, at = divmod(entry, int(self._chunk[node]))
            count = min(left, int(self._chunk[node]) - at)
            for width, handle in zip(WIDTHS, self._handles[:, self._first[node] + number].tolist(), strict=True):
                if handle >= 0:
                    yield handle, at * width, count * width
            entry, left = entry + count, left - count

    def _chunks_of(self, spans: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the first and the last chunk of each span: it may lie in several."""
        found = np.empty((2, len(spans.node)), np.int64)
        _chunks(spans, self._chunk, self._first, found)
        return found[0], found[1]

    def _make_open(self, chunks: NDArray[np.int64]) -> None:
        for chunk in chunks.tolist():
            self._open.pop(chunk, None)
            self._open[chunk] = None
            if self._handles[0, chunk] < 0 or self._handles[1, chunk] < 0:
                self._reopen(chunk)
        for chunk in list(self._open)[: max(0, len(self._open) - self._most)]:
            self._close(chunk)

    def _reopen(self, chunk: int) -> None:
        self._close(chunk)
        self._open[chunk] = None
        place = int(np.searchsorted(self._first, chunk, "right")) - 1
        for kind, name in enumerate(NAMES):
            array = self._store.array(self._packs[place], name)
            self._handles[kind, chunk] = open_for_reading(array.chunk_path(chunk - int(self._first[place])))

    def _close(self, chunk: int) -> None:
        self._open.pop(chunk, None)
        for kind in (0, 1):
            if self._handles[kind, chunk] >= 0:
                os.close(int(self._handles[kind, chunk]))
                self._handles[kind, chunk] = -1

    def _read_opened(self, spans: Spans, data: NDArray[np.float64], indices: NDArray[np.uint32]) -> None:
        def part(bounds: tuple[int, int]) -> list[int]:
            """Numbers of the spans that could not be read."""
            start, stop = bounds
            failed = []
            while (start := _read(spans, start, stop, *self._places, data, indices)) < stop:
                failed.append(start)
                start += 1
            return failed

        count = 1 if self._pool is None else PARTS * self._threads
        parts = list(pairwise(np.linspace(0, len(spans.node), count + 1).astype(np.int64).tolist()))
        found = map(part, parts) if self._pool is None else self._pool.map(part, parts)
        for number in [number for failed in found for number in failed]:
            self._read_again(spans.between(number, number + 1), data, indices)

    def _read_again(self, span: Spans, data: NDArray[np.float64], indices: NDArray[np.uint32]) -> None:
        """Try a span again and again; at last say what is wrong with its chunks."""
        first, last = (int(column[0]) for column in self._chunks_of(span))
        for attempt in range(ATTEMPTS):
            pause(attempt)
            for chunk in range(first, last + 1):
                self._reopen(chunk)
            if _read(span, 0, 1, *self._places, data, indices) == 1:
                return
        place = int(span.node[0])
        for chunk in range(first, last + 1):
            for name in NAMES:
                self._store.array(self._packs[place], name).read_chunk(chunk - int(self._first[place]))
        folder = self._store.array(self._packs[place], "X/data").path.parent
        raise DamagedStore(f"{folder} cannot be read, or is not what it was at the start; ingest the data again")

    def close(self) -> None:
        """Close all files."""
        for chunk in list(self._open):
            self._close(chunk)
        if self._pool is not None:
            self._pool.shutdown()


def open_for_reading(path: os.PathLike[str]) -> int:
    """A file handle for reads here and there; -1: the file cannot be opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead by the system: we know better
    return handle


def in_page_cache(handle: int, at: int) -> bool:
    """Whether a byte of a file can be read without waiting for a disk."""
    try:
        return os.preadv(handle, [bytearray(1)], at, os.RWF_NOWAIT) == 1
    except OSError:
        return False


def _distinct(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different numbers of a list in increasing order."""
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


@compiled
def _chunks(spans: Any, size: Any, first: Any, out: Any) -> None:
    for k in range(len(spans.node)):
        node = spans.node[k]
        last = first[node + 1] - 1  # that of a span without entries at the very end
        out[0, k] = min(first[node] + spans.entry[k] // size[node], last)
        out[1, k] = min(first[node] + (spans.entry[k] + max(spans.size[k], 1) - 1) // size[node], last)


@compiled
def digest_part(bits: NDArray[np.uint64], indices: NDArray[np.uint32], start: int, stop: int, before: int) -> np.uint64:
    """The share that the entries from ``start`` to before ``stop`` have in the digest of a span.

    ``before`` entries of the span come before; ``bits`` are the values as integers. A sum of products of two halves of
    each entry, both shifted by its place: no term waits for the one before, and the compiler takes several at once.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    values, places, total = bits[start:stop], indices[start:stop], np.uint64(0)
    for k in range(len(values)):
        shift = np.uint64(before + k + 1) * np.uint64(0x9E3779B9)
        spread = np.uint64(places[k]) * np.uint64(0x85EBCA6B)
        total += (((values[k] & low) + shift) & low) * ((((values[k] >> half) ^ spread) + shift) & low)
    return total


@compiled
def digest_of(shares: np.uint64, size: int) -> np.uint32:
    """The digest of a span of ``size`` entries from the sum of all shares."""
    return np.uint32(((shares + np.uint64(size)) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32))


@compiled
def _within(indices: NDArray[np.uint32], d: int) -> bool:
    """Whether all indices are below d: whatever happened to the file, compiled steps stay inside their arrays."""
    largest = np.uint32(0)
    for index in indices:
        largest = max(largest, index)
    return bool(len(indices) == 0 or largest < d)


@compiled
def _read_entries(handle: int, array: Any, width: int, at: int, count: int, target: int) -> bool:
    """Read entries of one file, whatever portions the system gives them in."""
    done = 0
    address = array[target:].ctypes.data
    while done < count * width:
        got = _pread(handle, address + done, count * width - done, at * width + done)
        if got <= 0:
            return False
        done += got
    return True


@compiled
def _read(
    spans: Any, start: int, stop: int, chunk_size: Any, first_chunk: Any, handles: Any, d: int, data: Any, indices: Any
) -> int:
    """Read the spans from ``start`` on; return the first that failed, or ``stop``."""
    bits = data.view(np.uint64)
    while start < stop:
        node, entry, target = spans.node[start], spans.entry[start], spans.target[start]
        end, total = start + 1, spans.size[start]
        while (
            end < stop
            and total + spans.size[end] <= RUN_ENTRIES
            and spans.node[end] == node
            and spans.entry[end] == entry + total
            and spans.target[end] == target + total
        ):
            total += spans.size[end]
            end += 1
        done = 0
        while done < total:
            number = (entry + done) // chunk_size[node]
            at = (entry + done) - number * chunk_size[node]
            count = min(total - done, chunk_size[node] - at)
            chunk = first_chunk[node] + number
            if not _read_entries(handles[0, chunk], data, 8, at, count, target + done):
                return start
            if not _read_entries(handles[1, chunk], indices, 4, at, count, target + done):
                return start
            done += count
        for span in range(start, end):
            low, high = spans.target[span], spans.target[span] + spans.size[span]
            if digest_of(digest_part(bits, indices, low, high, 0), high - low) != spans.digest[span]:
                return span
        if not _within(indices[spans.target[start] : spans.target[start] + total], d):
            return start
        start = end
    return stop
