"""One process at a time: locks that end with whoever holds them, however it ends.

A lock is a file that its holder has locked with ``flock``: the operating system releases it when the process is gone.
Where the file system has no such locks, the holder's name in a file that only one process can create takes their place:
of a process of this machine it is known whether it lives, of others it is believed.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
POLL_SECONDS = 0.05


class Held(Exception):
    """Another process, or another thread of this one, holds the lock; ``holder`` says who, as far as it is known."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextmanager
def locked(path: Path, patience: float = 0.0, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock at ``path``, whose folder exists; the file is gone afterwards.

    Parameters
    ----------
    path
        The file.
    patience
        Seconds to wait for whoever holds it; then Held is raised.
    waiting
        Told once, before the first wait, who it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "lock"):
    ...     with locked(Path(folder) / "lock"):
    ...         pass
    Traceback (most recent call last):
        ...
    hydra_dask.locks.Held: process ...
    """
    deadline = time.monotonic() + patience
    while (release := _taken(path)) is None:
        holder = _words(_content(path) or _content(_marker(path)), _marker(path))
        if time.monotonic() >= deadline:
            raise Held(holder)
        if waiting is not None:
            waiting(holder)
            waiting = None
        time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        release()


def _taken(path: Path) -> Callable[[], None] | None:
    """How to let go of the lock, which is ours now; None: somebody holds it."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same(handle, path):  # its last holder has just removed it
            os.close(handle)
            return None
    except OSError as error:
        os.close(handle)
        if error.errno in NO_LOCKS:
            path.unlink(missing_ok=True)
            return _marked(_marker(path))
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    os.ftruncate(handle, 0)
    os.write(handle, _signature().encode())

    def release() -> None:
        with suppress(OSError):
            path.unlink()  # before the lock ends: who waits for this file sees that it is not the one any more
        os.close(handle)

    return release


def _open(path: Path) -> int:
    """The file of a lock; whoever can make files in its folder can take it after us, also if we leave it behind."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with suppress(OSError):  # it is somebody else's
        os.fchmod(handle, path.parent.stat().st_mode & 0o666)
    return handle


def _is_same(handle: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(handle)
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.holder")


def _marked(marker: Path) -> Callable[[], None] | None:
    """The same with a file that only one process can create."""
    own = marker.with_name(f"{marker.name}.{os.uname().nodename}-{os.getpid()}-{time.monotonic_ns()}")
    own.write_text(_signature(), encoding="utf-8")
    try:
        found = _content(marker)
        if found and _is_dead(found):
            return _inherited(marker, own, found)
        os.link(own, marker)  # fails if there is one
    except (FileExistsError, FileNotFoundError):
        return None
    finally:
        own.unlink(missing_ok=True)
    return partial(_let_go, marker)


def _inherited(marker: Path, own: Path, dead: str) -> Callable[[], None] | None:
    """Take the place of a dead holder, whom others may have found dead as well: only one of them may at a time."""
    heir = marker.with_name(f"{marker.name}.heir")
    if (before := _content(heir)) and _is_dead(before):
        heir.unlink(missing_ok=True)
    os.link(own, heir)
    try:
        if _content(marker) != dead:  # somebody has taken it meanwhile
            return None
        own.replace(marker)
    finally:
        heir.unlink()
    return partial(_let_go, marker)


def _let_go(marker: Path) -> None:
    """Remove the file of a holder, unless a user has, or another one is there since."""
    with suppress(OSError):
        if _content(marker) == _signature():
            marker.unlink()


def _signature() -> str:
    """Who we are: machine, process, and when that began, because numbers of processes are used again."""
    return f"{os.uname().nodename} {os.getpid()} {_began(os.getpid())}"


def _began(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _is_dead(signature: str) -> bool:
    host, process, began = signature.split()
    return host == os.uname().nodename and _began(int(process)) != began


def _content(path: Path) -> str:
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return found if len(found.split()) == 3 else ""


def _words(signature: str, marker: Path) -> str:
    if not signature:
        return "another process"
    host, process, _ = signature.split()
    left = f" (if it is dead, delete {marker})" if marker.exists() and host != os.uname().nodename else ""
    return f"process {process} on {host}{left}"
