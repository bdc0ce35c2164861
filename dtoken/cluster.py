"""Clusters for ``engine=dask``: this machine, a scheduler that runs somewhere, or the jobs of a batch system.

The dataclasses are the sections of the configuration (``cluster=local``, ``cluster=slurm``, ...); ``connect`` starts
what they describe, or uses what is there. Dask itself is loaded only then.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dtoken.errors import InputError, RunError

if TYPE_CHECKING:
    from distributed import Client, Security

DASHBOARD = "127.0.0.1:0"  # any free port, for this machine only: the dashboard is not encrypted
LOST_WORKER_SECONDS = "2s"  # until a job that died is replaced


@dataclass(frozen=True)
class Connection:
    """A client, and what to tell the user about its cluster."""

    client: "Client"
    text: str
    dashboard: str | None = None
    waits_in_queue: bool = False  # the first worker may take as long as it takes


@dataclass(frozen=True)
class LocalWorkers:
    """Worker processes on this machine.

    Parameters
    ----------
    workers
        How many.
    threads
        Threads of each worker for Dask's own tasks; a run takes one thread of its own on each worker.
    memory
        Limit of each worker, as ``4GB``; None: its share of the machine.
    tls
        Whether connections are encrypted, with credentials made for this run.
    dashboard
        Where the dashboard listens; port 0 is any free one.
    """

    workers: int = 2
    threads: int = 1
    memory: str | None = None
    tls: bool = False
    dashboard: str = DASHBOARD
    kind: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        _check_positive("workers", self.workers)
        _check_positive("threads", self.threads)

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Start the workers; they end with the context."""
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=self.workers,
                threads_per_worker=self.threads,
                memory_limit=self.memory or "auto",
                processes=True,
                host="127.0.0.1",
                protocol="tls://" if self.tls else "tcp://",
                security=_temporary_security() if self.tls else None,
                dashboard_address=self.dashboard,
                silence_logs=logging.CRITICAL,  # dtoken itself says when a worker was lost
            ) as cluster,
            Client(cluster) as client,
        ):
            yield Connection(client, _described(self.workers, "process", "this machine", self.tls), _dashboard(cluster))


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler that runs already.

    Parameters
    ----------
    address
        As ``tls://login1:8786``, or the path of the scheduler's JSON file.
    tls
        Whether connections must be encrypted.
    ca, certificate, key
        Files with the authority's certificate, this client's certificate and its key (PEM).
    """

    address: str
    tls: bool = True
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    kind: ClassVar[str] = "address"

    def __post_init__(self) -> None:
        if not self.tls:
            return
        if self.address.startswith("tcp://"):
            raise InputError(
                f"cluster.address={self.address} is not encrypted, and whoever reaches it can run code as you; use "
                "tls://... with cluster.ca, cluster.certificate and cluster.key, or cluster.tls=false if that is fine"
            )
        for name in ("ca", "certificate", "key"):
            path = getattr(self, name)
            if path is None:
                raise InputError(f"cluster=address needs cluster.{name}=FILE for TLS; or set cluster.tls=false")
            if not path.is_file():
                raise InputError(f"cluster.{name}={path} is not a file")

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Connect to the scheduler."""
        from distributed import Client

        where: dict[str, Any] = {"address": self.address}
        if Path(self.address).is_file():
            where = {"scheduler_file": self.address}
        elif self.tls and "://" not in self.address:
            where = {"address": f"tls://{self.address}"}
        try:
            client = Client(**where, security=self._security(), timeout=10)
        except (OSError, TimeoutError, ValueError) as error:
            raise RunError(f"no scheduler answers at cluster.address={self.address} ({error})") from error
        with client:
            secure = str(client.scheduler_info()["address"]).startswith("tls://")
            if self.tls and not secure:
                raise InputError(
                    f"the scheduler of cluster.address={self.address} uses no TLS; or set cluster.tls=false"
                )
            yield Connection(client, f"{self.address}{', TLS' if secure else ''}", client.dashboard_link or None)

    def _security(self) -> "Security | None":
        if not self.tls:
            return None
        from distributed import Security

        files = {"tls_client_cert": str(self.certificate), "tls_client_key": str(self.key)}
        return Security(require_encryption=True, tls_ca_file=str(self.ca), **files)


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
        _check_positive("workers", self.workers)
        _check_positive("cores", self.cores)
        if not isinstance(self.options, dict | None):
            raise InputError(
                "cluster.options must be keys and values, as in '+cluster.options.job_extra_directives=[...]'"
            )
        for key, name in self.names.items():
            if not name and getattr(self, key) != getattr(type(self), key):
                raise InputError(f"cluster.{key} means nothing to {self.kind}; leave it away, or see cluster.options")

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
            "security": _temporary_security() if self.tls else None,
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
        from distributed import Client

        with dask.config.set({"distributed.deploy.lost-worker-timeout": LOST_WORKER_SECONDS}):
            try:
                cluster = _jobqueue_class(self.system)(**self.arguments())
            except (OSError, ValueError, RuntimeError) as error:
                raise RunError(f"cluster={self.kind} could not be started: {str(error).strip()}") from error
            with cluster, Client(cluster) as client:
                cluster.adapt(
                    minimum_jobs=self.workers, maximum_jobs=self.workers
                )  # scale() would not replace lost jobs
                text = _described(
                    self.workers, "job", f"{self.kind}, {self.cores} cores and {self.memory} each", self.tls
                )
                yield Connection(client, text, _dashboard(cluster), waits_in_queue=True)


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


Cluster = LocalWorkers | Scheduler | Jobs
CLUSTERS: dict[str, type[Any]] = {
    kind.kind: kind for kind in (LocalWorkers, Scheduler, Slurm, PBS, LSF, SGE, HTCondor, OAR)
}


def described(cluster: Cluster) -> dict[str, Any]:
    """A cluster as the configuration has it; never what a user may have put into options."""
    return {"kind": cluster.kind, **{key: value for key, value in asdict(cluster).items() if key != "options"}}


@contextmanager
def connect(cluster: Cluster, client: "Client | None" = None) -> Iterator[Connection]:
    """Use ``client``, or inside a task the cluster that runs it, or what ``cluster`` describes."""
    client = client or _client_of_task()
    if client is not None:
        yield Connection(client, "the client that was there", client.dashboard_link or None)
        return
    with cluster.open() as connection:
        yield connection


def _client_of_task() -> "Client | None":
    from distributed import get_client, get_worker

    try:
        get_worker()
    except ValueError:
        return None
    return get_client()


def present_client() -> "Client | None":
    """The client that this process works with already, as in a notebook."""
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _temporary_security() -> "Security":
    from distributed import Security

    try:
        security: Security = Security.temporary()
        return security
    except ImportError:
        raise InputError(
            "cluster.tls=true needs the package cryptography; install it, or set cluster.tls=false"
        ) from None


def _jobqueue_class(name: str) -> Any:
    import dask_jobqueue

    return getattr(dask_jobqueue, name)


def _dashboard(cluster: Any) -> str | None:
    """The link, if there is a dashboard behind it."""
    return str(cluster.dashboard_link) if find_spec("bokeh") else None


def _described(count: int, what: str, where: str, tls: bool) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{count} {what}{plural if count > 1 else ''} on {where}{', TLS' if tls else ''}"


def _check_positive(key: str, value: int) -> None:
    if value < 1:
        raise InputError(f"cluster.{key}={value} must be at least 1")
