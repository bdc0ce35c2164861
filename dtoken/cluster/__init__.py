"""Clusters for ``engine=dask``: this machine, a scheduler that runs somewhere, or the jobs of a batch system.

The dataclasses are the sections of the configuration (``cluster=local``, ``cluster=slurm``, ...); ``connect`` starts
what they describe, or uses what is there. Dask itself is loaded only then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dtoken.cluster.connection import Connection
from dtoken.cluster.jobs import LSF, OAR, PBS, SGE, HTCondor, Jobs, Slurm
from dtoken.cluster.workers import LocalWorkers, Scheduler

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["CLUSTERS", "Cluster", "Connection", "LocalWorkers", "connect", "described", "present_client"]

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
