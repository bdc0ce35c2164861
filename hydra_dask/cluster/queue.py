"""What a batch system knows of one's jobs."""

import asyncio
import getpass
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Entry(NamedTuple):
    """A job in the queue: its state and the reason for it, in the system's own words, as far as it says them."""

    state: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.state or 'in the queue'}{f' ({self.reason})' if self.reason else ''}"


@dataclass(frozen=True)
class Queue:
    """The commands that tell of the jobs of this user that wait or run.

    Parameters
    ----------
    command
        Lists them, one a line; ``{user}`` and ``{uid}`` are those of this process.
    line
        What a line looks like: the groups ``job``, and where there are such things ``element`` of an array, ``state``
        and ``reason``.
    nothing
        What the command says, with an exit status other than 0, when there are no jobs.
    detail
        The command that says more about the job ``{job}``; None: the list says all.
    details
        What its output looks like: any of the groups ``state`` and ``reason``, wherever they are.
    ended
        The command that says how the job ``{job}`` ended, and in the group ``word`` of ``ending`` the system's word.
    words
        What the system's shorthand for a state means.
    """

    command: str
    line: str = r"^\s*(?P<job>\d+)"
    nothing: str | None = None
    detail: str | None = None
    details: str = ""
    ended: str | None = None
    ending: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    async def jobs(self) -> dict[str, Entry] | None:
        """The jobs that wait or run, by their numbers (``number``); None: the batch system does not answer."""
        status, text = await _output(self.command.format(user=getpass.getuser(), uid=os.getuid()))
        if status and not (self.nothing and self.nothing in text):
            return None
        found = re.finditer(self.line, text, re.MULTILINE)
        return {_key(line.groupdict()): self._entry(line.groupdict()) for line in found}

    async def explained(self, job: str, entry: Entry) -> Entry:
        """The same with all that the system has to say about the job of this id."""
        if self.detail is None:
            return entry
        status, text = await _output(self.detail.format(job=job))
        if status:
            return entry
        found: dict[str, str] = {}
        for part in re.finditer(self.details, text.replace("\n\t", ""), re.MULTILINE):  # PBS folds long lines
            found = {key: value for key, value in part.groupdict().items() if value} | found  # the first ones count
        more = self._entry(found)
        return Entry(more.state or entry.state, more.reason or entry.reason)

    async def fate(self, job: str, key: str) -> str | None:
        """How a job ended, in the system's word or, if it does not say, ``gone``; None: it may still be there."""
        known = await self.jobs()
        if known is None or key in known:
            return None
        status, text = (1, "") if self.ended is None else await _output(self.ended.format(job=job))
        found = None if status else re.search(self.ending, text)
        word = found["word"] if found else "gone"
        return None if word == "COMPLETING" else word

    def _entry(self, found: Mapping[str, str | None]) -> Entry:
        state, reason = (found.get("state") or "").strip(), (found.get("reason") or "").strip()
        return Entry(self.words.get(state, state), "" if reason in ("None", "undefined", "-") else reason)


async def _output(command: str) -> tuple[int, str]:
    """The exit status and all that a command prints; 127: there is no such command."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command), stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return 127, ""
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


def _key(found: Mapping[str, str | None]) -> str:
    element = found.get("element")
    return f"{found['job']}.{element}" if element else str(found["job"])


def number(job_id: str) -> str:
    """The number of a job that is no element of an array, whatever else its id contains; empty: it has none.

    Examples
    --------
    >>> number("4711.login1"), number("12.0")
    ('4711', '12')
    """
    found = re.match(r"\d+", job_id)
    return found.group() if found else ""
