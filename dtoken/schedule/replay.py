"""Replaying an event log: the same events, and with the same settings the same bits."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.schedule.events import (
    DELIVER,
    DIE,
    FORK,
    GIVEN,
    KINDS,
    LOAD,
    LOCAL,
    MEET,
    MOVE,
    NO_SAMPLE,
    NONE,
    VISIT,
    Events,
)
from dtoken.schedule.failures import NO_FAILURES, Failures
from dtoken.schedule.log import METADATA, SCHEMA, even_tables
from dtoken.schedule.stream import SEGMENT_STEPS, Law, Start, first_start


@dataclass(frozen=True)
class Replayed:
    """A schedule that is read from a log."""

    path: Path
    size: int  # events
    law: Law
    token_start: NDArray[np.int64]  # (K,) the tokens' first nodes
    p_comm: float | None = None  # of the run that was recorded, if the log says so
    seed: int | None = None  # the same
    failing: bool = False  # whether tokens come and go

    def segments(self, start: Start) -> Iterator[tuple[Events, Start]]:
        """Yield the events from ``start`` on, segment by segment."""
        for table in even_tables([self.path], SEGMENT_STEPS, start.segment * SEGMENT_STEPS, self.size):
            events, start = self._events(_columns(table), start)
            yield events, start

    def _events(self, columns: dict[str, NDArray[Any]], start: Start) -> tuple[Events, Start]:
        kind, node, token = columns["kind"], columns["node"].copy(), columns["token"]
        positions, taken = start.positions.copy(), start.jumps.copy()
        source = np.full(len(kind), NONE, np.int32)
        _follow(kind, node, token, columns["other"], source, positions, taken)
        draw = np.where(columns["sample"] >= 0, GIVEN - columns["sample"], NO_SAMPLE)
        at = columns["at"]
        if not (self.law.continuized or self.failing):
            before = round(start.at / self.law.unit)  # steps; a move belongs to the step that follows it
            follows = (kind == MEET) & (self.law.p_here > 0)  # belongs to the visit before it
            ends = (kind != MOVE) & ~follows
            at = self.law.unit * (before + 1 + np.cumsum(ends) - ends - follows)
            last = float(self.law.unit * (before + np.count_nonzero(ends)))
        else:
            last = float(at[-1])
        events = Events(kind, node, source, token, columns["other"], draw, at)
        return events, Start(start.segment + 1, positions, taken, last)


def _columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    """The columns of a table as arrays; kinds as their numbers, -1: unknown."""
    found: dict[str, NDArray[Any]] = {}
    for name in SCHEMA.names:
        column = table[name].combine_chunks()
        if name == "kind":
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            words = column.dictionary.to_pylist()
            codes = np.array([KINDS.index(word) if word in KINDS else NONE for word in words], np.int8)
            found[name] = codes[column.indices.to_numpy(zero_copy_only=False)]
        else:
            wanted = SCHEMA.field(name).type.to_pandas_dtype()
            found[name] = column.to_numpy(zero_copy_only=False).astype(wanted)
    return found


@compiled
def _follow(
    kind: NDArray[np.int8],
    node: NDArray[np.int32],
    token: NDArray[np.int32],
    other: NDArray[np.int32],
    source: NDArray[np.int32],
    positions: NDArray[np.int64],
    taken: NDArray[np.int64],
) -> None:
    """Fill in where tokens come from and where they meet; ``taken`` counts the jumps of each."""
    for event in range(len(kind)):
        if kind[event] == VISIT or kind[event] == MOVE:
            source[event] = positions[token[event]]
            positions[token[event]] = node[event]
            taken[token[event]] += 1
        elif kind[event] == DELIVER:
            source[event] = positions[token[event]]  # a message stays with its node
        elif kind[event] == MEET:
            node[event] = positions[token[event]]
            source[event] = positions[other[event]]
        elif kind[event] == FORK:
            source[event] = node[event]
            positions[other[event]] = node[event]


def open_log(
    path: Path,
    law: Law,
    rows: NDArray[np.int64],
    kinds: Collection[int],
    block_rows: int | None,
    failures: Failures = NO_FAILURES,
) -> Replayed:
    """Open a log, or say why it does not fit.

    Parameters
    ----------
    path
        The log.
    law
        The law of the method that is to replay it.
    rows
        Rows of each node.
    kinds
        The kinds of events that the method has.
    block_rows
        Rows of a sample of the method; None: its local steps use all rows of a node.
    failures
        How tokens come and go: the log says when, this only how many there may be.
    """
    name = f"schedule.replay={path}"
    n, tokens = len(rows), law.tokens
    slots = failures.slots(tokens, n)
    try:
        with pq.ParquetFile(path) as file:
            columns, size = file.schema_arrow.names, file.metadata.num_rows
            facts = json.loads((file.schema_arrow.metadata or {}).get(METADATA, b"{}"))
    except OSError as error:
        reason = (error.strerror or "it is not a parquet file").lower()
        raise InputError(f"{name} cannot be read: {reason}") from None
    except (pa.ArrowException, ValueError):
        raise InputError(f"{name} is not an event log: it is not a parquet file") from None
    if missing := [column for column in SCHEMA.names if column not in columns]:
        raise InputError(f"{name} is not an event log: it has no column {missing[0]}")
    for fact, ours, key in (
        ("n", n, "nodes"),
        ("tokens", tokens, "algorithm.tokens"),
        ("slots", slots, "failures.most"),
    ):
        if facts.get(fact, ours) != ours:
            raise InputError(f"{name} was recorded with {key}={facts[fact]}, this run has {key}={ours}; use the same")
    start = np.array(facts.get("token_start", first_start(n, slots).positions), np.int64)
    alive = np.arange(slots) < tokens
    log = Replayed(path, size, law, start, facts.get("p_comm"), facts.get("seed"), failures.on)
    sizes, positions = np.asarray(rows), start.copy()
    done = 0
    for table in _readable(name, even_tables([path], SEGMENT_STEPS, 0, size)):
        found = _columns(table)
        fault = _fault(found, law, slots, sizes, kinds, block_rows)
        if fault is not None:
            raise InputError(f"{name} does not fit: event {done + fault[0]:,} {fault[1]}")
        if failures.on and (wrong := _ghost(found["kind"], found["token"], found["other"], alive)) >= 0:
            raise InputError(f"{name} does not fit: event {done + wrong:,} has a token that is lost, or there already")
        if law.p_here > 0 and (apart := _apart(found, positions)) is not None:
            raise InputError(
                f"{name} does not fit: event {done + apart:,} is a meeting of tokens at different nodes, as "
                "algorithm.interactions_anywhere has them"
            )
        done += len(found["kind"])
    return log


@compiled
def _ghost(kind: NDArray[np.int8], token: NDArray[np.int32], other: NDArray[np.int32], alive: NDArray[np.bool_]) -> int:
    """The first event of a token that is lost, or a fork to one that is there; -1: none. ``alive`` follows."""
    for event in range(len(kind)):
        k = token[event]
        if k >= 0 and not alive[k]:
            return event
        if kind[event] == FORK:
            if alive[other[event]]:
                return event
            alive[other[event]] = True
        elif kind[event] == DIE:
            alive[k] = False
    return -1


def _readable(name: str, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The tables of a log; InputError: they do not have their checksums."""
    try:
        yield from tables
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{name} is damaged ({error}); record it again") from None


def _apart(columns: dict[str, NDArray[Any]], positions: NDArray[np.int64]) -> int | None:
    """The first meeting, counted from 0, of tokens at different nodes; ``positions`` follows the tokens."""
    kind, node, token, other = (columns[name] for name in ("kind", "node", "token", "other"))
    node, source, taken = node.copy(), np.full(len(kind), NONE, np.int32), np.zeros(len(positions), np.int64)
    _follow(kind, node, token, other, source, positions, taken)
    found = np.flatnonzero((kind == MEET) & (source != node))
    return int(found[0]) if len(found) else None


def _fault(
    columns: dict[str, NDArray[Any]],
    law: Law,
    slots: int,
    rows: NDArray[Any],
    kinds: Collection[int],
    block_rows: int | None,
) -> tuple[int, str] | None:
    """The first event, counted from 0, that cannot happen, and why."""
    kind, node, sample, token, other = (columns[name] for name in ("kind", "node", "sample", "token", "other"))
    n = len(rows)
    jump = (kind == VISIT) | (kind == MOVE) | (kind == LOAD) | (kind == DELIVER)
    changes = (kind == DIE) | (kind == FORK)
    at_node = jump | (kind == LOCAL) | changes
    wrong_node = at_node & ((node < 0) | (node >= n))
    size = rows[np.where(wrong_node | ~at_node, 0, node)]
    with_sample = ((kind == LOCAL) & (block_rows is not None)) | ((kind == VISIT) & law.computing_visits)
    carries, pair = jump | (kind == MEET) | changes, (kind == MEET) | (kind == FORK)
    checks: list[tuple[NDArray[Any], Callable[[int], str]]] = [
        (kind == NONE, lambda e: "is of an unknown kind"),
        (wrong_node, lambda e: f"is at node {node[e]}, but nodes are 0 to {n - 1}"),
        (carries & ((token < 0) | (token >= slots)), lambda e: f"has token {token[e]} of {slots}"),
        (~np.isin(kind, [NONE, *kinds]), lambda e: f"is of the kind {KINDS[kind[e]]}, which this method does not have"),
        (pair & ((other < 0) | (other >= slots) | (other == token)), lambda e: f"has the second token {other[e]}"),
        (with_sample & (sample < 0), lambda e: "has no sample, but this method uses one"),
        (~with_sample & (sample >= 0), lambda e: "has a sample, but this method uses none there"),
        (with_sample & (sample >= size), lambda e: f"uses sample {sample[e]} of a node with {size[e]} rows"),
        (
            with_sample & (sample % (block_rows or 1) != 0),
            lambda e: f"uses row {sample[e]}, in which no block of {block_rows} rows begins",
        ),
    ]
    faults = [(int(np.argmax(wrong)), why) for wrong, why in checks if wrong.any()]
    if not faults:
        return None
    first, why = min(faults, key=lambda fault: fault[0])
    return first, why(first)
