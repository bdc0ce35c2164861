"""Jobs of a batch system as workers, by dask-jobqueue."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hydra_plugins.dask_launcher.cluster.connection import (
    DASHBOARD,
    Connection,
    check_positive,
    dashboard,
    in_words,
    quiet,
    temporary_security,
)

LOST_WORKER_SECONDS = "2s"  # until a job that died is replaced


@dataclass(frozen=True)
class Jobs:
    """Jobs of a batch system, one worker each.

    Parameters
    ----------
    workers
        How many jobs; one that dies is replaced.
    cores
        Processors of each job.
    memory
        Memory of each job, as ``4GB``.
    queue
        Queue or partition; None: the system's default, or that of dask-jobqueue's configuration.
    account
        Account or project that pays; None: the system's default.
    walltime
        Longest time of a job, as ``01:00:00``; None: as dask-jobqueue's configuration says.
    interface
        Network interface of scheduler and workers, as ``ib0``; None: the default one.
    tls
        Whether connections are encrypted, with credentials made for this run.
    shared
        Folder that all nodes see, for these credentials; None: ``.dtoken`` in the home directory.
    logs
        Folder for what jobs print; None: as the system does.
    dashboard
        Where the dashboard listens.
    options
        Anything else that the class of dask-jobqueue understands, by its name there.
    """

    workers: int = 2
    cores: int = 1
    memory: str = "4GB"
    queue: str | None = None
    account: str | None = None
    walltime: str | None = "01:00:00"
    interface: str | None = None
    tls: bool = True
    shared: Path | None = None
    logs: Path | None = None
    dashboard: str = DASHBOARD
    options: Any = None
    kind: ClassVar[str] = ""
    system: ClassVar[str] = ""  # the class of dask-jobqueue
    names: ClassVar[dict[str, str]] = {}  # of our keys there, where they differ; "": it has no such thing

    def __post_init__(self) -> None:
        check_positive("workers", self.workers)
        check_positive("cores", self.cores)
        if not isinstance(self.options, dict | None):
            raise ValueError(
                "cluster.options must be keys and values, as in '+cluster.options.job_extra_directives=[...]'"
            )
        for key, name in self.names.items():
            if not name and getattr(self, key) != getattr(type(self), key):
                raise ValueError(f"cluster.{key} means nothing to {self.kind}; leave it away, or see cluster.options")

    def arguments(self) -> dict[str, Any]:
        """What the class of dask-jobqueue is called with."""
        given = {"queue": self.queue, "account": self.account, "walltime": self.walltime}
        renamed = {self.names.get(key, key): value for key, value in given.items() if value is not None}
        renamed.pop("", None)
        shared = self.shared or Path.home() / ".dtoken"
        if self.tls:
            shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        return {
            "cores": self.cores,
            "memory": self.memory,
            "processes": 1,
            "interface": self.interface,
            "security": temporary_security() if self.tls else None,
            "shared_temp_directory": os.fspath(shared),
            "log_directory": None if self.logs is None else os.fspath(self.logs),
            "scheduler_options": {"dashboard_address": self.dashboard},
            "worker_extra_args": ["--no-dashboard"],
            **renamed,
            **(self.options or {}),
        }

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Start a scheduler in this process and ask the batch system for the workers."""
        import dask
        import dask_jobqueue
        from distributed import Client

        system: Any = getattr(dask_jobqueue, self.system)
        command = system.job_cls.submit_command.split()[0]
        if shutil.which(command) is None:
            raise ValueError(f"cluster={self.kind} needs the command {command}, which is not on this machine")
        with quiet(), dask.config.set({"distributed.deploy.lost-worker-timeout": LOST_WORKER_SECONDS}):
            try:
                cluster = system(**self.arguments())
            except (OSError, ValueError, RuntimeError) as error:
                raise RuntimeError(f"cluster={self.kind} could not be started: {str(error).strip()}") from error
            with cluster, Client(cluster) as client:
                cluster.adapt(minimum_jobs=self.workers, maximum_jobs=self.workers)  # scale() would not replace any
                where = f"{self.kind}, {self.cores} core{'s' if self.cores > 1 else ''} and {self.memory} each"
                text = in_words(self.workers, "job", where, self.tls)
                yield Connection(client, text, dashboard(cluster, self.dashboard), waits_in_queue=True)


class Slurm(Jobs):
    """SLURM."""

    kind, system = "slurm", "SLURMCluster"


class PBS(Jobs):
    """PBS and Torque."""

    kind, system = "pbs", "PBSCluster"


class LSF(Jobs):
    """LSF."""

    kind, system = "lsf", "LSFCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}


class SGE(Jobs):
    """Sun Grid Engine and its descendants."""

    kind, system = "sge", "SGECluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}


class HTCondor(Jobs):
    """HTCondor; ``cluster.options.disk`` is the disk space of each job."""

    kind, system = "htcondor", "HTCondorCluster"
    names: ClassVar[dict[str, str]] = {"queue": "", "account": "", "walltime": ""}

    def arguments(self) -> dict[str, Any]:
        """What the class of dask-jobqueue is called with: it insists on an amount of disk space."""
        return {"disk": "1GB", **super().arguments()}


class OAR(Jobs):
    """OAR."""

    kind, system = "oar", "OARCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
