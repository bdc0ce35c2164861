"""The options of ``hydra/launcher=dask``."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class DaskLauncherConf:
    """What ``hydra.launcher.*`` understands."""

    _target_: str = "hydra_plugins.dask_launcher.launcher.DaskLauncher"

    # Where jobs run: local (processes on this machine), the address of a Dask scheduler (tls://host:8786, or its JSON
    # file), or jobs of a batch system: slurm, pbs, lsf, sge, htcondor, oar
    cluster: str = "local"

    # How many workers; each runs one job at a time. null: one per processor on this machine, two batch jobs. Batch jobs
    # as 2..16: two at first, more as they start and jobs are left. There are never more than jobs are left
    workers: Any = None

    # Memory of each worker, as 4GB; a job that needs more is stopped and fails. null: its share of the machine
    memory_limit: str | None = None

    # Of a batch job: processors of each worker, longest time as 01:30:00, queue or partition, and the account or
    # project that pays. null: as options say, or the defaults of the system
    cores: int | None = None
    walltime: str | None = None
    queue: str | None = None
    account: str | None = None

    # What is true of jobs that use other workers than their own, as engine.kind=dask; then no worker is released early
    spread: list[str] = field(default_factory=list)

    # Seconds after which a job is stopped and has failed. null: never
    timeout: float | None = None

    # How often a job may lose its worker (killed, crashed, out of memory) before it has failed; from the second time
    # on it runs after all others. A job that raises has failed at once
    attempts: int = 2

    # continue: the other jobs go on after a failure; stop: those that run finish, and no other starts
    on_failure: str = "continue"

    # Whether jobs that are done in the sweep directory already are left alone, and new ones get new folders
    resume: bool = False

    # Keys that say how a job is run and not what it computes: with other values it is still the same job
    ignore: list[str] = field(default_factory=list)

    # Function, as package.module.name, that is given the configuration of each job, to look at, before anything starts;
    # what it raises refuses the sweep, and what it returns says which jobs are alike
    check: str | None = None

    # Function that is given, in this process and before the first job starts, one configuration and the number of jobs
    # for each value that check returned
    prepare: str | None = None

    # Modules that workers on this machine have loaded before the first job; they must not start threads
    preload: list[str] = field(default_factory=list)

    # Function that is given, in place of all that, the jobs, their configurations and the cluster; nothing is run
    dry_run: str | None = None

    # What to type to go on after an interruption or a failure, with {} for the directory. null: the same command
    hint: str | None = None

    # More about the cluster: for a batch system jobs, nodes, array, interface, ports, tls, shared, scratch and whatever
    # the class of dask-jobqueue understands; for an address tls, ca, certificate, key; for local threads, tls
    options: dict[str, Any] = field(default_factory=dict)
