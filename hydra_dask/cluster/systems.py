"""The batch systems: what each calls our keys, whether it starts jobs again, and how it lists them."""

import math
from typing import TYPE_CHECKING, Any, ClassVar

from hydra_dask.cluster.jobs import Jobs
from hydra_dask.cluster.queue import Queue
from hydra_dask.cluster.walltime import seconds

if TYPE_CHECKING:
    from distributed import Security


class Slurm(Jobs):
    """SLURM."""

    kind, system = "slurm", "SLURMCluster"
    directives: ClassVar[Any] = ["--no-requeue"]
    driver_directives: ClassVar[Any] = ["--requeue", "--open-mode=append"]
    listing = Queue("squeue --noheader --user={uid} --format=%A,%t", r"^(\d+),(?!CG)")  # CG: it is ending


class PBS(Jobs):
    """PBS and Torque."""

    kind, system = "pbs", "PBSCluster"
    directives: ClassVar[Any] = ["-r n"]
    driver_directives: ClassVar[Any] = ["-r y", "-V"]
    listing = Queue("qselect -u {user}")


class LSF(Jobs):
    """LSF."""

    kind, system = "lsf", "LSFCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    directives: ClassVar[Any] = ["-rn"]
    driver_directives: ClassVar[Any] = ["-r"]
    listing = Queue("bjobs -noheader -o jobid", nothing="No unfinished job")

    def limit(self) -> str | None:
        """The time limit in hours and minutes."""
        if self.walltime is None:
            return None
        minutes = math.ceil(seconds(self.walltime) / 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"


class SGE(Jobs):
    """Sun Grid Engine and its descendants."""

    kind, system = "sge", "SGECluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    directives: ClassVar[Any] = ["-r n", "-notify"]  # SIGUSR2 before SIGKILL
    driver_directives: ClassVar[Any] = ["-r y", "-V"]
    listing = Queue("qstat -u {user}")


class HTCondor(Jobs):
    """HTCondor; ``cluster.options.disk`` is the disk space of each job."""

    kind, system = "htcondor", "HTCondorCluster"
    names: ClassVar[dict[str, str]] = {"queue": "", "account": "", "walltime": ""}
    directives: ClassVar[Any] = {}
    driver_directives: ClassVar[Any] = {"getenv": "True"}
    listing = Queue("condor_q -autoformat ClusterId")

    def job_arguments(self, security: "Security | None") -> dict[str, Any]:
        """What a job of dask-jobqueue is called with: it insists on an amount of disk space."""
        return {"disk": "1GB", **super().job_arguments(security)}


class OAR(Jobs):
    """OAR."""

    kind, system = "oar", "OARCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    driver_directives: ClassVar[Any] = ["-t idempotent"]
    listing = Queue("oarstat -u {user}")
