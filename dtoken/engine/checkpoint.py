"""Checkpoints: everything that a run needs to go on, in one zarr group that is complete or absent."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import RunError
from dtoken.schedule.clock import Clock
from dtoken.schedule.stream import Start

NAME = "checkpoint.zarr"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A consistent cut of a run."""

    identity: str  # of the run that it belongs to
    start: Start  # of the segment in which the cut lies
    offset: int  # events of that segment that are done
    clock: Clock
    t: float  # time of the last event
    wall: float  # seconds so far
    state: dict[str, NDArray[Any]]  # of the engine
    records: list[dict[str, Any]]  # the trajectory so far


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of the one before."""
    arrays = {f"state/{name}": array for name, array in checkpoint.state.items()}
    arrays |= {f"clock/{name}": array for name, array in checkpoint.clock._asdict().items()}
    arrays["start/positions"] = checkpoint.start.positions
    attributes = {
        "format_version": FORMAT_VERSION,
        "identity": checkpoint.identity,
        "segment": checkpoint.start.segment,
        "jumps": checkpoint.start.jumps,
        "at": checkpoint.start.at.hex(),
        "offset": checkpoint.offset,
        "t": checkpoint.t.hex(),
        "wall": checkpoint.wall,
        "records": json.dumps(checkpoint.records),
        "arrays": sorted(arrays),
    }
    write_group(directory / NAME, arrays, attributes)


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """The checkpoint of a run directory, if there is one."""
    path = directory / NAME
    if not path.exists():
        path = _previous(path)  # killed between the two renames of an exchange
        if not path.exists():
            return None
    try:
        return _read(path)
    except Exception as error:  # zarr and its codecs raise many kinds
        raise RunError(f"{path} is damaged ({error}); delete it to start the run anew") from error


def _read(path: Path) -> Checkpoint:
    import zarr

    group = zarr.open_group(path, mode="r")
    attributes: dict[str, Any] = dict(group.attrs)
    if attributes["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format version is {attributes['format_version']}")
    read = {}
    for name, array in _arrays(group):
        if array.nchunks_initialized < array.nchunks:  # zarr would fill in zeros
            raise ValueError(f"data of {name} are missing")
        read[name] = np.array(array[...])
    if sorted(read) != attributes["arrays"]:
        raise ValueError("arrays are missing")
    start = Start(attributes["segment"], read["start/positions"], attributes["jumps"], float.fromhex(attributes["at"]))
    return Checkpoint(
        identity=attributes["identity"],
        start=start,
        offset=attributes["offset"],
        clock=Clock(*(read[f"clock/{name}"] for name in Clock._fields)),
        t=float.fromhex(attributes["t"]),
        wall=attributes["wall"],
        state={name.removeprefix("state/"): array for name, array in read.items() if name.startswith("state/")},
        records=json.loads(attributes["records"]),
    )


def write_group(path: Path, arrays: dict[str, NDArray[Any]], attributes: dict[str, Any]) -> None:
    """Write arrays with checksums as a zarr group, to a temporary name first."""
    import zarr
    from zarr.codecs import Crc32cCodec

    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    for leftover in path.parent.glob(f".{path.name}.*.partial"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        group = zarr.open_group(partial, mode="w", attributes=attributes)
        for name, array in arrays.items():
            chunks = tuple(max(1, size) for size in array.shape)
            target = group.create_array(
                name, shape=array.shape, chunks=chunks, dtype=array.dtype, compressors=[Crc32cCodec()],
                config={"write_empty_chunks": True},
            )  # fmt: skip
            target[...] = array
        exchange(partial, path)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def exchange(new: Path, path: Path) -> None:
    """Put the folder ``new`` in the place of ``path``; at every moment the old or the new one can be found."""
    old = _previous(path)
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def _arrays(group: Any, prefix: str = "") -> list[tuple[str, Any]]:
    import zarr

    found = []
    for name, member in group.members():
        if isinstance(member, zarr.Array):
            found.append((prefix + name, member))
        else:
            found += _arrays(member, f"{prefix}{name}/")
    return found
