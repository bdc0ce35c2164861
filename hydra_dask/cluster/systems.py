"""The batch systems: what each calls our keys, whether it starts jobs again, and how it lists them."""

import math
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hydra_dask.cluster import site
from hydra_dask.cluster.arrays import Form
from hydra_dask.cluster.jobs import PYTHON, Jobs
from hydra_dask.cluster.partitions import obstacle
from hydra_dask.cluster.queue import Queue
from hydra_dask.cluster.walltime import seconds

if TYPE_CHECKING:
    from distributed import Security

MEBI = 2**20
SPREAD = f"{PYTHON} -m hydra_dask.cluster._spread"
VIRTUAL, ARENA = 1_200_000_000, 100_000_000  # bytes of addresses that a worker and its nanny, and a thread, do not use


class Slurm(Jobs):
    """SLURM."""

    kind, system = "slurm", "SLURMCluster"
    directives: ClassVar[Any] = ["--no-requeue"]
    driver_directives: ClassVar[Any] = ["--requeue", "--open-mode=append"]
    # CG: it is ending
    listing = Queue(
        "squeue --noheader --array --user={uid} --format=%i,%t,%r",
        r"^(?P<job>\d+)(?:_(?P<element>\d+))?,(?!CG)(?P<state>\w+)(?:,(?P<reason>.*))?$",
        ended="scontrol --oneliner show job {job}",
        ending=r"\bJobState=(?P<word>\w+)",
    )
    test = "sbatch --test-only"
    form = Form("--array=1-{count}", "SLURM_ARRAY_TASK_ID", "{job}_{number}")
    launch = "srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cores} --kill-on-bad-exit=0"
    node_variable = "SLURM_NODEID"

    def verdict(self) -> tuple[bool, str] | None:
        """What SLURM says, and what it does not say of its partitions."""
        answer = super().verdict()
        if answer is None or not answer[0]:
            return answer
        reason = obstacle(self.queue or self.site_default("queue"), self.walltime)
        return answer if reason is None else (False, reason)

    def resources(self) -> dict[str, Any]:
        """Memory as it is asked for: dask-jobqueue would round it up to the next gigabyte."""
        return {} if self.site_default("job-mem") else {"job_mem": f"{math.ceil(self.job_memory / MEBI)}M"}

    def all_directives(self, ours: Any, more: Any) -> Any:
        """One task on each machine."""
        count = self.machines
        spread = [] if count == 1 else [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
        return super().all_directives([*ours, *spread], more)


class PBS(Jobs):
    """PBS and Torque, which is recognised by what its ``qsub`` says of its version."""

    kind, system = "pbs", "PBSCluster"
    directives: ClassVar[Any] = ["-r n"]
    driver_directives: ClassVar[Any] = ["-r y", "-V"]
    listing = Queue(
        "qstat -t -u {user}",
        # X, F, C: it has ended; the server's name may be cut off
        r"^(?P<job>\d+)(?:\[(?P<element>\d+)\])?\S*\s+\S+\s+\S+\s+\S+\s+.*\s(?P<state>(?![XFC]\s)[A-Z])\s+\S+\s*$",
        detail="qstat -f {job}",
        details=r"^\s*(?:job_state = (?P<state>\w)|comment = (?P<reason>.*))$",
    )
    # an array of PBS must be one that can be started again
    form = Form("-J 1-{count}", "PBS_ARRAY_INDEX", "{job}[{number}]", unfit=("-r n",))
    launch = f"{SPREAD} PBS_NODEFILE pbs_tmrsh --"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.array or self.nodes > 1) and self._torque:
            raise ValueError("cluster.array and cluster.nodes are not for Torque; leave them away")

    @cached_property
    def _torque(self) -> bool:
        return site.is_torque()

    def resources(self) -> dict[str, Any]:
        """Processors and memory, in Torque's words where it is Torque; else dask-jobqueue's are right for a machine."""
        memory = math.ceil(self.job_memory / MEBI)
        if self._torque:
            return {"resource_spec": f"nodes=1:ppn={self.job_cores},mem={memory}mb"}
        if self.machines > 1:
            return {"resource_spec": f"select={self.machines}:ncpus={self.job_cores}:mem={memory}MB -l place=scatter"}
        return {}


class LSF(Jobs):
    """LSF."""

    kind, system = "lsf", "LSFCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    directives: ClassVar[Any] = ["-rn"]
    driver_directives: ClassVar[Any] = ["-r"]
    listing = Queue(
        'bjobs -noheader -o "jobid jobindex"',
        r"^(?P<job>\d+)(?:\s+(?:0|(?P<element>\d+)))?\s*$",
        nothing="No unfinished job",
        detail='bjobs -noheader -o "stat pend_reason" {job}',
        details=r"^(?P<state>[A-Z]+)\s+(?P<reason>.*)$",
        ended="bjobs -noheader -o exit_reason {job}",
        ending=r"^(?P<word>TERM_\w+)",
    )
    form = Form('-J "dask-worker[1-{count}]"', "LSB_JOBINDEX", "{job}[{number}]")
    launch = f"{SPREAD} LSB_DJOB_HOSTFILE blaunch --"

    def limit(self) -> str | None:
        """The time limit in hours and minutes."""
        if self.walltime is None:
            return None
        minutes = math.ceil(seconds(self.walltime) / 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def resources(self) -> dict[str, Any]:
        """Processors of all machines."""
        if self.machines == 1:
            return {}
        return {"ncpus": self.machines * self.job_cores, "job_directives_skip": ["span[hosts=1]"]}

    def all_directives(self, ours: Any, more: Any) -> Any:
        """So many processors on each machine."""
        spread = [] if self.machines == 1 else [f'-R "span[ptile={self.job_cores}]"']
        return super().all_directives([*ours, *spread], more)


@dataclass(frozen=True)
class SGE(Jobs):
    """Sun Grid Engine and its descendants.

    Parameters
    ----------
    parallel_environment
        By which a job gets more than one slot; None: the first one whose slots are all on one machine (``qconf -spl``).
    memory_resource
        By which a job asks for memory, as ``h_vmem`` or ``mem_free``; None: what jobs use up at this site
        (``qconf -sc``), else ``mem_free``.
    """

    parallel_environment: str | None = None
    memory_resource: str | None = None
    kind, system = "sge", "SGECluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    directives: ClassVar[Any] = ["-r n", "-notify"]  # SIGUSR2 before SIGKILL
    driver_directives: ClassVar[Any] = ["-r y", "-V"]
    listing = Queue(
        "qstat -g d -u {user}",
        # d: it is to end, and stays in the list as long as its node does not answer
        r"^\s*(?P<job>\d+)\s+\S+\s+\S+\s+\S+\s+(?P<state>(?!d)\w+)\s+\S+\s+[\d:]+"
        r"(?:\s+\S+@\S+)?(?:[ \t]+\d+(?:[ \t]+(?P<element>\d+))?)?[ \t]*$",
        detail="qstat -j {job}",
        # an error without its date and place; else the last line of many, which sums up those of all nodes
        details=r"^(?:error reason\s+\d+:\s+(?:[\d/: ]+\[[\d:]+\]: )?|scheduling info:\s+(?:.*\n[ \t]+)*)"
        r"(?P<reason>\S.*)$",
    )
    test = "qsub -w v"
    form = Form("-t 1-{count}", "SGE_TASK_ID", "{job}.{number}")

    def resources(self) -> dict[str, Any]:
        """Memory in the words of the site: for each slot, or for the job."""
        name = self.memory_resource or site.memory_of_grid_engine()
        limits = name.endswith("_vmem")  # of addresses, not of memory: more of them are taken than are used
        unused = self.per_node * VIRTUAL + self.job_cores * ARENA
        wanted = self.job_memory + unused * limits
        per_slot = limits or site.consumables().get(name) == "YES"
        return {"resource_spec": f"{name}={math.ceil(wanted / (self.job_cores if per_slot else 1) / MEBI)}M"}

    def all_directives(self, ours: Any, more: Any) -> Any:
        """As many slots as processors, all on one machine."""
        name = self.parallel_environment
        if self.job_cores > 1 and name is None and not any(each.startswith("-pe ") for each in more or ()):
            name = site.parallel_environment() or ("smp" if site.said("qconf", "-help") is None else None)
            if name is None:
                raise ValueError(
                    f"a job of {self.job_cores} cores needs a parallel environment whose slots are on one machine, and "
                    "`qconf -spl` has none; give cluster.parallel_environment=NAME, or use one core in each job"
                )
        slots = [] if name is None else [f"-pe {name} {self.job_cores}"]
        return super().all_directives([*ours, *slots], more)


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

    def all_directives(self, ours: Any, more: Any) -> Any:
        """A dictionary of them."""
        return {**ours, **(more or {})}


@dataclass(frozen=True)
class OAR(Jobs):
    """OAR.

    Parameters
    ----------
    memory_resource
        The property of resources that is their memory in MiB, of a core (``memcore``) or of a machine (``memnode``);
        None: the one with a usual name, if there is one (``oarnodes``).
    """

    memory_resource: str | None = None
    kind, system = "oar", "OARCluster"
    names: ClassVar[dict[str, str]] = {"account": "project"}
    driver_directives: ClassVar[Any] = ["-t idempotent"]
    listing = Queue(
        "oarstat -u {user}",
        # the state (F, E: it is ending) is before user and duration, as 2.5.9 lists them, or before the queue, as older
        # ones do
        r"^(?P<job>\d+)(?:\s+|\s.*\s)(?P<state>(?![FE])\w)\s+(?:\S+\s*|\S+\s+\d+:\d\d:\d\d\s.*)$",
        detail="oarstat -f -j {job}",
        details=r"^\s*message = (?P<reason>.*)$",
    )
    form = Form("--array {count}", "OAR_ARRAY_INDEX", None)
    launch = f"{SPREAD} OAR_NODEFILE oarsh --"

    def resources(self) -> dict[str, Any]:
        """Processors of all machines; memory is a directive of ours."""
        asked = {"resource_spec": f"/nodes={self.machines}/core={self.job_cores}"} if self.machines > 1 else {}
        return {"memory_per_core_property_name": "not_applicable", **asked}

    def all_directives(self, ours: Any, more: Any) -> Any:
        """Where it prints to, and on which machines it may be: OAR listens to the last ``-p`` only."""
        given = [" ".join(shlex.split(each)[1:]) for each in more or () if each.startswith("-p ")]
        conditions = [f"({each})" for each in given[-1:]] + self._memory()
        properties = [f"-p {shlex.quote(' AND '.join(conditions))}"] if conditions else []
        printed = shlex.quote(f"{self.log_folder}/dask-worker-%jobid%")
        rest = [each for each in more or () if not each.startswith("-p ")]
        return super().all_directives([*ours, f"-O {printed}.out", f"-E {printed}.err"], [*rest, *properties])

    def _memory(self) -> list[str]:
        """The condition that there is enough memory."""
        name = self.memory_resource or site.memory_of_oar()
        if name is None or "memory_per_core_property_name" in (self.options or {}):  # dask-jobqueue does it
            return []
        per = self.job_cores if "core" in name else 1
        return [f"{name}>={math.ceil(self.job_memory / per / MEBI)}"]
