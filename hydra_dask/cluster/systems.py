"""The batch systems: what each calls our keys, whether it starts jobs again, and how it lists them."""

import math
from typing import TYPE_CHECKING, Any, ClassVar

from hydra_dask.cluster.jobs import Jobs
from hydra_dask.cluster.partitions import obstacle
from hydra_dask.cluster.queue import Queue
from hydra_dask.cluster.walltime import seconds

if TYPE_CHECKING:
    from distributed import Security


class Slurm(Jobs):
    """SLURM."""

    kind, system = "slurm", "SLURMCluster"
    directives: ClassVar[Any] = ["--no-requeue"]
    driver_directives: ClassVar[Any] = ["--requeue", "--open-mode=append"]
    # CG: it is ending
    listing = Queue(
        "squeue --noheader --user={uid} --format=%A,%t,%r",
        r"^(?P<job>\d+),(?!CG)(?P<state>\w+)(?:,(?P<reason>.*))?$",
        ended="scontrol --oneliner show job {job}",
        ending=r"\bJobState=(?P<word>\w+)",
    )
    test = "sbatch --test-only"

    def verdict(self) -> tuple[bool, str] | None:
        """What SLURM says, and what it does not say of its partitions."""
        answer = super().verdict()
        if answer is None or not answer[0]:
            return answer
        reason = obstacle(self.queue or self.site_default("queue"), self.walltime)
        return answer if reason is None else (False, reason)


class PBS(Jobs):
    """PBS and Torque."""

    kind, system = "pbs", "PBSCluster"
    directives: ClassVar[Any] = ["-r n"]
    driver_directives: ClassVar[Any] = ["-r y", "-V"]
    listing = Queue(
        "qselect -u {user}",
        detail="qstat -f {job}",
        details=r"^\s*(?:job_state = (?P<state>\w)|comment = (?P<reason>.*))$",
    )


class LSF(Jobs):
    """LSF."""

    kind, system = "lsf", "LSFCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    directives: ClassVar[Any] = ["-rn"]
    driver_directives: ClassVar[Any] = ["-r"]
    listing = Queue(
        "bjobs -noheader -o jobid",
        nothing="No unfinished job",
        detail='bjobs -noheader -o "stat pend_reason" {job}',
        details=r"^(?P<state>[A-Z]+)\s+(?P<reason>.*)$",
        ended="bjobs -noheader -o exit_reason {job}",
        ending=r"^(?P<word>TERM_\w+)",
    )

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
    listing = Queue(
        "qstat -u {user}",
        r"^\s*(?P<job>\d+)\s+\S+\s+\S+\s+\S+\s+(?P<state>\w+)",
        detail="qstat -j {job}",
        details=r"^(?:error reason\s+\d+:|scheduling info:)\s+(?P<reason>.*)$",
    )
    test = "qsub -w v"


class HTCondor(Jobs):
    """HTCondor; ``cluster.options.disk`` is the disk space of each job."""

    kind, system = "htcondor", "HTCondorCluster"
    names: ClassVar[dict[str, str]] = {"queue": "", "account": "", "walltime": ""}
    directives: ClassVar[Any] = {}
    driver_directives: ClassVar[Any] = {"getenv": "True"}
    listing = Queue(
        "condor_q -autoformat ClusterId JobStatus HoldReason",
        r"^(?P<job>\d+)(?: (?P<state>[^34])(?: (?P<reason>.*))?)?$",  # 3, 4: removed, completed
        words={"1": "idle", "2": "running", "5": "held", "7": "suspended"},
    )

    def job_arguments(self, security: "Security | None") -> dict[str, Any]:
        """What a job of dask-jobqueue is called with: it insists on an amount of disk space."""
        return {"disk": "1GB", **super().job_arguments(security)}


class OAR(Jobs):
    """OAR."""

    kind, system = "oar", "OARCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    driver_directives: ClassVar[Any] = ["-t idempotent"]
    listing = Queue(
        "oarstat -u {user}",
        r"^(?P<job>\d+)\b.*\s(?P<state>\w)\s+\S+\s*$",
        detail="oarstat -f -j {job}",
        details=r"^\s*message = (?P<reason>.*)$",
    )
