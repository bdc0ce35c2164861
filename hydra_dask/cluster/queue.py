"""What a batch system knows of one's jobs."""

import asyncio
import getpass
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """The command that lists the jobs of this user that wait or run, one a line, and what a line looks like.

    ``{user}`` and ``{uid}`` in the command are those of this process. ``nothing`` is what the command says, with an
    exit status other than 0, when there are no jobs.
    """

    command: str
    line: str = r"^\s*(\d+)"
    nothing: str | None = None

    async def jobs(self) -> set[int] | None:
        """The numbers of the jobs that wait or run; None: the batch system does not answer."""
        words = self.command.format(user=getpass.getuser(), uid=os.getuid()).split()
        try:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
            output, errors = await process.communicate()
        except OSError:
            return None
        if process.returncode and not (self.nothing and self.nothing in (output + errors).decode(errors="replace")):
            return None
        return {int(number) for number in re.findall(self.line, output.decode(errors="replace"), re.MULTILINE)}


def number(job_id: str) -> int:
    """The number of a job, whatever else its id contains.

    Examples
    --------
    >>> number("4711.login1"), number("12.0")
    (4711, 12)
    """
    found = re.match(r"\d+", job_id)
    return int(found.group()) if found else -1
