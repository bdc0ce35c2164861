"""A real Grid Engine on emulated machines: the master on the login machine, an execution daemon on each node."""

import os
import pwd
from pathlib import Path

from tests.batch.machines import LOGIN, NODES, Machine
from tests.batch.system import Job, System

LIBRARY, SHARE, ADMIN = "/usr/lib/gridengine", "/usr/share/gridengine", "sgeadmin"
BOOTSTRAP = """\
admin_user {admin}
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params {root}/spool/db
binary_path /usr/sbin
qmaster_spool_dir {root}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
SETTINGS = {  # of the whole cell
    "execd_spool_dir": "{root}/spool/execd",
    "mailer": "/bin/true",
    "load_report_time": "00:00:02",
    "max_unheard": "00:00:10",
    "reschedule_unknown": "00:00:00",
    "shell_start_mode": "unix_behavior",
    "min_uid": "0",
    "min_gid": "0",
}
SCHEDULER = {"schedule_interval": "0:0:2", "flush_submit_sec": "1", "flush_finish_sec": "1", "schedd_job_info": "true"}
NODE = """\
hostname {name}
load_scaling NONE
complex_values h_vmem=8G,slots=2
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""
PARALLEL = """\
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
# notify: the time between SIGUSR2 and SIGKILL
QUEUE = {"hostlist": "@allhosts", "load_thresholds": "NONE", "pe_list": "smp", "slots": "2", "rerun": "FALSE"} | {
    "notify": "00:02:00",
    "shell": "/bin/bash",
    "shell_start_mode": "unix_behavior",
}


class GridEngine(System):
    """Grid Engine."""

    kind = "sge"
    programs = ("sge_qmaster", "sge_execd", "qsub", "qconf")
    packages = "gridengine-master, gridengine-exec and gridengine-client"
    refused = ("nowhere", 'Unable to run job: Job was rejected because job requests unknown queue "nowhere"')
    asked = (
        "parallel environment:  smp range: 2\n",
        "h_rt=3600",
        "h_vmem=1050M",  # of each slot
        "notify:                     TRUE\n",
    )
    waits = ("-h", "hqw (Job is in hold state)")
    unfit = "sge would never run such a job: Unable to run job: "

    @property
    def root(self) -> Path:
        """SGE_ROOT."""
        return self.site.folder / "sge"

    def start(self) -> None:
        """Write the files of a cell, fill its database, start the master, describe the nodes, start theirs."""
        self._write_files()
        script = "; ".join(
            [
                f"set -e; {LIBRARY}/spoolinit berkeleydb libspoolb {self.root}/spool/db init",
                f"{LIBRARY}/spooldefaults configuration {self.root}/configuration",
                f"{LIBRARY}/spooldefaults complexes {SHARE}/util/resources/centry",
                f"{LIBRARY}/spooldefaults usersets {SHARE}/util/resources/usersets",
                *(f"{LIBRARY}/spooldefaults managers {name}" for name in (ADMIN, "root")),
            ]
        )
        admin = pwd.getpwnam(ADMIN)
        become = ["setpriv", f"--reuid={admin.pw_uid}", f"--regid={admin.pw_gid}", "--clear-groups", "--"]
        self.call(*become, "sh", "-c", script)
        self.call("sge_qmaster")
        self.wait(lambda: self.call("qconf", "-sm"), "waited for the master")
        self._describe()
        for name in NODES:
            self.call_on(name, "sge_execd")
        self.wait(lambda: self._nodes() == len(NODES), "waited for nodes")

    def _write_files(self) -> None:
        root = self.root
        for name in ("default/common", "bin", "spool/qmaster", "spool/execd", "spool/db"):
            (root / name).mkdir(parents=True)
        (self.site.folder / "log").mkdir(exist_ok=True)
        (root / "util").symlink_to(f"{SHARE}/util")
        (root / "utilbin").symlink_to(LIBRARY)
        (root / "bin/lx-amd64").symlink_to(LIBRARY)
        (root / "default/common/act_qmaster").write_text(f"{LOGIN}\n")
        (root / "default/common/cluster_name").write_text("tests\n")
        (root / "default/common/bootstrap").write_text(BOOTSTRAP.format(admin=ADMIN, root=root))
        lines = Path(f"{SHARE}/default-configuration").read_text().splitlines()
        settings = {key: value.format(root=root) for key, value in SETTINGS.items()}
        (root / "configuration").write_text(f"{_changed(lines, settings)}\n")
        admin = pwd.getpwnam(ADMIN)
        for folder, names, files in os.walk(root):
            for name in (".", *names, *files):
                os.chown(Path(folder, name), admin.pw_uid, admin.pw_gid, follow_symlinks=False)
        self.site.variables |= {
            "SGE_ROOT": str(root),
            "SGE_CELL": "default",
            "SGE_ARCH": "lx-amd64",
            "SGE_QMASTER_PORT": "6444",
            "SGE_EXECD_PORT": "6445",
        }

    def _describe(self) -> None:
        """Tell the master of scheduler, nodes, queue and parallel environment; memory can be asked for."""
        self.call("qconf", "-as", LOGIN)
        self._from_file("-Msconf", _changed(self.call("qconf", "-ssconf").splitlines(), SCHEDULER))
        complexes = self.call("qconf", "-sc").splitlines()
        memory = "h_vmem h_vmem MEMORY <= YES YES 1G 0"
        self._from_file("-Mc", "\n".join(memory if line.startswith("h_vmem ") else line for line in complexes))
        self._from_file("-Ahgrp", "group_name @allhosts\nhostlist NONE\n")
        for name in NODES:
            self.call("qconf", "-ah", name)
            self.call("qconf", "-as", name)
            self._from_file("-Ae", NODE.format(name=name))
            self.call("qconf", "-aattr", "hostgroup", "hostlist", name, "@allhosts")
        self._from_file("-Ap", PARALLEL)
        shown = self.call("qconf", "-sq").splitlines()  # a template
        self._from_file("-Aq", _changed(shown, QUEUE | {"qname": "all.q"}))

    def _from_file(self, option: str, text: str) -> None:
        file = self.root / "input"
        file.write_text(f"{text}\n")
        self.call("qconf", option, str(file))

    def call_on(self, machine: str, *words: str) -> None:
        """Run a command on a node."""
        self.site.call(machine, "root", *words)

    def _nodes(self) -> int:
        """The nodes whose daemon reports."""
        lines = [line.split() for line in self.call("qstat", "-f").splitlines()]
        return sum(len(words) == 5 for words in lines if words and words[0].startswith("all.q@"))

    def start_node(self, machine: Machine) -> None:
        """Start the daemon."""
        self.call_on(machine.name, "sge_execd")
        self.wait(lambda: self._nodes() == len(NODES), f"waited for {machine.name}")

    def jobs(self) -> dict[str, Job]:
        """What qstat lists."""
        lines = [line.split() for line in self.call("qstat", "-g", "d", "-u", "*").splitlines()[2:]]
        found = {}
        for job, *words in lines:
            node = words[6].partition("@")[2] if "@" in words[6] else ""
            element = words[8 if node else 7 :]
            found[".".join([job, *element])] = Job(words[3] == "r", node)
        return found

    def cancel(self, user: str, job: str) -> None:
        """qdel."""
        self.call("qdel", job, user=user)

    def described(self, job: str) -> str:
        """qstat -j."""
        return self.call("qstat", "-j", job)

    def array_of(self, job: str) -> str:
        """Before the number of the element."""
        return job.partition(".")[0]


def _changed(lines: list[str], values: dict[str, str]) -> str:
    """Lines of keys and values, with other values for some."""
    return "\n".join(f"{key} {values[key]}" if (key := (line.split() or [""])[0]) in values else line for line in lines)
