"""Time limits of jobs, and how long a worker lives below one."""

import re
from typing import NamedTuple


def seconds(walltime: object) -> int:
    """A time limit in seconds.

    Examples
    --------
    >>> seconds("01:30:00"), seconds("1-00:00:00"), seconds("02:00")
    (5400, 86400, 7200)
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?", str(walltime))
    if found is None:
        raise ValueError(
            f"cluster.walltime={walltime} must be hours:minutes:seconds, as 01:30:00, in a file '01:30:00'"
        )
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


class Lifetime(NamedTuple):
    """How long a worker takes new tasks, in seconds, give or take the stagger: workers should not end all at once."""

    duration: int
    stagger: int


def lifetime(walltime: str) -> Lifetime:
    """The lifetime of a worker whose job has this limit: time remains for what runs at its end, and to leave.

    Examples
    --------
    >>> lifetime("01:00:00")
    Lifetime(duration=2880, stagger=180)
    """
    limit = seconds(walltime)
    return Lifetime(limit * 4 // 5, limit // 20)
