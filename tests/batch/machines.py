"""Emulated machines on this one: each has its own network, host name, process table, /tmp, /run and list of users.

They see one folder in common, at the same path, and each other, by a bridge in a network of its own from which nothing
leaves. All of it are namespaces of Linux, held by process 1 of each machine: they end with it, and it ends with the
process that made it, however that ends. Run as a program, this file is that process 1.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

LOGIN, NODES = "login1", ("n1", "n2", "n3")
ADDRESSES = {LOGIN: "10.77.0.1"} | {name: f"10.77.0.{10 + number}" for number, name in enumerate(NODES, start=1)}
USERS = {"ann": 7001, "bob": 7002}
END_SECONDS = 60.0
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
READY = "up"
SPACES = ["--net", "--uts", "--ipc", "--mount", "--pid"]


def missing() -> str | None:
    """Why there can be no emulated machines here; None: there can."""
    absent = [name for name in ("unshare", "nsenter", "setpriv", "ip", "mount") if program(name) is None]
    if absent:
        return f"no {', '.join(absent)} here (Debian: util-linux and iproute2)"
    if os.geteuid() != 0:
        return "emulated machines need root"
    bridge = ["ip", "link", "add", "name", "br0", "type", "bridge"]
    tried = subprocess.run(["unshare", *SPACES, "--fork", *bridge], capture_output=True, text=True, check=False)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


def program(name: str) -> str | None:
    """Where a program is, also one for administrators."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), SYSTEM_PATH]))


@dataclass
class Machine:
    """A machine that is up."""

    name: str
    holder: "subprocess.Popen[str]"
    pid: int  # of its process 1, in the process table of this machine

    def inside(self, user: str, variables: dict[str, str], words: Sequence[str], home: Path) -> list[str]:
        """A command, as a login of that user there would run it."""
        given = {"HOME": "/root", "PWD": "/", "PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "USER": user, "LOGNAME": user}
        become: list[str] = []
        if user != "root":
            uid = str(USERS[user])
            become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
            given |= {"HOME": str(home), "SHELL": "/bin/bash"}
        enter = ["nsenter", f"--target={self.pid}", *SPACES, "--wd=/", "--"]
        pairs = [f"{key}={value}" for key, value in (given | variables).items()]
        return [*enter, *become, "env", "-i", *pairs, *words]

    def processes(self, uid: int) -> dict[int, str]:
        """What a user runs there, by the numbers that processes have here."""
        here = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(folder / "ns/pid") == here and folder.stat().st_uid == uid:
                    words = (folder / "cmdline").read_text().replace("\0", " ").strip()
                    if words:  # none: it has ended
                        found[int(folder.name)] = words
        return found

    def kill(self, uid: int) -> None:
        """End all that a user runs there, without a warning."""
        for pid in self.processes(uid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def files(self, uid: int) -> list[str]:
        """What a user has in its temporary folders."""
        root = Path(f"/proc/{self.pid}/root")
        tops = [path for name in ("tmp", "dev/shm", "run") for path in (root / name).iterdir()]
        return [str(path.relative_to(root)) for path in tops if path.lstat().st_uid == uid]

    def tidy(self, uid: int) -> None:
        """Remove what a user has in its temporary folders."""
        for name in self.files(uid):
            path = Path(f"/proc/{self.pid}/root", name)
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def cut(self) -> None:
        """Take its network away; what runs there goes on, and sees the common folder."""
        subprocess.run(
            ["nsenter", f"--target={self.pid}", "--net", "ip", "link", "set", "eth0", "down"], capture_output=True
        )

    def end(self) -> None:
        """Let it vanish at once: first its network, so that nobody is told, then all its processes."""
        if self.holder.poll() is None:
            self.cut()
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.holder.wait(END_SECONDS)


@dataclass
class Site:
    """Machines that see each other, and a folder that all of them see."""

    folder: Path
    network: "subprocess.Popen[str]"
    keep: list[Path]
    machines: dict[str, Machine] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of everybody's commands
    daemons: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def home(self, user: str) -> Path:
        """The home directory of a user."""
        return self.folder / "home" / user

    def add(self, name: str) -> Machine:
        """Switch a machine on."""
        words = [
            "setpriv",
            "--pdeathsig=KILL",
            "unshare",
            "--kill-child",
            "--net",
            "--uts",
            "--ipc",
            "--mount",
            "--pid",
        ]
        python = [sys.executable, "-I", "-S", __file__, name, str(self.folder), *map(str, self.keep)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL  # unshare complains about a signal
        holder = subprocess.Popen([*words, "--fork", *python], stdout=pipe, stderr=nowhere, text=True)
        if (said := _first_line(holder)) != READY:
            holder.wait(END_SECONDS)
            raise RuntimeError(f"the machine {name} did not start: {said}")
        (pid,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        self.machines[name] = Machine(name, holder, int(pid))
        port = f"to-{name}"
        bridge = ["nsenter", f"--target={self.network.pid}", "--net", "ip", "link"]
        with suppress(subprocess.CalledProcessError):  # of a machine that has vanished
            _run(*bridge, "del", port)
        _run(*bridge, "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _run(*bridge, "set", port, "master", "bridge", "up")
        within = ["nsenter", f"--target={pid}", "--net", "ip"]
        _run(*within, "addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run(*within, "link", "set", device, "up")
        return self.machines[name]

    def words(self, machine: str, user: str, words: Sequence[str], cwd: Path | None = None) -> list[str]:
        """What runs a command on a machine, from here."""
        shell = [] if cwd is None else ["sh", "-c", 'cd "$0" && exec "$@"', str(cwd)]
        return self.machines[machine].inside(user, self.variables, [*shell, *words], self.home(user))

    def start(self, machine: str, user: str, *words: str, cwd: Path, printed: Path) -> "subprocess.Popen[str]":
        """Start a command on a machine; all that it prints goes to a file."""
        with printed.open("w") as file:
            return subprocess.Popen(
                self.words(machine, user, words, cwd),
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )

    def call(self, machine: str, user: str, *words: str, cwd: Path | None = None) -> str:
        """What a command prints that must succeed."""
        done = self.ask(machine, user, *words, cwd=cwd)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} on {machine}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def ask(self, machine: str, user: str, *words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """How a command ends, and what it prints."""
        command = self.words(machine, user, words, cwd)
        return subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, check=False
        )

    def daemon(self, machine: str, *words: str) -> None:
        """Start a daemon that stays in the foreground; it ends with its machine, and prints into a file."""
        (self.folder / "log").mkdir(exist_ok=True)
        with (self.folder / "log" / f"{Path(words[0]).name}.{machine}.txt").open("a") as log:
            command = self.words(machine, "root", words)
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, text=True))

    def left(self, user: str, files: bool = True) -> dict[str, list[str]]:
        """The processes of a user, and temporary files, also those on nodes if ``files``; by machine; empty: none."""
        uid, found = USERS[user], {}
        for name, machine in self.machines.items():
            found[name] = [*machine.processes(uid).values(), *(machine.files(uid) if files or name == LOGIN else [])]
        return {name: what for name, what in found.items() if what}


@contextmanager
def machines(common: Path | None = None) -> Iterator[Site]:
    """Switch on a login machine and its nodes, which also see ``common``; all on them ends with the context."""
    folder = Path(tempfile.mkdtemp(prefix="batch-", dir="/tmp"))  # short: a socket's path has at most 107 characters
    folder.chmod(0o755)
    _write_files(folder)
    network = subprocess.Popen(
        ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sh", "-c", "echo up && exec sleep infinity"],
        stdout=subprocess.PIPE,
        text=True,
    )
    site = Site(folder, network, _needed(folder, common))
    try:
        _first_line(network)
        _run("nsenter", f"--target={network.pid}", "--net", "ip", "link", "add", "bridge", "type", "bridge")
        _run("nsenter", f"--target={network.pid}", "--net", "ip", "link", "set", "bridge", "up")
        for name in ADDRESSES:
            site.add(name)
        yield site
    finally:
        for machine in site.machines.values():
            machine.end()
        for daemon in site.daemons:
            daemon.wait(END_SECONDS)
        network.kill()
        network.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: Path) -> None:
    """Users, their homes and the names of the machines."""
    (folder / "etc").mkdir()
    hosts = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in ADDRESSES.items())]
    (folder / "etc/hosts").write_text("".join(f"{line}\n" for line in hosts))
    passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
    for name, uid in USERS.items():
        home = folder / "home" / name
        home.mkdir(parents=True)
        home.chmod(0o755)  # as on many sites: what is private is so by itself
        os.chown(home, uid, uid)
        passwd += f"{name}:x:{uid}:{uid}::{home}:/bin/bash\n"
        group += f"{name}:x:{uid}:\n"
    (folder / "etc/passwd").write_text(passwd)
    (folder / "etc/group").write_text(group)


def _needed(folder: Path, common: Path | None) -> list[Path]:
    """What the machines must see of this one, wherever it is: the common folder, Python, its packages, the project."""
    project = Path(__file__).parents[2]
    found = {project, Path(sys.prefix), Path(sys.base_prefix).resolve(), Path(sys.executable).resolve().parent}
    found |= {Path(name) for name in sys.path if Path(name).is_dir()}
    outer = {path for path in found if not any(other in path.parents for other in found)}
    return [folder, *([] if common is None else [common]), *sorted(outer)]


def _first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    with process.stdout as output:
        return output.readline().strip()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


# From here on: process 1 of a machine.


def _furnish(name: str, folder: Path, keep: Sequence[Path]) -> None:
    """Give this process' namespaces the looks of a machine."""
    _run("hostname", name)
    _run("mount", "--make-rprivate", "/")
    hidden = {Path("/tmp"): "1777"} | {closed: "755" for path in keep if (closed := _closed(path)) is not None}
    for number, (top, mode) in enumerate(hidden.items()):
        stage = folder / f".{name}-{number}"
        stage.mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", str(stage))
        for path in keep:
            if top in path.parents:
                inner = stage / path.relative_to(top)
                inner.mkdir(parents=True, exist_ok=True)
                _run("mount", "--bind", str(path), str(inner))
        _run("mount", "--move", str(stage), str(top))
    for where in ("/run", "/dev/shm"):
        _run("mount", "-t", "tmpfs", "-o", "mode=1777" if where == "/dev/shm" else "mode=755", "tmpfs", where)
    _run("mount", "-t", "proc", "proc", "/proc")
    for file in ("hosts", "passwd", "group"):
        _run("mount", "--bind", str(folder / "etc" / file), f"/etc/{file}")


def _closed(path: Path) -> Path | None:
    """The topmost folder on the way that only its owner may enter."""
    closed = [each for each in path.parents if not each.stat().st_mode & 0o001]
    return closed[-1] if closed else None


def _live() -> None:
    """Bury the dead, as process 1 does."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.sigtimedwait([signal.SIGCHLD], 0.5)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        _furnish(sys.argv[1], Path(sys.argv[2]), [Path(word) for word in sys.argv[3:]])
    except subprocess.CalledProcessError as error:
        sys.exit(print(error, error.stderr))
    print(READY, flush=True)
    _live()
