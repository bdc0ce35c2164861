"""One process at a time, with and without locks of the operating system; who dies holds nothing."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hydra_dask.locks import Held, locked
from tests.waiting import until

HOLD = """
import os, signal
from pathlib import Path
from hydra_dask import locks
if not flock:
    def refuse(*_):
        raise OSError(38, "Function not implemented")
    locks.fcntl.flock = refuse
with locks.locked(Path(path)):
    Path(path + ".ready").touch()
    signal.pause()
"""


@pytest.fixture(params=[True, False], ids=["flock", "no flock"])
def flock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system has locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if not request.param:
        monkeypatch.setattr(fcntl, "flock", refuse)
    return bool(request.param)


def test_who_was_killed_holds_nothing(tmp_path: Path, start_child: Callable[..., Any], flock: bool) -> None:
    path = tmp_path / "lock"
    child = start_child(HOLD, path=str(path), flock=flock)
    until(lambda: Path(f"{path}.ready").exists())
    Path(f"{path}.ready").unlink()
    with pytest.raises(Held, match=rf"^process {child.pid} on {os.uname().nodename}$"), locked(path):
        pass
    told: list[str] = []

    def kill(holder: str) -> None:
        told.append(holder)
        child.kill()
        child.join()

    with locked(path, patience=60, waiting=kill):
        assert told == [f"process {child.pid} on {os.uname().nodename}"]
    assert list(tmp_path.iterdir()) == []


def test_threads_exclude_each_other(tmp_path: Path, flock: bool) -> None:
    inside, most, times = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, times
        for _ in range(20):
            with locked(tmp_path / "lock", patience=600):
                inside += 1
                most, times = max(most, inside), times + 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, times) == (1, 80)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flock", [False], indirect=True)
def test_the_holder_on_another_machine_is_believed_and_named(tmp_path: Path, flock: bool) -> None:
    marker = tmp_path / "lock.holder"
    marker.write_text("elsewhere 7 123")
    with pytest.raises(Held, match=r"^process 7 on elsewhere \(if it is dead, delete .*lock\.holder\)$"):
        locked(tmp_path / "lock").__enter__()
    marker.write_text(f"{os.uname().nodename} {os.getpid()} 1")  # the number is used again, by a later process
    with locked(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []
