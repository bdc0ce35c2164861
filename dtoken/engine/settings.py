"""The settings of the engines, which say for themselves where a run happens and what it may use there.

Both kinds answer the same questions, so nobody has to ask which of them it is.
"""

from dataclasses import dataclass
from typing import ClassVar

from dtoken.engine.processors import processors
from dtoken.engine.rows.memory import parse_memory
from dtoken.errors import InputError
from hydra_dask.cluster import Cluster, Jobs
from hydra_dask.cluster.workers import WORKERS

START_SECONDS = 60.0
TRANSPORTS = ("auto", "shared", "tcp")


@dataclass(frozen=True)
class LocalSettings:
    """Threads of this process.

    Parameters
    ----------
    threads
        How many; None: one per processor, or one where steps are too short to share.
    memory
        Bytes that the run may use, such as ``300MB``: rows beyond that are read when they are needed; None: no limit.
    read_ahead
        Read rows before they are needed, where they do not all fit into memory.
    """

    threads: int | None = None
    memory: int | str | None = None
    read_ahead: bool = True
    kind: ClassVar[str] = "local"
    here: ClassVar[bool] = True  # events happen in this process
    each: ClassVar[str] = ""  # after an amount of memory: whose it is

    def __post_init__(self) -> None:
        parse_memory("engine.memory", self.memory)
        _check_threads(self.threads, "one per processor")

    @property
    def budget(self) -> int | None:
        """Bytes that a process of the run may use; None: no limit."""
        return parse_memory("engine.memory", self.memory)

    def threads_for(self, nodes: int, worth_it: bool = True) -> int:
        """Threads for so many nodes: never more than nodes; left to us, one where handing over tokens costs more."""
        return min(self.threads or (processors() if worth_it else 1), nodes)

    def processes(self, cluster: Cluster) -> int:
        """In how many processes the nodes are."""
        return 1

    def worker_memory(self, cluster: Cluster) -> int | None:
        """Bytes beyond which Dask ends a process of the run; None: it does not."""
        return None


@dataclass(frozen=True)
class DaskSettings:
    """The workers of a Dask cluster (``cluster=...``).

    Parameters
    ----------
    threads
        Of each worker; None: as many as Dask gives it (``cluster.threads``, ``cluster.cores``).
    transport
        How tokens go from worker to worker: ``auto`` through shared memory on one machine, over TCP between machines;
        ``shared`` or ``tcp`` only.
    attempts
        How often the same stretch of events is tried before the run gives up.
    silence
        Seconds after which a worker that does not answer counts as lost.
    rejoin
        Seconds to wait for a lost worker's replacement before the others take over its nodes.
    start
        Seconds to wait for a worker when there is none; None: a minute, and on a batch system without end.
    memory
        Bytes that the run may use on each worker; None: 60 % of the worker's own memory limit.
    read_ahead
        Read rows before they are needed, where they do not all fit into memory.
    """

    threads: int | None = None
    transport: str = "auto"
    attempts: int = 10
    silence: float = 2.0
    rejoin: float = 5.0
    start: float | None = None
    memory: int | str | None = None
    read_ahead: bool = True
    kind: ClassVar[str] = "dask"
    here: ClassVar[bool] = False
    each: ClassVar[str] = " a worker"

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InputError(f"engine.attempts={self.attempts} must be at least 1")
        for name in ("silence", "rejoin", "start"):
            value = getattr(self, name)
            if value is not None and not value >= (0.1 if name == "silence" else 0):
                raise InputError(f"engine.{name}={value} is too short; use for instance 5")
        parse_memory("engine.memory", self.memory)
        _check_threads(self.threads, "as many as Dask gives each worker")
        if self.transport not in TRANSPORTS:
            raise InputError(f"engine.transport={self.transport} is not known; use {', '.join(TRANSPORTS)}")

    @property
    def patience(self) -> float:
        """Seconds to wait for the first worker."""
        return START_SECONDS if self.start is None else self.start

    @property
    def budget(self) -> int | None:
        """Bytes that a worker may use for the run; None: as its own limit says."""
        return parse_memory("engine.memory", self.memory)

    def threads_for(self, nodes: int, worth_it: bool = True) -> int:
        """Threads of this process, which prepares the run."""
        return min(processors(), nodes)

    def processes(self, cluster: Cluster) -> int:
        """In how many processes the nodes are."""
        return cluster.size.most if isinstance(cluster, Jobs) else getattr(cluster, "workers", None) or WORKERS

    def worker_memory(self, cluster: Cluster) -> int | None:
        """Bytes beyond which Dask ends a process of the run; None: it does not, or nobody knows."""
        return parse_memory("cluster.memory", getattr(cluster, "memory", None))


EngineSettings = LocalSettings | DaskSettings


def _check_threads(threads: int | None, otherwise: str) -> None:
    if threads is not None and not 1 <= threads <= 1024:
        raise InputError(f"engine.threads={threads} must lie between 1 and 1024; null is {otherwise}")
