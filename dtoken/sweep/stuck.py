"""What of a sweep seems to be stuck: runs, and jobs of a batch system, of which nothing is heard; their last lines."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from dtoken.text import duration
from hydra_dask.cluster.waiting import last_lines
from hydra_dask.manifest import PROGRESS, Job
from hydra_dask.options import LOGS

SECONDS = 300.0  # of silence
LINES = 3


class Stuck(NamedTuple):
    """Nothing was heard for so many seconds; the last lines of what it has printed, and where they are."""

    seconds: float
    file: Path | None
    lines: list[str]


def stuck_runs(directory: Path, running: Sequence[Job]) -> dict[int | str, Stuck]:
    """Runs that have neither told how far they are nor printed anything for long, by index."""
    found: dict[int | str, Stuck] = {}
    for job in running:
        log = directory / job.log
        silence = min(_age(directory / job.folder / PROGRESS), _age(log), _since(job.started))
        if SECONDS < silence < float("inf"):
            found[job.index] = Stuck(silence, log, last_lines(log, LINES))
    return found


def stuck_in_queue(directory: Path, queue: Sequence[Mapping[str, Any]]) -> dict[int | str, Stuck]:
    """Jobs of a batch system that have no worker for long, by their ids."""
    found: dict[int | str, Stuck] = {}
    for job in queue:
        silence = _since(job.get("since"))
        if job["works"] or not SECONDS < silence < float("inf"):
            continue
        printed = sorted((directory / LOGS).glob(f"*[-.o]{job['job']}*"), key=_age)
        file = next((path for path in printed if path.stat().st_size), None)
        found[str(job["job"])] = Stuck(silence, file, [] if file is None else last_lines(file, LINES))
    return found


def stuck_lines(stuck: Stuck | None) -> list[str]:
    """The same for a person.

    Examples
    --------
    >>> stuck_lines(Stuck(720.0, Path("0/dtoken.log"), ["reading rows"]))
    ['        nothing is heard of it for 12 min 0 s; 0/dtoken.log ends with', '        | reading rows']
    """
    if stuck is None:
        return []
    ends = f"; {stuck.file} ends with" if stuck.lines else ""
    head = f"        nothing is heard of it for {duration(stuck.seconds)}{ends}"
    return [head, *(f"        | {line}" for line in stuck.lines)]


def as_dict(stuck: Stuck | None) -> dict[str, Any] | None:
    """The same for JSON."""
    if stuck is None:
        return None
    return {"seconds": stuck.seconds, "file": None if stuck.file is None else str(stuck.file), "lines": stuck.lines}


def _age(path: Path) -> float:
    """Seconds since a file was written; infinite: there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def _since(moment: str | None) -> float:
    return time.time() - datetime.fromisoformat(moment).timestamp() if moment else float("inf")
