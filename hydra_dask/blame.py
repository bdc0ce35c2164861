"""Who is to blame for a job that was lost: only what a job does to itself counts, and that it never gets any further.

A process that ends is its job's fault: its nanny says how it ended. A batch job that the system ended, or a machine
that is gone, is not, as long as the job keeps something (a checkpoint) from one loss to the next.
"""

import logging
import re
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

EXITS = "worker-exit"  # the topic under which nannies of batch jobs tell
MEMORY_WORDS = ("OUT_OF_MEMORY", "TERM_MEMLIMIT")  # of batch systems, for how a job ended
MOST_DEPARTURES = 100  # workers that may leave before a job has begun, or while it gets on
MOST_FRUITLESS = 3  # losses in a row between which nothing was kept
TOO_LONG = (
    "lost its worker {} times and had kept nothing: it takes longer than workers last; give it a longer walltime, or "
    "let it write checkpoints"
)


@dataclass
class Blame:
    """What has happened to a job so far."""

    deaths: int = 0  # that were its own fault
    departures: int = 0
    fruitless: int = 0  # in a row

    def departed(self, begun: bool, kept: bool) -> str | None:
        """A worker is gone and it was not the job's fault; why it is not tried again, if so."""
        self.departures += 1
        if begun:
            self.fruitless = 0 if kept else self.fruitless + 1
        if self.fruitless >= MOST_FRUITLESS:
            return TOO_LONG.format(self.fruitless)
        if self.departures >= MOST_DEPARTURES:
            return "its workers left again and again before it was done; give it longer ones"
        return None

    def warning(self) -> str | None:
        """What is to be told now, before it is too late."""
        return TOO_LONG.format("two") if self.fruitless == MOST_FRUITLESS - 1 else None


def how(code: int) -> str:
    """How a process ended, by its exit code.

    Examples
    --------
    >>> how(7), how(-9)
    ('its process ended with status 7', 'its process was killed by signal 9 (SIGKILL)')
    """
    if code >= 0:
        return f"its process ended with status {code}"
    name = ""
    with suppress(ValueError):
        name = f" ({signal.Signals(-code).name})"
    return f"its process was killed by signal {-code}{name}"


WATCHDOG = how(1)  # how the watchdog inside a worker ends it


def told_by_nanny(client: Any, record: dict[str, Any]) -> str | None:
    """How the process of a record ended, if the nanny in its batch job has told."""
    for _, event in client.get_events(EXITS):
        if (event["pid"], event["host"]) == (record["pid"], record["host"]):
            return "needed more memory than its job has" if event["full"] else how(event["code"])
    return None


class Deaths(logging.Handler):
    """Listens to the nannies of this process, the only ones who know how a worker's process ended."""

    LOGGER = "distributed.nanny"
    PATTERN = re.compile(r"Worker process (\d+) (was killed by signal|exited with status) (\d+)")

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._found: dict[int, str] = {}
        self._news = threading.Condition()
        self._before: tuple[int, bool] = (0, True)

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a death."""
        if found := self.PATTERN.search(record.getMessage()):
            self.died(int(found[1]), int(found[3]) * (-1 if found[2] == "was killed by signal" else 1))

    def died(self, pid: int, code: int) -> None:
        """A process has ended with this exit code."""
        with self._news:
            self._found[pid] = how(code)
            self._news.notify_all()

    def of(self, pid: int, patience: float) -> str | None:
        """How a process ended; waits for its nanny to notice. None: nobody says."""
        with self._news:
            self._news.wait_for(lambda: pid in self._found, patience)
            return self._found.get(pid)

    def __enter__(self) -> "Deaths":
        logger = logging.getLogger(self.LOGGER)
        self._before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger(self.LOGGER)
        logger.removeHandler(self)
        logger.level, logger.propagate = self._before
        logger.setLevel(self._before[0])
