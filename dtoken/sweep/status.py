"""The state of a sweep from what is on disk: for any machine that sees it, whether the driver lives or not."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dtoken.errors import InputError
from dtoken.sweep.stuck import Stuck, as_dict, stuck_in_queue, stuck_lines, stuck_runs
from dtoken.sweep.submit import LOG, queued, submission
from dtoken.text import plural
from hydra_dask.cluster.queue import Entry
from hydra_dask.identity import swept_keys
from hydra_dask.manifest import (
    MANIFEST,
    RUNNING,
    TO_DO,
    WAITING,
    Job,
    Manifest,
    believe_records,
    driver_lives,
    driver_since,
    read_manifest,
)
from hydra_dask.queue_file import read_queue
from hydra_dask.screen import JOBS_SHOWN, clock, closing, counted, in_words, read_progress, short


@dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Parameters
    ----------
    directory
        Of the sweep.
    jobs
        As the manifest has them, brought up to date by what the workers wrote.
    progress
        What running jobs tell about themselves, by index.
    alive
        Whether a driver is at work.
    eta
        Seconds until the end, by the time that jobs took so far; None: not known.
    speed
        Jobs that end in an hour, at the pace since the driver began; None: not known.
    queue
        The jobs of the batch system on which it runs.
    stuck
        Running jobs, by index, and jobs of the queue, by their ids, of which nothing is heard.
    """

    directory: Path
    jobs: list[Job]
    progress: Mapping[int, Mapping[str, Any]]
    alive: bool
    eta: float | None
    speed: float | None
    queue: list[dict[str, Any]]
    stuck: Mapping[int | str, Stuck]

    def as_dict(self) -> dict[str, Any]:
        """The status as a dictionary, for scripts."""
        jobs = [
            asdict(job) | {"progress": self.progress.get(job.index), "stuck": as_dict(self.stuck.get(job.index))}
            for job in self.jobs
        ]
        return {
            "directory": str(self.directory),
            "driver": self.alive,
            "eta": self.eta,
            "speed": self.speed,
            "counts": counted(self.jobs),
            "queue": [job | {"stuck": as_dict(self.stuck.get(job["job"]))} for job in self.queue],
            "jobs": jobs,
        }

    def lines(self) -> list[str]:
        """The status in lines of text, for a person."""
        line = in_words(counted(self.jobs), len(self.jobs))
        found = [line if self.eta is None else f"{line}   ETA {clock(self.eta)}"]
        if self.speed is not None:
            found.append(f"speed      {self.speed:.3g} runs an hour")
        found += queue_lines(self.queue, self.stuck)
        swept = swept_keys([job.overrides for job in self.jobs])
        for job in self.jobs:
            if job.status == RUNNING:
                told = self.progress.get(job.index, {})
                share = f"   {told['fraction']:.0%}" if "fraction" in told else ""
                found.append(f"  #{job.index:<4} {short(job, swept)}   {told.get('text', '')}{share}".rstrip())
                found += stuck_lines(self.stuck.get(job.index))
        found += closing(self.jobs, self.directory)[1:]
        if not self.alive and any(job.status in TO_DO for job in self.jobs):
            found.append(f"no driver is at work; dtoken-sweep resume {shlex.quote(str(self.directory))}")
        return found


def queue_lines(
    queue: Sequence[Mapping[str, Any]], stuck: Mapping[int | str, Stuck] = MappingProxyType({})
) -> list[str]:
    """Jobs of a batch system: how many are at work, and of the others why not, and what they printed last.

    Examples
    --------
    >>> waits = {"kind": "slurm", "job": "18", "works": False, "state": "PD", "reason": "Resources"}
    >>> queue_lines([waits | {"job": "17", "works": True}, waits])
    ['queue      2 slurm jobs, 1 at work', '  18     PD (Resources)']
    """
    if not queue:
        return []
    kind, works = queue[0]["kind"], sum(job["works"] for job in queue)
    lines = [f"queue      {plural(len(queue), f'{kind} job')}, {works} at work"]
    waiting = [job for job in queue if not job["works"]]
    for job in waiting[:JOBS_SHOWN]:
        lines.append(f"  {job['job']:<6} {Entry(job['state'], job['reason'])}")
        lines += stuck_lines(stuck.get(job["job"]))
    return lines + ([f"  and {len(waiting) - JOBS_SHOWN:,} more"] if len(waiting) > JOBS_SHOWN else [])


def manifest_of(directory: Path) -> Manifest:
    """The manifest of a sweep; an InputError where there is none."""
    try:
        manifest = read_manifest(directory)
    except ValueError as error:
        raise InputError(str(error)) from error
    if manifest is None and (driver := submission(directory)) is not None:
        entry = queued(driver)
        state = f"{directory / LOG} says why it ended, if it did" if entry is None else str(entry)
        raise InputError(
            f"the sweep in {directory} has not begun: its driver is {driver.kind} job {driver.job}; {state}"
        )
    if manifest is None:
        raise InputError(f"{directory} is not the directory of a sweep: it has no manifest.json")
    return manifest


def manifest_to_run(directory: Path, trust: bool) -> Manifest:
    """The manifest of a sweep whose command is to be run again.

    It says what is run and where, and somebody else may have written it: unless the user says ``trust``, it must be the
    user's own.
    """
    manifest, me = manifest_of(directory), os.getuid()
    if trust or all(path.stat().st_uid == me for path in (directory, directory / MANIFEST)):
        return manifest
    raise InputError(
        f"{directory} belongs to somebody else, and going on would run, as you: cd {manifest.cwd} && "
        f"{shlex.join(manifest.command)}; if that is fine, say --trust before the directory"
    )


def sweep_status(directory: Path) -> Status:
    """How far the sweep in ``directory`` is.

    Examples
    --------
    >>> print(sweep_status(Path("multirun/tokens")).lines()[0])  # doctest: +SKIP
    29/36 done   5 running   1 failed   1 waiting   ETA 0:02:10
    """
    manifest = manifest_of(directory)
    believe_records(manifest)
    alive = driver_lives(directory)
    for job in manifest.jobs:
        if job.status == RUNNING and not alive:  # its worker died with the driver, or soon will
            job.status = WAITING
    running = [job for job in manifest.jobs if job.status == RUNNING]
    progress = {job.index: read_progress(directory, job) for job in running}
    if not alive:
        return Status(directory, manifest.jobs, progress, alive, None, None, [], {})
    queue = read_queue(directory)
    return Status(
        directory,
        manifest.jobs,
        progress,
        alive,
        _eta(manifest.jobs, progress),
        _speed(manifest.jobs, driver_since(directory)),
        queue,
        stuck_runs(directory, running) | stuck_in_queue(directory, queue),
    )


def _eta(jobs: Sequence[Job], progress: Mapping[int, Mapping[str, Any]]) -> float | None:
    """By the mean time of finished jobs, as many at a time as run now, and what these have done already."""
    taken = [_seconds(job) for job in jobs if job.status not in (WAITING, RUNNING) and job.started and job.ended]
    running = [job for job in jobs if job.status == RUNNING]
    left = sum(job.status == WAITING for job in jobs) + len(running)
    if not taken or not left or not running:
        return None
    done = sum(float(progress.get(job.index, {}).get("fraction") or 0.0) for job in running)
    return sum(taken) / len(taken) * (left - done) / len(running)


def _speed(jobs: Sequence[Job], since: str | None) -> float | None:
    """Jobs that end in an hour, at the pace since the driver began."""
    if since is None:
        return None
    ended = [job for job in jobs if job.status not in (WAITING, RUNNING) and (job.ended or "") > since]
    hours = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds() / 3600
    return len(ended) / hours if ended and hours > 0 else None


def _seconds(job: Job) -> float:
    assert job.started is not None
    assert job.ended is not None
    return (datetime.fromisoformat(job.ended) - datetime.fromisoformat(job.started)).total_seconds()
