"""Clusters of Dask workers: this machine, a scheduler that runs somewhere, or the jobs of a batch system.

The dataclasses are also sections of a configuration (``cluster=local``, ``cluster=slurm``, ... of dtoken); ``open`` of
each starts what it describes. Dask itself is loaded only then. What cannot be is a ValueError, what fails a
RuntimeError, both with a sentence for the user.
"""

from typing import Any

from hydra_dask.cluster.connection import Connection
from hydra_dask.cluster.jobs import Jobs
from hydra_dask.cluster.systems import LSF, OAR, PBS, SGE, HTCondor, Slurm
from hydra_dask.cluster.workers import LocalWorkers, Scheduler

__all__ = ["CLUSTERS", "Cluster", "Connection", "Jobs", "LocalWorkers", "Scheduler"]

Cluster = LocalWorkers | Scheduler | Jobs
CLUSTERS: dict[str, type[Any]] = {
    kind.kind: kind for kind in (LocalWorkers, Scheduler, Slurm, PBS, LSF, SGE, HTCondor, OAR)
}
