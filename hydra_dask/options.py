"""From the options of the launcher to a cluster."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hydra_dask.cluster import CLUSTERS, Cluster, Jobs, LocalWorkers, Scheduler

LOGS = "workers"  # folder in a sweep directory
# The launcher's keys that describe the cluster, and what they are called there.
CLUSTER_KEYS = {"workers": "workers", "memory_limit": "memory"} | {
    key: key for key in ("cores", "walltime", "queue", "account")
}


def cluster_of(kind: str, options: Mapping[str, Any]) -> Cluster:
    """The cluster of this kind, or at this address, that the launcher's options describe.

    Raises
    ------
    ValueError
        If there is no such thing.

    Examples
    --------
    >>> cluster_of("local", {"workers": 4, "memory": "2GB"}).workers
    4
    >>> cluster_of("slurm", {"queue": "short", "job_extra_directives": ["--nice"]}).options
    {'job_extra_directives': ['--nice']}
    """
    given = {key: value for key, value in options.items() if key != "kind"}
    if ":" in kind or Path(kind).is_file():
        given, kind = {"tls": not kind.startswith("tcp://"), **given, "address": kind}, "address"
    if kind not in CLUSTERS:
        known = ", ".join(name for name in CLUSTERS if name != "address")
        raise ValueError(f"hydra.launcher.cluster={kind} is not known; use one of {known}, or an address")
    wanted = CLUSTERS[kind]
    if issubclass(wanted, Scheduler):  # whose workers are there already
        given = {key: value for key, value in given.items() if key not in ("workers", "memory")}
    cluster: Cluster = wanted(**_arguments(kind, wanted, given))
    if isinstance(cluster, LocalWorkers) and cluster.workers is None:
        cluster = replace(cluster, workers=processors())
    return cluster


def _arguments(kind: str, wanted: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Sort what was given: what the cluster has a name for, and what is for dask-jobqueue."""
    types = {entry.name: entry.type for entry in fields(wanted)}
    known = {key: value for key, value in given.items() if key in types and key != "options"}
    known = {
        key: Path(value) if isinstance(value, str) and "Path" in str(types[key]) else value
        for key, value in known.items()
    }
    rest = {key: value for key, value in given.items() if key not in types} | dict(given.get("options") or {})
    if rest and not issubclass(wanted, Jobs):
        raise ValueError(f"{next(iter(rest))} means nothing to hydra.launcher.cluster={kind}; leave it away")
    return known | ({"options": rest} if rest else {})


def with_logs(cluster: Cluster, directory: Path) -> Cluster:
    """The cluster, with what its batch jobs print in the sweep directory, if nothing else was asked for."""
    return replace(cluster, logs=directory / LOGS) if isinstance(cluster, Jobs) and cluster.logs is None else cluster


def for_runs(cluster: Cluster, runs: int) -> Cluster:
    """The cluster, with no more batch jobs than there are runs for their workers."""
    return cluster.for_runs(runs) if isinstance(cluster, Jobs) else cluster


def waits(cluster: Cluster) -> bool:
    """Whether workers may come late, from the queue of a batch system."""
    return not isinstance(cluster, LocalWorkers | Scheduler)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
