"""Limits of SLURM's partitions: unless a site enforces them at once, a job that exceeds them waits for ever."""

import re

from hydra_dask.cluster.site import said
from hydra_dask.cluster.walltime import seconds

COMMAND = ("sinfo", "--noheader", "--format=%P,%a,%l")


def obstacle(queue: str | None, walltime: str | None) -> str | None:
    """Why no partition of ``queue`` (None: the default one) would start a job of this length; None: one would."""
    found = {
        name.removesuffix("*"): (name.endswith("*"), state, limit)
        for name, state, limit in re.findall(r"^(\S+?),(\w+),(\S+)$", said(*COMMAND) or "", re.MULTILINE)
    }
    asked = [name for name in found if (found[name][0] if queue is None else name in queue.split(","))]
    reasons = [_reason(name, *found[name][1:], walltime) for name in asked]
    return "; ".join(reason for reason in reasons if reason) if reasons and all(reasons) else None


def _reason(name: str, state: str, limit: str, walltime: str | None) -> str | None:
    if state != "up":
        return f"partition {name} is {state}"
    if walltime is not None and limit != "infinite" and seconds(walltime) > _seconds(limit):
        return f"partition {name} has a time limit of {limit}, but cluster.walltime={walltime}"
    return None


def _seconds(limit: str) -> int:
    """How long a time limit of ``sinfo`` is.

    Examples
    --------
    >>> _seconds("10:00"), _seconds("2-00:00:00")
    (600, 172800)
    """
    return seconds(limit if limit.count(":") == 2 else f"0:{limit}")
