"""The event log: what happened, in order, in a file that other tools read and that another run can replay.

``events.parquet`` has the columns ``kind`` (local, visit, meet, move, load, deliver, die, fork), ``node``, ``sample``,
``token``, ``other`` and ``at``, -1 where a column does not apply. ``at`` is the time of events of a continuized run, or
of one that loses tokens; otherwise times follow from the order. The tokens' first nodes are in the file's metadata.

While a run goes on, its log consists of parts, each complete, one from checkpoint to checkpoint. A run that is taken up
again drops what it wrote after its last checkpoint, so that the log is the one of a run that was never interrupted.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import RunError
from dtoken.schedule.arrow import arrow_array
from dtoken.schedule.events import KINDS, LOCAL, MEET, NO_SAMPLE, NONE, VISIT, Events
from dtoken.schedule.samples import Samples, row_of
from hydra_dask.durable import sync_file, sync_folder, write_complete

NAME = "events.parquet"
GROUP = 1 << 17  # events of a row group
METADATA = b"dtoken"
FORMAT: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
SCHEMA = pa.schema(
    [
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("node", pa.int32()),
        ("sample", pa.int64()),
        ("token", pa.int32()),
        ("other", pa.int32()),
        ("at", pa.float64()),
    ]
)

Resolve = Callable[[Events], NDArray[np.int64]]  # the sample of each event, -1: none


class LogWriter:
    """Writes the log of a run into its directory.

    Parameters
    ----------
    directory
        The run directory.
    facts
        What a replay has to know: n, tokens, token_start and so on, as JSON values.
    resolve
        Which samples the events use.
    continuized
        Whether the events have times of their own.
    """

    def __init__(self, directory: Path, facts: dict[str, Any], resolve: Resolve, continuized: bool) -> None:
        self._file = directory / NAME
        self._parts = directory / f".{NAME}.parts"
        self._schema = SCHEMA.with_metadata({METADATA: json.dumps(facts).encode()})
        self._resolve, self._continuized = resolve, continuized
        self._written = 0  # events in all parts
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []

    def begin(self, events: int) -> None:
        """The run goes on after this many events: forget the others."""
        self._parts.mkdir(parents=True, exist_ok=True)
        parts = self._finished()
        if not parts and events and self._file.exists():  # the log of a run that was finished, and is continued
            self._copy([self._file], self._parts / _part_name(0, events), events)
            parts = self._finished()
        for part in parts:
            if _bounds(part)[1] > events:
                part.unlink()
        ends = [_bounds(part)[1] for part in self._finished()]
        self._written = max(ends, default=0)
        if self._written != events:
            raise RunError(
                f"the log in {self._parts.parent} ends at event {self._written:,}, its checkpoint at {events:,}; "
                "delete both to start the run anew"
            )

    def add(self, events: Events) -> None:
        """These events happened."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._parts / "current", self._schema, **FORMAT)
            self._first = self._written
        self._waiting.append(_table(events, self._resolve(events), self._continuized, self._schema))
        self._written += events.size
        if sum(table.num_rows for table in self._waiting) >= GROUP:
            self._flush()

    def checkpoint(self) -> None:
        """All that was added so far is going to be part of a checkpoint."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None
            sync_file(self._parts / "current")
            (self._parts / "current").rename(self._parts / _part_name(self._first, self._written))
            sync_folder(self._parts)

    def finish(self) -> None:
        """Put the parts together."""
        self.checkpoint()
        self._copy(self._finished(), self._file, self._written)
        shutil.rmtree(self._parts)

    def _flush(self) -> None:
        if self._writer is not None and self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).unify_dictionaries())
            self._waiting = []

    def _finished(self) -> list[Path]:
        return sorted(self._parts.glob("*.part"), key=_bounds)

    def _copy(self, sources: list[Path], target: Path, events: int) -> None:
        """One file of even row groups from several, with their first ``events`` events."""

        def write(file: BinaryIO) -> None:
            with pq.ParquetWriter(file, self._schema, **FORMAT) as writer:
                for table in even_tables(sources, GROUP, 0, events):
                    writer.write_table(table.replace_schema_metadata(self._schema.metadata))

        write_complete(target, write)


def _part_name(first: int, last: int) -> str:
    return f"{first}-{last}.part"


def _bounds(part: Path) -> tuple[int, int]:
    first, last = part.stem.split("-")
    return int(first), int(last)


def even_tables(files: list[Path], size: int, first: int, last: int) -> Iterator[pa.Table]:
    """The rows from ``first`` to before ``last`` of several files, in tables of ``size`` rows, but the last one."""
    waiting: list[pa.Table] = []
    rows, skip, left = 0, first, last - first
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for group in range(parquet.num_row_groups):
                here = parquet.metadata.row_group(group).num_rows
                if skip >= here:
                    skip -= here
                    continue
                table = parquet.read_row_group(group, columns=SCHEMA.names).slice(skip, left)
                skip, left = 0, left - table.num_rows
                waiting.append(table)
                rows += table.num_rows
                if rows >= size:
                    whole = pa.concat_tables(waiting).unify_dictionaries()
                    while rows >= size:
                        yield whole.slice(0, size)
                        whole, rows = whole.slice(size), rows - size
                    waiting = [whole]
                if left == 0:
                    break
    if rows:
        yield pa.concat_tables(waiting).unify_dictionaries()


def _table(events: Events, sample: NDArray[np.int64], continuized: bool, schema: pa.Schema) -> pa.Table:
    kinds = pa.DictionaryArray.from_arrays(arrow_array(events.kind), pa.array(KINDS))
    node = np.where(events.kind == MEET, NONE, events.node)
    at = events.at if continuized else np.full(events.size, float(NONE))
    columns = (node.astype(np.int32), sample, events.token, events.other, at)
    return pa.Table.from_arrays([kinds, *map(arrow_array, columns)], schema=schema)


def samples_of(samples: Samples, first_row: NDArray[np.int64]) -> Resolve:
    """How a host of all nodes finds the sample of each event."""
    return lambda events: _samples_of(events, samples, first_row)


@compiled
def _samples_of(events: Events, samples: Samples, first_row: NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.full(len(events.kind), -1)
    for event in range(len(events.kind)):
        kind, i = events.kind[event], events.node[event]
        if kind in (LOCAL, VISIT) and events.draw[event] != NO_SAMPLE:
            row = row_of(samples, first_row, i, events.draw[event])
            if row >= 0:
                found[event] = row - first_row[i]
    return found
