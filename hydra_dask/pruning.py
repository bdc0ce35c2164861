"""How a job tells how well it does while it runs, and learns that it is not worth going on: by two small files.

The job appends what it ``report``s, the driver reads it now and then and leaves a mark where a trial is to end. Files
work wherever the records of jobs do, with any number of workers, and outlive a driver.
"""

import json
import math
from contextvars import ContextVar
from pathlib import Path

from hydra_dask.manifest import RECORDS

# of this job, without suffix; None: nobody listens
JOB_FILES: ContextVar[Path | None] = ContextVar("hydra-launcher-files", default=None)


class Pruned(KeyboardInterrupt):
    """The sweeper has seen enough of this job: what keeps its state at a KeyboardInterrupt does so here, too."""

    status = "pruned"  # its end, which is for good

    @property
    def reason(self) -> str:
        """The sentence."""
        return "stopped by the sweeper's pruner: others did better at this point"


def files_of(directory: Path, index: int) -> Path:
    """Where the two files of a job are, without their suffixes."""
    return directory / RECORDS / str(index)


def report(step: int, value: float) -> None:
    """Tell the sweeper a value of this job at a step; ``Pruned`` is raised if it need not go on.

    Outside of a search this does nothing: no file is written that nobody reads.

    Examples
    --------
    >>> report(1, 0.5)
    """
    place = JOB_FILES.get()
    if place is None:
        return
    with open(place.with_suffix(".reports"), "a", encoding="utf-8") as stream:
        stream.write(json.dumps([step, value if math.isfinite(value) else None]) + "\n")
    if place.with_suffix(".prune").exists():
        raise Pruned


def reports(place: Path, seen: int) -> list[tuple[int, float]]:
    """What a job has reported, without the first ``seen``; a line that is not complete yet is left for later."""
    try:
        lines = place.with_suffix(".reports").read_text(encoding="utf-8").split("\n")[seen:-1]
    except OSError:
        return []
    found = [json.loads(line) for line in lines]
    return [(step, math.inf if value is None else value) for step, value in found]


def prune(place: Path) -> None:
    """Let a job end at its next report."""
    place.with_suffix(".prune").touch()


def forget(place: Path) -> None:
    """Nothing was reported, and nothing is to end: the job begins."""
    for suffix in (".reports", ".prune"):
        place.with_suffix(suffix).unlink(missing_ok=True)
