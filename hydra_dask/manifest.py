"""What is on disk about the jobs of a sweep: the manifest, written by the driver, and a record by each job's worker.

A worker writes the record of its job before it says that the job is over. So whatever happens to the driver, no
finished job is lost: a driver that takes the sweep up again believes the records. Everything is complete or absent.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra_dask.durable import write_complete
from hydra_dask.locks import Held, locked

FORMAT = 1
MANIFEST, RECORDS = "manifest.json", ".jobs"
PROGRESS = "progress.json"  # what a job may write into its folder: {"text": ..., "fraction": 0..1}
WAITING, RUNNING, DONE, FAILED, LEFT = "waiting", "running", "done", "failed", "left"
HELD = "held"  # of an attempt that found another one still at work
TO_DO = (WAITING, RUNNING, FAILED)  # a sweep that is run again runs these again
SAVE_SECONDS = 1.0  # between two versions of the manifest while jobs run


@dataclass
class Job:
    """A job of a sweep, as the manifest has it.

    Parameters
    ----------
    id
        Hash of the resolved configuration: the same job in every order of values and every grid.
    index
        Hydra's job number.
    folder, log
        Output directory and log, relative to the directory of the sweep.
    overrides
        What distinguishes the job on the command line.
    status
        ``waiting``, ``running``, ``done``, ``failed``, or a word that the job gave its own end: it failed for good.
    attempts
        How often it was started.
    error
        Why it failed, in a sentence.
    started, ended
        When, in UTC.
    """

    id: str
    index: int
    folder: str
    overrides: list[str]
    status: str = WAITING
    attempts: int = 0
    error: str | None = None
    log: str = ""
    started: str | None = None
    ended: str | None = None


@dataclass
class Manifest:
    """All jobs of a sweep directory."""

    directory: Path
    command: list[str] = field(default_factory=list)
    cwd: str = ""
    created: str = ""
    jobs: list[Job] = field(default_factory=list)
    _saved: float = 0.0

    def save(self) -> None:
        """Write ``manifest.json``."""
        head = {"format": FORMAT, "command": self.command, "cwd": self.cwd, "created": self.created}
        write_json(self.directory / MANIFEST, head | {"jobs": [vars(job) for job in self.jobs]})
        self._saved = time.monotonic()

    def save_soon(self) -> None:
        """Write it unless that was done a moment ago: sweeps can be large."""
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self.save()


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of a sweep directory; None where there is none.

    Raises
    ------
    ValueError
        If there is one that cannot be understood.
    """
    path = directory / MANIFEST
    known = {entry.name for entry in fields(Job)}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"{path} has format {content['format']}; this version reads format {FORMAT}")
        jobs = [Job(**{key: value for key, value in job.items() if key in known}) for job in content["jobs"]]
        return Manifest(directory, content["command"], content["cwd"], content["created"], jobs)
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"{path} is damaged; delete it, or use another hydra.sweep.dir") from None


def record_path(directory: Path, index: int) -> Path:
    """Where the record of a job is."""
    return directory / RECORDS / f"{index}.json"


def write_record(directory: Path, index: int, record: Mapping[str, Any], durable: bool = False) -> None:
    """Write the record of a job; ``durable``: it survives a power failure, as what it vouches for does."""
    write_json(record_path(directory, index), record, durable)


def read_record(directory: Path, job: Job) -> dict[str, Any] | None:
    """What the worker of a job wrote about it; None: nothing, or about another job."""
    try:
        record: dict[str, Any] = json.loads(record_path(directory, job.index).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("id") == job.id else None


def believe_records(manifest: Manifest) -> None:
    """Bring a manifest up to date whose driver may be dead: records are newer; a folder that is gone is not done."""
    for job in manifest.jobs:
        if job.status != DONE and (record := read_record(manifest.directory, job)):
            attempt = record.get("attempt", 0)  # a later one may not have told anything yet
            unjudged = attempt > job.attempts or (attempt == job.attempts and job.status != FAILED)
            job.attempts = max(job.attempts, attempt)
            job.started, job.ended = record.get("started"), record.get("ended")
            if record["status"] not in (RUNNING, LEFT):
                job.status, job.error = record["status"], record.get("error")
            elif unjudged:  # by a driver, which knows how the worker ended that could not tell any more
                job.status = RUNNING if record["status"] == RUNNING else WAITING
        if job.status not in TO_DO and not (manifest.directory / job.folder).is_dir():
            job.status, job.error, job.attempts, job.started, job.ended = WAITING, None, 0, None, None


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_json(path: Path, content: Any, durable: bool = True) -> None:
    """Put JSON into the place of ``path``, complete or not at all; ``durable``: also if the machine loses its power."""
    text = json.dumps(content, separators=(",", ":"), default=str)
    write_complete(path, lambda stream: stream.write(text.encode()), durable=durable)


@contextmanager
def only_driver(directory: Path) -> Iterator[None]:
    """Be the only driver of a sweep directory.

    Raises
    ------
    ValueError
        If there is another one, which lives.
    """
    (directory / RECORDS).mkdir(parents=True, exist_ok=True)
    who = directory / RECORDS / "driver.json"
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(directory / RECORDS / "driver.lock"))
        except Held as other:
            raise ValueError(
                f"{other.holder} is running the sweep in {directory}; wait for it, or stop it first"
            ) from None
        stack.callback(who.unlink, missing_ok=True)
        write_json(who, {"pid": os.getpid(), "host": os.uname().nodename, "since": now()}, durable=False)
        yield


def driver_lives(directory: Path) -> bool:
    """Whether a driver holds the sweep directory."""
    if not (directory / RECORDS / "driver.json").exists():
        return False
    try:
        with locked(directory / RECORDS / "driver.lock"):
            return False
    except (Held, OSError):  # OSError: a directory of somebody else, for reading only
        return True


def driver_since(directory: Path) -> str | None:
    """Since when the driver that holds the sweep directory is at work, in UTC; None: that is not known."""
    try:
        found = json.loads((directory / RECORDS / "driver.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found["since"])
