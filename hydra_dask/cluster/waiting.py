"""Jobs of a batch system from which there is no worker yet, in words."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra_dask.cluster.queue import Entry

NAMED = 3  # jobs by their numbers
TAIL = 8192  # bytes at the end of a file among which its last line is


class Wait(NamedTuple):
    """A job: whether its worker is at work, what the batch system says of it, and for how many seconds it is there.

    ``since`` is when it was submitted, in UTC.
    """

    job: str
    works: bool
    entry: Entry
    seconds: float
    since: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        said = {"state": self.entry.state, "reason": self.entry.reason}
        return {"job": self.job, "works": self.works, **said, "since": self.since}


def in_words(kind: str, waits: Sequence[Wait]) -> str:
    """A sentence about jobs of the batch system ``kind`` that have no worker.

    Examples
    --------
    >>> in_words("slurm", [Wait("17", False, Entry("PD", "Resources"), 62.0)])
    'slurm job 17 has no worker yet, after 62 s: PD (Resources)'
    """
    if not waits:
        return f"{kind} has none of the jobs in its queue"
    shown = [wait.job for wait in waits[:NAMED]] + ([f"{len(waits) - NAMED} more"] if len(waits) > NAMED else [])
    jobs = f"job {shown[0]} has" if len(shown) == 1 else f"jobs {', '.join(shown[:-1])} and {shown[-1]} have"
    states = ", ".join(dict.fromkeys(str(wait.entry) for wait in waits))
    return f"{kind} {jobs} no worker yet, after {_span(max(wait.seconds for wait in waits))}: {states}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def last_words(folder: Path) -> str:
    """Where jobs print, and the last line of the newest file there."""
    files = [path for path in folder.glob("*") if path.is_file() and path.stat().st_size]
    if not files:
        return f"; what jobs print is in {folder}"
    newest = max(files, key=lambda path: path.stat().st_mtime)
    lines = last_lines(newest, 1)
    return f"; {newest} ends with: {lines[-1]}" if lines else f"; what jobs print is in {folder}"


def last_lines(file: Path, count: int) -> list[str]:
    """The last lines of a file that are not empty; none, if it is not there."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - TAIL))
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()][-count:]
