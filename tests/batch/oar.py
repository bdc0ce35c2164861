"""A real OAR on emulated machines: PostgreSQL and the server on the login machine, OAR's own sshd on the nodes."""

import os
import pwd
from pathlib import Path
from typing import ClassVar

from tests.batch.machines import ADDRESSES, LOGIN, NODES, Machine
from tests.batch.system import Job, System

CORES = 2
SETTINGS = {
    "DB_HOSTNAME": ADDRESSES[LOGIN],
    "DB_BASE_PASSWD": "oar",
    "DB_BASE_PASSWD_RO": "oar",
    "SERVER_HOSTNAME": LOGIN,
    "LOG_LEVEL": "3",
    "SCHEDULER_JOB_SECURITY_TIME": "1",
    "FINAUD_FREQUENCY": "5",
    "JOBDEL_WALLTIME": "30",  # after which a job is given up that cannot be killed, as its node is gone
}
NEITHER = ("JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD", "JOB_RESOURCE_MANAGER_FILE")  # cgroups, which are not here
# OARDO_USER: on whose behalf it kills jobs
SERVER = {"HOME": "/var/lib/oar", "OARDIR": "/usr/lib/oar", "OARUSER": "oar", "OARDO_USER": "oar"} | {
    "OARCONFFILE": "/etc/oar/oar.conf"
}


def postgres(name: str) -> str:
    """A program of PostgreSQL, of whatever version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name


class Oar(System):
    """OAR."""

    kind = "oar"
    programs = ("oarsub", "oardel", "oarnodesetting", "oar-database", "/usr/lib/oar/Almighty", postgres("postgres"))
    packages = "oar-server, oar-server-pgsql, oar-user, oar-user-pgsql, oar-node and postgresql"
    refused = ("nowhere", "queue nowhere does not exist")
    cleans = False  # it kills without a warning, and what tidies up after jobs needs cgroups
    asked = ("network_address=1/core=2,walltime=1:0:0", "(memnode>=763)")
    waits = ("--hold", "H (R=1,W=1:0:0,J=B,N=dask-worker)")
    unfit = "oar refuses the job: There are not enough resources for your request"
    preemptible: ClassVar[list[str]] = ["+hydra.launcher.options.job_extra_directives=['-t besteffort']"]

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.site.folder / "oar"

    def start(self) -> None:
        """Start the database, fill it, start the server, start the nodes and describe them."""
        self.folder.mkdir()
        (self.site.folder / "log").mkdir(exist_ok=True)
        self._start_database()
        self._configure()
        create = ["--create", "--db-is-local", "--db-admin-user", "postgres", "--db-admin-pass", "x"]
        self.call("oar-database", *create)
        for name in NODES:
            self._start_sshd(name)
        become = self._become("oar")
        self.site.daemon(LOGIN, *become, "env", *(f"{k}={v}" for k, v in SERVER.items()), "/usr/lib/oar/Almighty")
        self.wait(lambda: self.call("oarstat") is not None, "waited for the server")
        for name in ("core", "memnode"):
            self.call("oarproperty", "-a", name)
        for number in range(CORES * len(NODES)):
            properties = ["-p", f"core={number + 1}", "-p", "memnode=8000"]
            self.call("oarnodesetting", "-a", "-h", NODES[number // CORES], *properties)
        self.wait(lambda: self._alive() == CORES * len(NODES), "waited for nodes")

    def _become(self, user: str) -> list[str]:
        found = pwd.getpwnam(user)
        return ["setpriv", f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--init-groups", "--"]

    def _start_database(self) -> None:
        data = self.folder / "data"
        data.mkdir()
        owner = pwd.getpwnam("postgres")
        os.chown(data, owner.pw_uid, owner.pw_gid)
        self.call("install", "-d", "-o", "postgres", "/run/postgresql")
        become = self._become("postgres")
        self.call(*become, postgres("initdb"), "--pgdata", str(data), "--auth=trust", "--no-sync")
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.77.0.0/24 trust\n")
        options = {
            "listen_addresses": f"127.0.0.1,{ADDRESSES[LOGIN]}",
            "unix_socket_directories": "/run/postgresql",
            "shared_buffers": "16MB",
            "fsync": "off",
        }
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        self.site.daemon(LOGIN, *become, postgres("postgres"), "-D", str(data), *words)
        ready = [postgres("pg_isready"), "-h", ADDRESSES[LOGIN]]
        self.wait(lambda: self.call(*ready), "waited for PostgreSQL")

    def _configure(self) -> None:
        log = self.site.folder / "log/oar.log"
        settings = SETTINGS | {"LOG_FILE": str(log)}
        lines = []
        for line in Path("/usr/share/oar/oar-common/oar.conf").read_text().splitlines():
            key = line.partition("=")[0].removeprefix("#")
            line = f'{key}="{settings[key]}"' if key in settings else line
            lines.append("" if key in NEITHER else line)
        file = self.folder / "oar.conf"
        file.write_text("".join(f"{line}\n" for line in lines))
        log.touch()
        owner = pwd.getpwnam("oar")
        for path in (file, log):
            os.chown(path, owner.pw_uid, owner.pw_gid)
        file.chmod(0o600)
        for name in self.site.machines:
            self._furnish(name)

    def _furnish(self, name: str) -> None:
        """Let a machine see this configuration, and a copy of OAR's own folder, in place of those of this machine."""
        own = f"{self.folder}/lib-{name}"
        script = [
            f"rm -rf {own}; cp -a /var/lib/oar {own}; mount --bind {own} /var/lib/oar",
            f"mount --bind {self.folder}/oar.conf /etc/oar/oar.conf",
            "mkdir /run/sshd /run/oar; chown oar /run/oar",
        ]
        self.site.call(name, "root", "sh", "-ec", "; ".join(script))

    def _start_sshd(self, name: str) -> None:
        self.site.daemon(name, "/usr/sbin/sshd", "-D", "-f", "/etc/oar/sshd_config", "-o", "PidFile=/run/oar-sshd.pid")

    def _alive(self) -> int:
        return self.call("oarnodes", "-s").count("Alive")

    def start_node(self, machine: Machine) -> None:
        """Start sshd and say that the node is there."""
        self._furnish(machine.name)
        self._start_sshd(machine.name)
        self._trust()

    def ready(self) -> None:
        """Take nodes in again that it suspects, as those on which a job did not end in time."""
        super().ready()
        self._trust()

    def _trust(self) -> None:
        for name in NODES:
            self.call("oarnodesetting", "-h", name, "-s", "Alive")
        self.wait(lambda: self._alive() == CORES * len(NODES), "waited for nodes")

    def jobs(self) -> dict[str, Job]:
        """What oarstat lists."""
        found = {}
        for line in self.call("oarstat").splitlines():
            words = line.split()
            if words and words[0].isdigit():
                found[words[0]] = words
        return {job: self._job(job) for job in found}

    def _job(self, job: str) -> Job:
        facts = self._facts(job)
        return Job(facts.get("state") == "Running", facts.get("assigned_hostnames", ""))

    def _facts(self, job: str) -> dict[str, str]:
        lines = self.described(job).splitlines()
        return {key.strip(): value for key, _, value in (line.partition(" = ") for line in lines)}

    def cancel(self, user: str, job: str) -> None:
        """oardel."""
        self.call("oardel", job, user=user)

    def described(self, job: str) -> str:
        """oarstat -f."""
        return self.call("oarstat", "-f", "-j", job)

    def array_of(self, job: str) -> str:
        """It has a number of its own."""
        return self._facts(job)["job_array_id"]

    def preempt(self, node: str) -> None:
        """An ordinary job, for which those of best effort are killed."""
        request = f"{{network_address='{node}'}}/core={CORES},walltime=00:01:00"
        self.call("oarsub", "-l", request, "-O", "/dev/null", "-E", "/dev/null", "true", user="bob")
