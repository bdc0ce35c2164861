"""One process at a time, with and without locks of the operating system; who dies holds nothing."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hydra_dask import locks
from hydra_dask.durable import make_shared
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


@pytest.mark.parametrize("flock", [False], indirect=True)
def test_a_dead_holder_has_one_heir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flock: bool) -> None:
    """Somebody takes the lock between the moments in which another one finds its holder dead and takes it."""
    (tmp_path / "lock.holder").write_text(f"{os.uname().nodename} {2**22 + 1} 1")  # no process has such a number
    is_dead, faster = locks._is_dead, [locked(tmp_path / "lock")]

    def slowly(signature: str) -> bool:
        found = is_dead(signature)
        if faster:
            entered.enter_context(faster.pop())
        return found

    monkeypatch.setattr(locks, "_is_dead", slowly)
    with ExitStack() as entered, pytest.raises(Held, match=f"^process {os.getpid()} on "), locked(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flock", [False], indirect=True)
def test_who_died_while_inheriting_is_not_in_the_way(tmp_path: Path, flock: bool) -> None:
    for name in ("lock.holder", "lock.holder.heir"):
        (tmp_path / name).write_text(f"{os.uname().nodename} {2**22 + 1} 1")
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock.holder").read_text().split()[1] == str(os.getpid())
        (tmp_path / "lock.holder").unlink()  # by a user; that is no error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="takes root to be two users")
def test_a_lock_in_a_folder_of_a_group_can_be_taken_by_others_of_it(open_folder: Path) -> None:
    """The first user's mask forbids others to write; what the folder allows counts, also for what is left behind."""
    store = open_folder / "store"
    store.mkdir()
    store.chmod(0o2775)
    os.chown(store, 0, 4242)
    before = os.umask(0o022)
    try:
        make_shared(store / ".locks")
    finally:
        os.umask(before)
    assert (store / ".locks").stat().st_mode & 0o7777 == 0o2775
    assert (store / ".locks").stat().st_gid == 4242
    code = (
        "import os, sys; from pathlib import Path; from hydra_dask.locks import locked; path = Path(sys.argv[1]);"
        "os.setgroups([4242]); os.setresgid(4242, 4242, 4242); uid = int(sys.argv[2]); os.setresuid(uid, uid, uid);"
        "lock = locked(path); lock.__enter__(); os._exit(0) if uid == 7001 else lock.__exit__(None, None, None)"
    )
    for user in ("7001", "7002"):  # the first one dies with the lock
        done = subprocess.run(
            [sys.executable, "-c", code, str(store / ".locks/one.lock"), user], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert not list((store / ".locks").iterdir())
