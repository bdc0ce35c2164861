"""From what is asked of a batch system to a scheduler in this process whose workers are jobs there."""

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from hydra_dask.cluster import jobqueue
from hydra_dask.cluster.address import check_interface, own_address
from hydra_dask.cluster.connection import DASHBOARD, Connection, dashboard, in_words, quiet
from hydra_dask.cluster.credentials import shared_credentials
from hydra_dask.cluster.keeper import Keeper, keeping
from hydra_dask.cluster.ports import Ports
from hydra_dask.cluster.scratch import private_folder
from hydra_dask.cluster.size import Wanted
from hydra_dask.cluster.waiting import last_words

if TYPE_CHECKING:
    from hydra_dask.cluster.jobs import Jobs

CONFIGURATION = {
    # The keeper replaces jobs; Dask cancels one only when its worker has left without the job's end.
    "distributed.deploy.lost-worker-timeout": "60s",
    "distributed.scheduler.allowed-failures": 0,  # a task whose worker died is not Dask's to repeat
}


@contextmanager
def opened(jobs: "Jobs") -> Iterator[Connection]:
    """Start a scheduler, and ask the batch system for the workers; all ends with the context.

    Raises
    ------
    ValueError
        If it cannot be as it is asked for, or the batch system refuses it.
    RuntimeError
        If it fails.
    """
    import dask
    from distributed import Client

    system: Any = getattr(jobqueue.load(), jobs.system)
    command = system.job_cls.submit_command.split()[0]
    if shutil.which(command) is None:
        raise ValueError(f"cluster={jobs.kind} needs the command {command}, which is not on this machine")
    if jobs.interface is not None:
        check_interface(jobs.interface)
    credentials = shared_credentials(jobs.folder) if jobs.tls else nullcontext()
    with (
        quiet(),
        private_folder() as own,
        dask.config.set(CONFIGURATION | {"temporary-directory": own}),
        credentials as security,
    ):
        options, arguments = scheduler_options(jobs), jobs.job_arguments(security)
        try:
            cluster = system(interface=jobs.interface, scheduler_options=options, **arguments)
        except (OSError, ValueError, RuntimeError) as error:
            raise RuntimeError(f"cluster={jobs.kind} could not be started: {str(error).strip()}") from error
        if (endings := jobs.endings) is not None:
            cluster.new_spec["group"] = endings
        with (
            cluster,
            Client(cluster) as client,
            keeping(_keeper(jobs, cluster)) as keeper,
        ):
            yield Connection(
                client,
                described(jobs),
                dashboard(cluster, jobs.dashboard),
                waits_in_queue=True,
                trouble=lambda: keeper.trouble,
                news=keeper.news,
                fate=keeper.fate,
                demand=keeper.demand,
                jobs=lambda: [wait.as_dict() | {"kind": jobs.kind} for wait in keeper.waits],
            )


def _keeper(jobs: "Jobs", cluster: Any) -> Keeper:
    evidence = partial(last_words, jobs.log_folder)
    wanted = Wanted(jobs.size, jobs.per_job)
    form = jobs.form if jobs.array else None
    return Keeper(cluster, jobs.kind, wanted, jobs.listing, jobs.start_timeout, evidence, form)


def scheduler_options(jobs: "Jobs") -> dict[str, Any]:
    """How the scheduler is started; what the user or the site says wins."""
    given = (jobs.options or {}).get("scheduler_options") or jobs.site_default("scheduler-options") or {}
    interface = jobs.interface or jobs.site_default("interface")
    where = {} if interface or {"host", "interface"} & set(given) else {"host": own_address()}
    ports = {} if jobs.ports is None else _free_ports(Ports.of(jobs.ports), jobs.dashboard)
    return {"dashboard_address": jobs.dashboard, **where, **ports, **given}


def _free_ports(ports: Ports, dashboard: str) -> dict[str, Any]:
    """Free ports of this machine, for the scheduler and, if any will do, for its dashboard."""
    port = ports.free("")
    if dashboard != DASHBOARD:
        return {"port": port}
    return {"port": port, "dashboard_address": f"{DASHBOARD.rpartition(':')[0]}:{ports.free('', but=[port])}"}


def described(jobs: "Jobs") -> str:
    """The cluster in a few words."""
    count = math.ceil(jobs.size.most / jobs.per_job)
    each = f"{jobs.cores} core{'s' if jobs.cores > 1 else ''} and {jobs.memory} each"
    machines = f" of {jobs.machines} machines" if jobs.machines > 1 else ""
    spread = f" in {count} job{'s' if count > 1 else ''}{machines}" if jobs.per_job > 1 else ""
    return in_words(jobs.size, "worker" if spread else "job", f"{jobs.kind}{spread}, {each}", jobs.tls)
