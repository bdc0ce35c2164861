"""Jobs of a batch system as workers, by dask-jobqueue."""

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hydra_dask.cluster import jobqueue
from hydra_dask.cluster.arrays import Form
from hydra_dask.cluster.connection import (
    DASHBOARD,
    Connection,
    check_positive,
)
from hydra_dask.cluster.credentials import file_security
from hydra_dask.cluster.ports import Ports
from hydra_dask.cluster.queue import Queue
from hydra_dask.cluster.size import Size, Wanted
from hydra_dask.cluster.walltime import lifetime

if TYPE_CHECKING:
    from distributed import Security


LEAVING = "hydra_dask.cluster._leaving"
PYTHON = f"{shlex.quote(sys.executable)} -P"
ROOM = 300_000_000  # bytes of a job beside its workers: the process that watches them, and what grows before it looks
COMMAND = "hydra_dask.cluster._batch_worker"
NOBODY_THERE = "unable to contact|could not establish|cannot connect"  # how systems say that they do not answer
LISTS = {"job_extra_directives", "job_script_prologue", "worker_extra_args", "job_directives_skip"}  # among options
# What a job gets from keys of ours, never from options.
OURS = {"processes", "nanny", "cores", "memory", "queue", "account", "project", "walltime", "security", "python"} | {
    "interface",
    "log_directory",
    "local_directory",
    "shared_temp_directory",
    "worker_command",
}


@dataclass(frozen=True)
class Jobs:
    """Workers in jobs of a batch system.

    Parameters
    ----------
    workers
        How many workers; ``2..16``: two at first, and up to 16 as those that were asked for start and work is left.
    jobs
        In how many jobs; None: every worker has its own. A job that is lost is replaced.
    nodes
        On how many machines the workers of each job are; more than one needs ``jobs``.
    array
        Whether jobs are submitted together, as an array of the batch system.
    cores
        Processors of each worker.
    memory
        Memory of each worker, as ``4GB``; a job asks for 300 MB more, for what watches them.
    queue
        Queue or partition; None: the system's default, or that of dask-jobqueue's configuration.
    account
        Account or project that pays; None: the system's default.
    walltime
        Longest time of a job, as ``01:00:00``; None: as dask-jobqueue's configuration says. A worker takes no new tasks
        after about 4/5 of it.
    start_timeout
        Seconds without any worker after which it is given up, with what the system says of the jobs; None: never.
    interface
        Network interface of scheduler and workers, as ``ib0``; None: the default one.
    ports
        The ports that a firewall leaves open, as ``40000-40100``: of the scheduler and its dashboard on this machine,
        of workers, their nannies and the tokens of ``engine=dask`` on theirs; None: any.
    tls
        Whether connections are encrypted, with credentials made for this run.
    shared
        Folder that all nodes see, for these credentials; None: ``.dask-launcher`` in the home directory.
    scratch
        Folder on a node's own disk in which each worker has a private one for its files; None: the node's temporary
        directory.
    logs
        Folder for what jobs print; None: ``workers`` in the directory of a sweep, else ``logs`` in ``shared``.
    dashboard
        Where the dashboard listens.
    options
        Anything else that the class of dask-jobqueue understands, by its name there.
    """

    workers: int | str = 2
    jobs: int | None = None
    nodes: int = 1
    array: bool = False
    cores: int = 1
    memory: str = "4GB"
    queue: str | None = None
    account: str | None = None
    walltime: str | None = "01:00:00"
    start_timeout: float | None = None
    interface: str | None = None
    ports: str | None = None
    tls: bool = True
    shared: Path | None = None
    scratch: Path | None = None
    logs: Path | None = None
    dashboard: str = DASHBOARD
    options: Any = None
    kind: ClassVar[str] = ""
    system: ClassVar[str] = ""  # the class of dask-jobqueue
    names: ClassVar[dict[str, str]] = {}  # of our keys there, where they differ; "": it has no such thing
    directives: ClassVar[Any] = []  # of workers: a lost job is replaced, so the system is not to start it again
    driver_directives: ClassVar[Any] = []  # it goes on where it was, so the system may start it again
    listing: ClassVar[Queue]
    test: ClassVar[str | None] = None  # the command that says whether a script could ever run, without submitting it
    form: ClassVar[Form | None] = None  # of arrays; None: it has none
    node_variable: ClassVar[str | None] = None  # tells a worker of such a job the number of its machine
    launch: ClassVar[str | None] = None  # before the command of a worker, starts it on each of ``{nodes}`` machines

    def __post_init__(self) -> None:
        Size.of(self.workers)
        check_positive("cores", self.cores)
        check_positive("nodes", self.nodes)
        if self.jobs is not None:
            check_positive("jobs", self.jobs)
        elif self.nodes > 1:
            raise ValueError(f"cluster.nodes={self.nodes} needs cluster.jobs: how many jobs with so many machines each")
        if self.nodes > 1 and self.launch is None:
            raise ValueError(f"cluster.nodes={self.nodes} means nothing to {self.kind}; use more cluster.jobs")
        if self.array and self.form is None:
            raise ValueError(f"cluster.array=true means nothing to {self.kind}; leave it away")
        if self.ports is not None:
            Ports.of(self.ports)
        if not isinstance(self.options, dict | None):
            raise ValueError(
                "cluster.options must be keys and values, as in '+cluster.options.job_extra_directives=[\"--nice\"]'"
            )
        for key, value in (self.options or {}).items():
            if key in LISTS and isinstance(value, str):
                raise ValueError(f"cluster.options.{key}={value} must be a list, as '[\"--nice\"]'")
        for key in set(self.options or {}) & OURS:
            raise ValueError(f"cluster.options.{key} is fixed, or has a key of its own in cluster")
        for key, name in self.names.items():
            if not name and getattr(self, key) != getattr(type(self), key):
                raise ValueError(f"cluster.{key} means nothing to {self.kind}; leave it away, or see cluster.options")
        if self.walltime is not None:
            lifetime(self.walltime)
        if self.start_timeout is not None and not self.start_timeout > 0:
            raise ValueError(f"cluster.start_timeout={self.start_timeout} must be positive, or null to wait for ever")

    @property
    def per_job(self) -> int:
        """Workers in one job."""
        return self.per_node * self.machines

    @property
    def machines(self) -> int:
        """Machines of one job: not more than workers."""
        return min(self.nodes, self._together)

    @property
    def per_node(self) -> int:
        """Workers on one machine of a job."""
        return math.ceil(self._together / self.machines)

    @property
    def _together(self) -> int:
        """Workers that should be in one job."""
        return 1 if self.jobs is None else math.ceil(self.size.most / self.jobs)

    @property
    def size(self) -> Size:
        """How many workers."""
        return Size.of(self.workers)

    @property
    def first_jobs(self) -> int:
        """How many jobs are submitted at first."""
        return Wanted(self.size, self.per_job).jobs

    def for_runs(self, runs: int) -> "Jobs":
        """The same with no more workers than there are runs."""
        return replace(self, workers=str(self.size.for_runs(runs)))

    @property
    def worker_memory(self) -> int:
        """Bytes that a worker may use; at more it is stopped."""
        from dask.utils import parse_bytes

        return int(parse_bytes(self.memory))

    @property
    def job_memory(self) -> int:
        """Bytes that a job asks for on each of its machines.

        They are more than its workers may use, or the system would kill what these may still do.
        """
        return self.worker_memory * self.per_node + ROOM

    @property
    def job_cores(self) -> int:
        """Processors that a job asks for on each of its machines."""
        return self.cores * self.per_node

    @property
    def folder(self) -> Path:
        """The folder that all nodes see."""
        return (self.shared or Path.home() / ".dask-launcher").absolute()

    @property
    def log_folder(self) -> Path:
        """Where jobs print to."""
        return (self.logs or self.folder / "logs").absolute()

    def job_script(self) -> str:
        """The script of a job, without a scheduler and without submitting anything."""
        job: Any = getattr(jobqueue.load(), self.system).job_cls
        security = file_security(self.folder / "TLS") if self.tls else None
        with tempfile.TemporaryDirectory() as unused:  # dask-jobqueue would make the folder of the logs
            arguments = self.job_arguments(security) | {"log_directory": unused}
            protocol = "tls://" if self.tls else None
            made = job(f"{protocol or 'tcp://'}SCHEDULER:PORT", f"{self.kind}-0", protocol=protocol, **arguments)
            script: str = made.job_script()
        return script.replace(unused, os.fspath(self.log_folder))

    def verdict(self) -> tuple[bool, str] | None:
        """Whether the batch system would ever run such a job, and its own words; None: it cannot be asked."""
        if self.test is None or shutil.which(self.test.split()[0]) is None:
            return None
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(self.job_script())
            file.flush()
            done = subprocess.run([*self.test.split(), file.name], capture_output=True, text=True, check=False)
        said = " ".join((done.stdout + done.stderr).split())
        if re.search(NOBODY_THERE, said, re.IGNORECASE):
            return None
        return done.returncode == 0 and "no suitable" not in said, said  # as Grid Engine says it

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Start a scheduler in this process and ask the batch system for the workers."""
        from hydra_dask.cluster.opening import opened

        with opened(self) as connection:
            yield connection

    @property
    def endings(self) -> list[str] | None:
        """How the names of the workers of one job end, which begin with that of the job; None: as on one machine."""
        if self.machines == 1:
            return None
        on_each = [""] if self.per_node == 1 else [f"-{worker}" for worker in range(self.per_node)]
        return [f"-{node}{ending}" for node in range(self.machines) for ending in on_each]

    def job_arguments(self, security: "Security | None") -> dict[str, Any]:
        """What a job of dask-jobqueue is called with."""
        given = {"queue": self.queue, "account": self.account, "walltime": self.limit()}
        renamed = {self.names.get(key, key): value for key, value in given.items() if value is not None}
        renamed.pop("", None)
        options = dict(self.options or {})
        options.pop("scheduler_options", None)  # not of a job
        more = options.pop("job_extra_directives", None) or self.site_default("job-extra-directives")
        arguments = options.pop("worker_extra_args", None) or self.site_default("worker-extra-args") or []
        return {
            "cores": self.job_cores,
            "memory": f"{self.job_memory}B",
            "processes": self.per_node,
            # exec: signals reach Python, not a shell around it; -P: what lies in the current directory is no program
            "python": f"exec {self._launcher()}{PYTHON}",
            "worker_command": COMMAND,
            "security": security,
            "local_directory": None if self.scratch is None else os.fspath(self.scratch),
            "log_directory": os.fspath(self.log_folder),
            "worker_extra_args": [*self._worker_arguments(), *arguments],
            "job_extra_directives": self.all_directives(self.directives, more),
            **self.resources(),
            **renamed,
            **options,
        }

    def limit(self) -> str | None:
        """The time limit, as the system writes it."""
        return self.walltime

    def resources(self) -> dict[str, Any]:
        """What dask-jobqueue is to ask for in place of what it would."""
        return {}

    def all_directives(self, ours: Any, more: Any) -> Any:
        """Directives of ours and of the user: a list, or for HTCondor a dictionary."""
        return [*ours, *(more or [])]

    def _launcher(self) -> str:
        """What starts the command of the workers on all machines of a job."""
        if self.machines == 1 or self.launch is None:
            return ""
        return f"{self.launch.format(nodes=self.machines, cores=self.job_cores)} "

    def _worker_arguments(self) -> list[str]:
        arguments = ["--nworkers", str(self.per_node), "--nanny", "--no-dashboard"]
        if self.ports is not None:
            first, last = Ports.of(self.ports)
            arguments += ["--worker-port", f"{first}:{last}", "--nanny-port", f"{first}:{last}"]
        if self.machines > 1 and self.node_variable is not None:
            arguments += ["--node", self.node_variable]
        arguments += ["--memory-limit", f"{self.worker_memory}B"]  # the last one counts: dask-jobqueue shares out all
        arguments += ["--worker-class", f"{LEAVING}.LeavingWorker", "--preload-nanny", LEAVING]
        limit = None if self.names.get("walltime") == "" else self.walltime or self.site_default("walltime")
        with suppress(ValueError):  # a site may write its default in other ways
            life = lifetime(str(limit))
            arguments += ["--lifetime", f"{life.duration}s", "--lifetime-stagger", f"{life.stagger}s"]
        return arguments

    def site_default(self, key: str) -> Any:
        """What dask-jobqueue's own configuration says, in which a site has its defaults."""
        import dask

        jobqueue.load()  # reads it

        return dask.config.get(f"jobqueue.{self.kind}.{key}", None)
