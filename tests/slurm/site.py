"""A real SLURM on this one machine, without systemd, cgroups or anything in /etc: munged, slurmctld and emulated nodes.

Everything lives in one folder, listens on free ports of this machine, and ends with the context. By hand:

    python -m tests.slurm.site bash     # a shell in which sbatch, squeue and the others talk to it
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import NEVER

NODES, CPUS, MEGABYTES = ("n1", "n2", "n3", "n4"), 2, 8000  # declared, not checked against the machine
END_SECONDS = 60.0

# Jobs in "urgent" push out those in "spot"; "spotrq" would put them back into the queue. KillWait is the time between
# SIGTERM and SIGKILL. pgid: a worker whose shell died first is found all the same; cgroups do not exist in containers.
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
PlugStackConfig={folder}/plugstack.conf
ProctrackType=proctrack/pgid
TaskPlugin={task}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobs.txt
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0
KillWait=60
MinJobAge=7200
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=300
TCPTimeout=60
MessageTimeout=90
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=short Nodes=ALL MaxTime=10 State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=spot Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL
PartitionName=spotrq Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


# Where a site limits the memory of jobs.
CGROUPS = Path("/sys/fs/cgroup")
LIMITED = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
"""


def no_limits() -> str | None:
    """Why memory of jobs cannot be limited here; None: it can."""
    if os.access(CGROUPS / "memory/memory.limit_in_bytes", os.W_OK):
        return None
    return "the memory of jobs cannot be limited here: that needs root and control groups of version 1"


def missing() -> str | None:
    """Why there can be no SLURM here; None: there can."""
    absent = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if _program(name) is None]
    return f"no {', '.join(absent)} here (Debian: slurm-wlm and munge)" if absent else None


@dataclass(frozen=True)
class Site:
    """A SLURM that runs."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes SLURM's commands talk to it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str) -> str:
        """What a command of SLURM prints."""
        done = subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True, timeout=NEVER, check=True
        )
        return done.stdout.strip()

    def jobs(self, state: str = "R", name: str | None = None) -> list[str]:
        """The ids of the jobs in a state (R: running, PD: waiting), oldest first."""
        command = ["squeue", "--noheader", "--format=%A", "--sort=i", f"--states={state}"]
        return self.call(*command, *([f"--name={name}"] if name else [])).split()

    def state(self, job: str) -> str:
        """How a job is or ended, as CANCELLED, TIMEOUT or PREEMPTED."""
        return next(
            word.removeprefix("JobState=")
            for word in self.call("scontrol", "--oneliner", "show", "job", job).split()
            if word.startswith("JobState=")
        )

    def submit(self, *arguments: str) -> str:
        """Submit a job and return its id."""
        return self.call("sbatch", "--parsable", "--output=/dev/null", *arguments)


@contextmanager
def slurm(nodes: Sequence[str] = NODES, limited: bool = False) -> Iterator[Site]:
    """Start a SLURM; its jobs and daemons end with the context.

    With ``limited`` the memory of jobs is, by control groups whose names are those of the nodes.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # short: a socket's path has at most 107 characters
    folder.chmod(0o755)  # munge insists that others can reach its socket
    site = Site(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _write_files(folder, nodes, limited)
        stack.enter_context(_munge(folder))
        if limited:
            stack.callback(_end_groups, nodes)
        stack.callback(_end_escaped, site)
        stack.enter_context(_daemon(site, "slurmctld", "-D", "-c"))
        for node in nodes:
            stack.enter_context(_daemon(site, "slurmd", "-D", "-N", node))
        stack.callback(_end_jobs, site)
        ready = ["idle"] * len(nodes)
        _wait(lambda: site.call("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split() == ready, folder)
        yield site


def _write_files(folder: Path, names: Sequence[str], limited: bool) -> None:
    for name in ("state", "spool", "log"):
        (folder / name).mkdir()
    (folder / "plugstack.conf").touch()
    host = socket.gethostname().split(".")[0]
    control, *ports = _free_ports(len(names) + 1)
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} RealMemory={MEGABYTES}"
        for name, port in zip(names, ports, strict=True)
    )
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    task = "task/cgroup" if limited else "task/none"
    text = CONFIGURATION.format(host=host, port=control, user=user, folder=folder, nodes=nodes, task=task)
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text(LIMITED if limited else "")


def _free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to whoever asks for any: they are still free when a daemon starts."""
    found: list[int] = []
    for port in random.sample(range(12_000, 32_000), 1000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("there are no free ports")


@contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """The daemon by which users prove who they are, with a key and a socket of its own."""
    own = folder / "munge"
    own.mkdir(mode=0o755)
    key = own / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    files = [f"--{name}-file={own / name}" for name in ("key", "pid", "log", "seed")]
    command = [str(_program("munged")), "--foreground", f"--socket={own / 'socket'}", *files]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait((own / "socket").exists, folder)
        yield
    finally:
        _end(process)


@contextmanager
def _daemon(site: Site, name: str, *arguments: str) -> Iterator[None]:
    with (site.folder / "log" / "daemons.txt").open("ab") as log:
        process = subprocess.Popen(
            [str(_program(name)), *arguments], env=os.environ | site.environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_jobs(site: Site) -> None:
    """Cancel all jobs and wait for them: their processes would outlive the daemons."""
    with suppress(subprocess.SubprocessError):
        user = str(os.getuid())
        site.call("scancel", "--state=PENDING", f"--user={user}")
        site.call("scancel", f"--user={user}")
        began = time.monotonic()
        while site.call("squeue", "-h") and time.monotonic() < began + END_SECONDS:
            if time.monotonic() > began + 3:
                site.call("scancel", "--full", "--signal=KILL", f"--user={user}")
            time.sleep(0.1)


def _end_groups(nodes: Sequence[str]) -> None:
    """Remove control groups that SLURM leaves behind."""
    for top in CGROUPS.glob("*/slurm_*"):
        if top.name.removeprefix("slurm_") in nodes:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)


def _end_escaped(site: Site) -> None:
    """Kill processes of jobs that SLURM lost sight of: their environment names this site and a job."""
    mark = f"SLURM_CONF={site.folder / 'slurm.conf'}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if mark in words and any(word.startswith(b"SLURM_JOB_ID=") for word in words):
                os.kill(int(path.parent.name), 9)


def _wait(ready: Callable[[], bool], folder: Path) -> None:
    began = time.monotonic()
    while True:
        with suppress(subprocess.CalledProcessError):
            if ready():
                return
        if time.monotonic() > began + NEVER:
            logs = "\n".join(path.read_text()[-2000:] for path in sorted((folder / "log").iterdir()))
            raise RuntimeError(f"SLURM did not start\n{logs}")
        time.sleep(0.1)


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))


if __name__ == "__main__":
    reason = missing()
    if reason is not None:
        sys.exit(reason)
    with slurm() as here:
        sys.exit(subprocess.call(sys.argv[1:] or ["bash"], env=os.environ | here.environment))
