"""Submit and leave: the driver of a sweep as a job of the batch system whose jobs are its workers."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dtoken.errors import InputError
from hydra_dask.cluster import CLUSTERS, Cluster, Jobs
from hydra_dask.cluster.driver import Driver
from hydra_dask.cluster.queue import Entry, Queue, number

NAME = "dtoken-sweep"
LOG, LOGS, RECORD = "driver.log", "workers", "driver.json"  # in the sweep directory


@dataclass(frozen=True)
class Resources:
    """What the driver's job asks for; it computes nothing, but must last as long as the sweep.

    Parameters
    ----------
    walltime
        Longest time; a sweep that needs longer is resumed.
    memory
        Of the process.
    queue
        None: that of the workers.
    """

    walltime: str = "24:00:00"
    memory: str = "2GB"
    queue: str | None = None


@dataclass(frozen=True)
class Submission:
    """A driver in the queue: the batch system and the job's id there."""

    kind: str
    job: str


def batch_system(cluster: Cluster, directory: Path) -> Jobs:
    """The cluster, if it is a batch system, and the sweep in ``directory`` has no driver there that waits or runs."""
    if not isinstance(cluster, Jobs):
        raise InputError(
            f"cluster={cluster.kind} has no queue to submit to; use cluster=slurm, pbs, lsf, sge, htcondor or oar, or "
            "start the sweep here with dtoken -m"
        )
    before = submission(directory)
    if before is not None and before.kind == cluster.kind and queued(before) is not None:
        raise InputError(f"{directory} has a driver already, {before.kind} job {before.job}")
    return cluster


def driver(arguments: Sequence[str], cwd: Path, directory: Path, resources: Resources) -> Driver:
    """The job that runs ``python ARGUMENTS`` in ``cwd``, where no programs are looked for, for ``directory``."""
    return Driver(
        (sys.executable, "-P", *arguments),
        cwd,
        directory / LOG,
        directory / LOGS,
        NAME,
        resources.walltime,
        resources.memory,
    )


def submit(cluster: Cluster, arguments: Sequence[str], cwd: Path, directory: Path, resources: Resources) -> Submission:
    """Submit the driver of the sweep in ``directory``, unless it has one that waits or runs."""
    system = batch_system(cluster, directory)
    directory.mkdir(parents=True, exist_ok=True)
    if resources.queue is not None:
        system = replace(system, queue=resources.queue)
    try:
        job = driver(arguments, cwd, directory, resources).submit(system)
    except ValueError as error:
        raise InputError(str(error)) from error
    made = Submission(system.kind, job)
    (directory / RECORD).write_text(json.dumps(asdict(made)) + "\n")
    return made


def submission(directory: Path) -> Submission | None:
    """The last driver that was submitted for a sweep directory."""
    try:
        return Submission(**json.loads((directory / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def queued(driver: Submission) -> Entry | None:
    """What the batch system says of a driver that waits or runs; None: it does not know it, or does not answer."""
    listing: Queue = CLUSTERS[driver.kind].listing

    async def ask() -> Entry | None:
        job = number(driver.job)
        entry = (await listing.jobs() or {}).get(job)
        return None if entry is None else await listing.explained(job, entry)

    return asyncio.run(ask())
