"""Checkpoints: everything that a run needs to go on, in one zarr group that is complete or absent.

The driver's part (where the schedule is, clocks, trajectory) stands at the top, the state of nodes and tokens below
``state``, one group for each host that wrote it. Which ones belong to it stands at the top, too: a worker that was
stopped while it saved may leave something there when it wakes up.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtoken.engine.arrays import previous, read_arrays, replace_folder, write_arrays
from dtoken.errors import RunError
from dtoken.schedule.clock import Clock
from dtoken.schedule.stream import Start

NAME = "checkpoint.zarr"
STATE = "state"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Checkpoint:
    """A consistent cut of a run; the state of nodes and tokens is left to the engine."""

    identity: str  # of the run that it belongs to
    start: Start  # of the segment in which the cut lies
    offset: int  # events of that segment that are done
    clock: Clock
    t: float  # time of the last event
    wall: float  # seconds so far
    records: list[dict[str, Any]]  # the trajectory so far


def save_checkpoint(directory: Path, checkpoint: Checkpoint, save_state: Callable[[Path, Path], Sequence[str]]) -> None:
    """Write a checkpoint in place of the one before.

    ``save_state`` is called with a folder to write the state to, and the name that the folder will have; it returns
    the names of the parts that it wrote.
    """
    start = checkpoint.start
    arrays = {f"clock/{name}": array for name, array in checkpoint.clock._asdict().items()}
    attributes = {
        "format_version": FORMAT_VERSION,
        "identity": checkpoint.identity,
        "segment": start.segment,
        "at": start.at.hex(),
        "offset": checkpoint.offset,
        "t": checkpoint.t.hex(),
        "wall": checkpoint.wall,
        "records": json.dumps(checkpoint.records),
    }

    def write(folder: Path) -> None:
        (folder / STATE).mkdir(parents=True)
        hosts = save_state(folder / STATE, directory / NAME / STATE)
        write_arrays(
            folder,
            arrays | {"start/positions": start.positions, "start/jumps": start.jumps},
            attributes | {"hosts": list(hosts)},
        )

    replace_folder(directory / NAME, write)


def load_checkpoint(directory: Path) -> tuple[Checkpoint, list[Path]] | None:
    """The checkpoint of a run directory, if there is one, and where the parts of its state are."""
    path = directory / NAME
    if not path.exists():
        path = previous(path)  # killed between the two renames of an exchange
        if not path.exists():
            return None
    try:
        return _read(path)
    except Exception as error:  # zarr and its codecs raise many kinds
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> RunError:
    """What to say of a checkpoint that cannot be read."""
    return RunError(f"{path} is damaged ({error}); delete it to start the run anew")


def _read(path: Path) -> tuple[Checkpoint, list[Path]]:
    read, attributes = read_arrays(path)
    if attributes["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format version is {attributes['format_version']}")
    parts = [path / STATE / host for host in attributes["hosts"]]
    if not all(part.is_dir() for part in parts):
        raise ValueError("the state of some hosts is missing")
    start = Start(attributes["segment"], read["start/positions"], read["start/jumps"], float.fromhex(attributes["at"]))
    checkpoint = Checkpoint(
        identity=attributes["identity"],
        start=start,
        offset=attributes["offset"],
        clock=Clock(*(read[f"clock/{name}"] for name in Clock._fields)),
        t=float.fromhex(attributes["t"]),
        wall=attributes["wall"],
        records=json.loads(attributes["records"]),
    )
    return checkpoint, parts
