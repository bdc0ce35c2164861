"""What the scenarios ask of a batch system, whichever it is."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from tests.batch.machines import LOGIN, SYSTEM_PATH, USERS, Machine, Site, machines, program
from tests.batch.machines import missing as no_machines
from tests.waiting import until


class Job(NamedTuple):
    """A job that waits, runs or is just ending."""

    runs: bool
    node: str


class System(ABC):
    """A batch system on emulated machines."""

    kind: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    packages: ClassVar[str]  # of Debian
    refused: ClassVar[tuple[str, str]]  # a queue that there is not, and what the system says of it
    cleans: ClassVar[bool] = True  # whether jobs that it ends can remove their temporary files, or it does
    asked: ClassVar[tuple[str, ...]]  # what it says of a job of one worker with 2 cores and 500 MB, for an hour
    waits: ClassVar[tuple[str, str]]  # a directive with which a job does not start, and what is shown of it then
    unfit: ClassVar[str]  # what is said of a job of 64 cores before it is submitted, or when it is
    preemptible: ClassVar[list[str]] = []  # words of a sweep whose jobs may be pushed out; none: there is no such thing

    def __init__(self, site: Site) -> None:
        self.site = site

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot run here; None: it can."""
        absent = [name for name in cls.programs if program(name) is None]
        return f"no {', '.join(absent)} here (Debian: {cls.packages})" if absent else no_machines()

    @abstractmethod
    def start(self) -> None:
        """Start its daemons; they end with their machines."""

    @abstractmethod
    def start_node(self, machine: Machine) -> None:
        """Start what a node needs, and let it take jobs again."""

    def ready(self) -> None:
        """Wait until nothing is left of what was before, and all nodes take jobs."""
        self.wait(lambda: not self.jobs(), "waited for an empty queue")

    @abstractmethod
    def jobs(self) -> dict[str, Job]:
        """All jobs of all users that are in the queue."""

    @abstractmethod
    def cancel(self, user: str, job: str) -> None:
        """Let a user cancel a job by the system's own command."""

    @abstractmethod
    def described(self, job: str) -> str:
        """All that it says of a job."""

    @abstractmethod
    def array_of(self, job: str) -> str:
        """The array of which a job is an element."""

    def preempt(self, node: str) -> None:
        """Submit a job that pushes out what is preemptible on a node, and let it end."""
        raise NotImplementedError

    def call(self, *words: str, user: str = "root") -> str:
        """What one of the system's commands prints on the login machine."""
        return self.site.call(LOGIN, user, *words)

    def running(self) -> dict[str, str]:
        """The nodes of jobs that run."""
        return {name: job.node for name, job in self.jobs().items() if job.runs}

    def wait(self, ready: Callable[[], object], what: str) -> None:
        """Wait for something that a daemon is to do, and give its logs if it does not."""
        try:
            until(lambda: _answers(ready))
        except AssertionError as error:
            logs = sorted((self.site.folder / "log").iterdir())
            texts = "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in logs)
            raise RuntimeError(f"{self.kind}: {what} in vain\n{texts}") from error


@contextmanager
def at_work(kind: type[System], compiled: Path) -> Iterator[System]:
    """A batch system on machines of its own; ``compiled`` is where users keep what numba compiled."""
    compiled.mkdir(exist_ok=True)
    compiled.chmod(0o755)
    with machines(compiled) as site:
        site.variables |= {
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "DTOKEN_STORE": str(site.home("ann") / "stores"),
        }
        for user, uid in USERS.items():  # not by a variable: jobs of some systems do not get those of who submits them
            (compiled / user).mkdir(exist_ok=True)
            (site.home(user) / ".cache").mkdir()
            (site.home(user) / ".cache/numba").symlink_to(compiled / user)
            for path in (compiled / user, site.home(user) / ".cache"):
                os.chown(path, uid, uid)
        system = kind(site)
        system.start()
        yield system


def _answers(ready: Callable[[], object]) -> bool:
    """Whether something is so; no, as long as its command fails."""
    try:
        return bool(ready())
    except RuntimeError:
        return False
