"""Workers on this machine, and workers of a scheduler that runs already."""

import logging
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hydra_dask.cluster import fork_server
from hydra_dask.cluster.connection import (
    DASHBOARD,
    Connection,
    check_positive,
    dashboard,
    in_words,
    quiet,
)
from hydra_dask.cluster.credentials import temporary_security
from hydra_dask.cluster.scratch import private_folder

if TYPE_CHECKING:
    from distributed import Security

WORKERS = 2
CONNECT_SECONDS = 30.0  # to a scheduler on a busy login node
DASK = {
    "distributed.scheduler.allowed-failures": 0,  # a task whose worker died is not Dask's to repeat
    "distributed.deploy.lost-worker-timeout": "7 days",  # a nanny that restarts its worker again and again is kept
    "distributed.worker.memory.target": False,  # nothing here is spilled: a worker has room, or it is stopped
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,  # it takes processor time from the runs
    "distributed.admin.tick.interval": "1s",  # so do looks at the clock 50 times a second, in every process,
    "distributed.admin.system-monitor.interval": "5s",  # and at the whole machine
    "distributed.worker.preload": ["hydra_dask.cluster._signals"],
}


@dataclass(frozen=True)
class LocalWorkers:
    """Worker processes on this machine.

    Parameters
    ----------
    workers
        How many; None: two, and for a sweep one per processor.
    threads
        Threads of each worker: processors that a job of a sweep may use on it.
    memory
        Limit of each worker, as ``4GB``; None: its share of the machine.
    tls
        Whether connections are encrypted, with credentials made for this run; without, any user of this machine can run
        code as you while the workers are there.
    dashboard
        Where the dashboard listens; port 0 is any free one.
    """

    workers: int | None = None
    threads: int = 1
    memory: str | None = None
    tls: bool = True
    dashboard: str = DASHBOARD
    kind: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_positive("workers", self.workers)
        check_positive("threads", self.threads)

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """Start the workers; they end with the context."""
        import dask
        from distributed import Client, LocalCluster

        from hydra_dask.cluster._dashboard import when_opened
        from hydra_dask.cluster._silent import SilentNanny

        workers = self.workers or WORKERS
        _check_semaphores()
        fork_server.start()
        with (
            quiet(),
            private_folder() as scratch,
            dask.config.set(DASK | fork_server.configuration() | {"temporary-directory": scratch}),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=self.threads,
                memory_limit=self.memory or "auto",
                processes=True,
                worker_class=SilentNanny,
                host="127.0.0.1",
                protocol="tls://" if self.tls else "tcp://",
                security=temporary_security() if self.tls else None,
                dashboard_address=self.dashboard,
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            if find_spec("bokeh") is not None:
                when_opened(cluster.scheduler)
            yield Connection(
                client, in_words(workers, "process", "this machine", self.tls), dashboard(cluster, self.dashboard)
            )


def _check_semaphores() -> None:
    """Processes of Dask talk by semaphores; RuntimeError where none can be made."""
    try:
        multiprocessing.get_context("spawn").Lock()
    except OSError as error:
        raise RuntimeError(
            f"worker processes need semaphores, but none can be made in /dev/shm ({error.strerror}); make room there, "
            "or mount a tmpfs that you can write"
        ) from error


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
            raise ValueError(
                f"cluster.address={self.address} is not encrypted, and whoever reaches it can run code as you; use "
                "tls://... with cluster.ca, cluster.certificate and cluster.key, or cluster.tls=false if that is fine"
            )
        for name in ("ca", "certificate", "key"):
            path = getattr(self, name)
            if path is None:
                raise ValueError(f"cluster=address needs cluster.{name}=FILE for TLS; or set cluster.tls=false")
            if not path.is_file():
                raise ValueError(f"cluster.{name}={path} is not a file")

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
            client = Client(**where, security=self._security(), timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise RuntimeError(f"no scheduler answers at cluster.address={self.address} ({error})") from error
        except TypeError as error:  # how Dask says that it has no certificates
            files = "cluster.ca, cluster.certificate and cluster.key"
            raise ValueError(f"the scheduler of cluster.address={self.address} uses TLS; give {files}") from error
        except RuntimeError as error:  # how Dask says that it must not speak without
            raise ValueError(
                f"the scheduler of cluster.address={self.address} uses no TLS; start it with TLS, or set "
                "cluster.tls=false if it is fine that whoever reaches it can run code as you"
            ) from error
        with client:
            secure = str(client.scheduler_info()["address"]).startswith("tls://")
            yield Connection(client, f"{self.address}{', TLS' if secure else ''}", client.dashboard_link or None)

    def _security(self) -> "Security | None":
        if not self.tls:
            return None
        from distributed import Security

        files = {"tls_client_cert": str(self.certificate), "tls_client_key": str(self.key)}
        return Security(require_encryption=True, tls_ca_file=str(self.ca), **files)
