"""Which job a worker is given, and what is said about one whose process is gone."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from hydra_dask.manifest import Job
from hydra_dask.pool import Pool, Rules, _Running

OVERDUE = "ran longer than hydra.launcher.timeout=10 seconds and was stopped"


class Quiet:
    """A client that has nothing to tell."""

    cluster = None

    def get_events(self, _: str) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    ("told", "overdue", "said"),
    [
        ("exited with status 7", False, "its process ended with status 7"),
        ("was killed by signal 9", False, "its process was killed by signal 9 (SIGKILL)"),
        ("exited with status 1", False, OVERDUE),  # the watchdog of the job did that
        ("was killed by signal 9", True, OVERDUE),  # the driver did that
        (None, False, OVERDUE),  # on another machine: nobody knows more
    ],
)
def test_only_what_was_stopped_took_too_long(told: str | None, overdue: bool, said: str, tmp_path: Path) -> None:
    """A busy worker takes long before the job itself starts: time alone is no proof."""
    client: Any = Quiet()
    pool = Pool(client, "token", tmp_path, Rules(timeout=10.0), {}, lambda _: None)
    if told is not None:
        pool.deaths.emit(logging.makeLogRecord({"msg": f"Worker process 17 {told}"}))
    future: Any = None
    entry = _Running(Job("id", 0, "0", []), future, "tcp://there", time.monotonic() - 100, 1, overdue)
    assert pool._cause(entry, {"pid": 17}, None) == (said, said == OVERDUE)


@pytest.mark.parametrize(("jobs", "begun"), [(9, [0, 8]), (8, [0, 1])])
def test_workers_begin_far_apart_if_there_are_many_jobs(jobs: int, begun: list[int], tmp_path: Path) -> None:
    """Neighbours are alike, and what is the same about them need not be made ready twice at the same time."""
    client: Any = Quiet()
    pool = Pool(client, "token", tmp_path, Rules(), {}, lambda _: None)
    pool._fresh.extend(Job(str(index), index, str(index), []) for index in range(jobs))
    pool._workers = ["first", "second"]
    taken = [pool._next_for(worker).index for worker in ["first", "second", "second", "first"]]
    assert taken[:2] == begun
    rest = [index for index in range(jobs) if index not in begun]
    assert taken[2:] == rest[:2]
