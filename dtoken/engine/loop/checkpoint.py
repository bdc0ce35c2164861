"""Checkpoints: everything that a run needs to go on, in ``checkpoint.bin``, which is complete or absent.

It holds the driver's part (where the schedule is, clocks, trajectory), and the state of nodes and tokens if this
process hosts them. Otherwise every host writes its part of the state to a file in ``checkpoint.parts`` first,
and ``checkpoint.bin`` says which ones belong to it. Every file has the number of its cut, which is unique: parts of
different cuts are never put together. The files of the cut before are deleted last.
"""

import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtoken.engine.loop.packed import damaged, read_packed, write_packed
from dtoken.engine.loop.parts import STATE, Part, PartFile, part_arrays
from dtoken.engine.loop.recorder import COLUMNS, OPTIONAL, Record, columns_of
from dtoken.errors import InputError, RunError
from dtoken.schedule.clock import Clock
from dtoken.schedule.stream import Start

NAME, PARTS = "checkpoint.bin", "checkpoint.parts"
FORMER = "checkpoint.zarr"  # what checkpoints were before
FORMAT_VERSION = 5


@dataclass(frozen=True)
class Checkpoint:
    """A consistent cut of a run; the state of nodes and tokens is left to the engine."""

    identity: str  # of the run that it belongs to
    start: Start  # of the segment in which the cut lies
    offset: int  # events of that segment that are done
    clock: Clock
    t: float  # time of the last event
    wall: float  # seconds so far
    records: list[Record]  # the trajectory so far


def save_checkpoint(
    directory: Path, checkpoint: Checkpoint, save_state: Callable[[Path, str], Part | Sequence[str]]
) -> None:
    """Write a checkpoint in place of the one before.

    ``save_state`` is called with a folder and the number of the cut. It returns the state, or the names of the files to
    which hosts wrote theirs in that folder.
    """
    cut = uuid.uuid4().hex
    attributes = {
        "format_version": FORMAT_VERSION,
        "identity": checkpoint.identity,
        "offset": checkpoint.offset,
        "t": checkpoint.t,
        "wall": checkpoint.wall,
    }
    arrays = {f"clock/{name}": array for name, array in checkpoint.clock._asdict().items()}
    for name, value in checkpoint.start._asdict().items():
        arrays[f"start/{name}"] = np.asarray(value)
    for name in columns_of(checkpoint.records):
        arrays[f"records/{name}"] = np.array([getattr(record, name) for record in checkpoint.records])
    try:
        directory.mkdir(parents=True, exist_ok=True)
        state = save_state(directory / PARTS, cut)
        inside, names = (part_arrays(state), None) if isinstance(state, Part) else ({}, list(state))
        write_packed(directory / NAME, arrays | inside, attributes | {"cut": cut, "parts": names})
        _tidy(directory / PARTS, names or ())
    except OSError as error:
        raise RunError(f"cannot write {directory / NAME}: {error.strerror or error}") from error


def _tidy(folder: Path, names: Sequence[str]) -> None:
    """Remove the files of earlier cuts, and of attempts that came to nothing."""
    if not names:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file in folder.iterdir():
        if file.name not in names:
            file.unlink(missing_ok=True)


def load_checkpoint(directory: Path) -> tuple[Checkpoint, list[PartFile]] | None:
    """The checkpoint of a run directory, if there is one, and where the parts of its state are."""
    path = directory / NAME
    if not path.exists():
        if (directory / FORMER).exists():
            raise InputError(
                f"{directory / FORMER} is a checkpoint of an earlier version of dtoken, which this one cannot read; "
                "delete it to start the run anew, or continue with that version"
            )
        return None
    arrays, attributes = read_packed(path, lambda name: not name.startswith(STATE))
    try:
        return _from(path, arrays, attributes)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from error


def _from(path: Path, arrays: dict[str, Any], attributes: dict[str, Any]) -> tuple[Checkpoint, list[PartFile]]:
    if attributes["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format version is {attributes['format_version']}")
    names = attributes["parts"]
    files = [path] if names is None else [path.parent / PARTS / name for name in names]
    start = {name: arrays[f"start/{name}"] for name in Start._fields}
    names_of_columns = (*COLUMNS, *(name for name in OPTIONAL if f"records/{name}" in arrays))
    columns = [arrays[f"records/{name}"].tolist() for name in names_of_columns]
    checkpoint = Checkpoint(
        identity=attributes["identity"],
        start=Start(**{name: array if array.ndim else array.item() for name, array in start.items()}),
        offset=attributes["offset"],
        clock=Clock(*(arrays[f"clock/{name}"] for name in Clock._fields)),
        t=float(attributes["t"]),
        wall=float(attributes["wall"]),
        records=[Record(**dict(zip(names_of_columns, row, strict=True))) for row in zip(*columns, strict=True)],
    )
    return checkpoint, [PartFile(file, attributes["cut"]) for file in files]
