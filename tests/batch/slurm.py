"""A real SLURM on emulated machines: munged and slurmctld on the login machine, slurmd on the nodes."""

import os
from typing import ClassVar

from tests.batch.machines import ADDRESSES, LOGIN, NODES, Machine
from tests.batch.system import Job, System

# Jobs in "urgent" push out those in "spot". KillWait is the time between SIGTERM and SIGKILL. A node that does not
# answer for SlurmdTimeout is down, and comes back when its daemon does.
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={login}({address})
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
PlugStackConfig={folder}/plugstack.conf
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0
KillWait=120
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=30
TCPTimeout=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=spot Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class Slurm(System):
    """SLURM."""

    kind = "slurm"
    programs = ("munged", "slurmctld", "slurmd", "sbatch")
    packages = "slurm-wlm and munge"
    refused = ("nowhere", "sbatch: error: invalid partition specified: nowhere")
    asked = ("NumCPUs=2 ", "NumTasks=1 ", "MinMemoryNode=763M ", "TimeLimit=01:00:00 ", "Requeue=0 ")
    waits = ("--begin=now+1hour", "PD (BeginTime)")
    unfit = "slurm would never run such a job: "
    preemptible: ClassVar[list[str]] = ["hydra.launcher.queue=spot"]

    def start(self) -> None:
        """Write the files and start the daemons."""
        folder = self.site.folder
        for name in ("state", "log", "munge"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "plugstack.conf").touch()
        nodes = [f"NodeName={name} NodeAddr={ADDRESSES[name]} CPUs=2 RealMemory=8000" for name in NODES]
        text = CONFIGURATION.format(login=LOGIN, address=ADDRESSES[LOGIN], folder=folder, nodes="\n".join(nodes))
        (folder / "slurm.conf").write_text(text)
        self.site.variables["SLURM_CONF"] = str(folder / "slurm.conf")
        key = folder / "munge/key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        files = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
        self.site.daemon(LOGIN, "munged", "--foreground", f"--socket={folder}/munge/socket", *files)
        self.wait((folder / "munge/socket").exists, "waited for munge")
        self.site.daemon(LOGIN, "slurmctld", "-D", "-c")
        for name in NODES:
            self.site.daemon(name, "slurmd", "-D", "-N", name)
        self.wait(lambda: self._states().count("idle") == len(NODES), "waited for nodes")

    def start_node(self, machine: Machine) -> None:
        """Start slurmd."""
        self.site.daemon(machine.name, "slurmd", "-D", "-N", machine.name)
        self.wait(lambda: self._states().count("idle") == len(NODES), f"waited for {machine.name}")

    def _states(self) -> list[str]:
        return self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()

    def jobs(self) -> dict[str, Job]:
        """What squeue lists."""
        lines = [line.split(",") for line in self.call("squeue", "-h", "--array", "--format=%i,%t,%N").splitlines()]
        return {job: Job(state == "R", node) for job, state, node in lines}

    def cancel(self, user: str, job: str) -> None:
        """scancel."""
        self.call("scancel", job, user=user)

    def described(self, job: str) -> str:
        """scontrol show job."""
        return self.call("scontrol", "--oneliner", "show", "job", job)

    def array_of(self, job: str) -> str:
        """Before the number of the element."""
        return job.partition("_")[0]

    def preempt(self, node: str) -> None:
        """A job of a partition with priority."""
        self.call(
            *("sbatch", "--wait", "--output=/dev/null", "--partition=urgent", f"--nodelist={node}", "--exclusive"),
            *("--chdir=/", "--wrap=true"),
            user="bob",
        )
