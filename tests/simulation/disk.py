"""A disk that is slow, full or broken at times, and that forgets what was not flushed when the power fails."""

import errno
import io
import posixpath
from types import SimpleNamespace
from typing import Any

from tests.simulation.world import world

FIRST_DESCRIPTOR = 10


class File:
    """What a name stands for."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.flushed = b""


class Disk:
    """Names and files, as processes see them and as they would be after a power failure."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.folders: set[str] = {"/"}
        self.secured: dict[str, File] = {}  # names that are on disk for certain
        self.secured_folders: set[str] = {"/"}
        self.full_until = self.slow_until = self.broken_until = 0.0
        self.kill_after: int | None = None  # operations until the process that does one is killed
        self.killed: Any = None  # kills a process
        self.watchers: list[Any] = []  # called after every change of names, with the name
        self.securing: list[Any] = []  # called after names were secured, with the folder
        self.processes: dict[int, Any] = {}

    def step(self, writes: bool = False) -> None:
        """An operation of a process: it takes time, may fail, and may be the last one."""
        here = world()
        process = here.current()
        if here.closing or not process.alive:
            here.wait()  # for ever: the dead change nothing
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                self.kill_after = None
                here.note(f"disk: {process} is killed in the middle")
                self.killed(process)
                here.wait()
        if here.now < self.slow_until:
            here.wait(here.rng.random())
        else:
            here.give_way(0.2)
        if here.now < self.broken_until:
            raise OSError(errno.EIO, "Input/output error")
        if writes and here.now < self.full_until:
            raise OSError(errno.ENOSPC, "No space left on device")

    def changed(self, name: str) -> None:
        for watcher in self.watchers:
            watcher(name)

    def secure(self, folder: str) -> None:
        """The names in a folder are on disk, and the folder with them."""
        inside = [name for name in {*self.names, *self.secured} if posixpath.dirname(name) == folder]
        for name in inside:
            if name in self.names:
                self.secured[name] = self.names[name]
            else:
                self.secured.pop(name, None)
        self.secured_folders |= {each for each in self.folders if posixpath.dirname(each) == folder}
        for watcher in self.securing:
            watcher(folder)

    def lose_power(self, early: bool) -> None:
        """Keep what was flushed: of the names those that were secured, or (``early``) all of them."""
        names = dict(self.names if early else self.secured)
        for name in list(names):
            kept = File()
            kept.content, kept.flushed = bytearray(names[name].flushed), names[name].flushed
            if early or posixpath.dirname(name) in self.secured_folders:
                names[name] = kept
            else:
                del names[name]
        self.names, self.secured = names, dict(names)
        self.folders = set(self.folders if early else self.secured_folders)
        self.secured_folders = set(self.folders)

    def modules(self) -> SimpleNamespace:
        """In place of ``os``."""
        return SimpleNamespace(
            O_RDONLY=0,
            uname=lambda: SimpleNamespace(nodename="sim"),
            getpid=self._pid,
            kill=self._kill,
            fsync=self._fsync,
            open=self._open,
            close=lambda descriptor: world().current().files.pop(descriptor),
        )

    def _pid(self) -> int:
        process = world().current()
        self.processes[process.pid] = process
        return process.pid

    def _kill(self, pid: int, signal: int) -> None:
        if pid not in self.processes or not self.processes[pid].alive:
            raise ProcessLookupError

    def _open(self, path: "SimPath", flags: int) -> int:
        self.step()
        if path.text not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path.text)
        return descriptor_of(path)

    def _fsync(self, descriptor: int) -> None:
        self.step(writes=True)
        found = world().current().files[descriptor]
        if isinstance(found, SimPath):
            self.secure(found.text)
        else:
            found.flushed = bytes(found.content)


def descriptor_of(opened: Any) -> int:
    descriptor = world().number()
    world().current().files[descriptor] = opened
    return descriptor


class Opened(io.RawIOBase):
    """A file that is open."""

    def __init__(self, disk: Disk, file: File, writes: bool) -> None:
        super().__init__()
        self._disk, self._file, self._writes, self._at = disk, file, writes, 0
        self._descriptor = descriptor_of(file)
        self._process = world().current()

    def readable(self) -> bool:
        return not self._writes

    def writable(self) -> bool:
        return self._writes

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        data = bytes(data)
        if len(data) > 1 and self._disk.kill_after == 0:
            self._file.content += data[: len(data) // 2]  # torn
        self._disk.step(writes=True)
        self._file.content += data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        stop = len(self._file.content) if size is None or size < 0 else self._at + size
        found = bytes(self._file.content[self._at : stop])
        self._at += len(found)
        return found

    def readinto(self, into: Any) -> int:
        found = self.read(len(into))
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._process.files.pop(self._descriptor, None)
        super().close()


class SimPath:
    """As much of a ``pathlib.Path`` as checkpoints use."""

    def __init__(self, disk: Disk, text: str) -> None:
        self.disk, self.text = disk, text

    def __reduce__(self) -> Any:
        return found_again, (self.text,)

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimPath) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __truediv__(self, name: str) -> "SimPath":
        return SimPath(self.disk, posixpath.join(self.text, name))

    @property
    def name(self) -> str:
        return posixpath.basename(self.text)

    @property
    def parent(self) -> "SimPath":
        return SimPath(self.disk, posixpath.dirname(self.text))

    def with_name(self, name: str) -> "SimPath":
        return self.parent / name

    def resolve(self) -> "SimPath":
        return self

    def exists(self) -> bool:
        return self.text in self.disk.names or self.text in self.disk.folders

    def is_dir(self) -> bool:
        return self.text in self.disk.folders

    def is_symlink(self) -> bool:
        return False

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        self.disk.step(writes=True)
        self.disk.folders.add(self.text)

    def open(self, mode: str) -> Opened:
        self.disk.step(writes="w" in mode)
        if "w" in mode:
            self.disk.names[self.text] = File()
        elif self.text not in self.disk.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.text)
        return Opened(self.disk, self.disk.names[self.text], "w" in mode)

    def stat(self) -> SimpleNamespace:
        if self.text not in self.disk.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.text)
        return SimpleNamespace(st_size=len(self.disk.names[self.text].content), st_mtime=0.0)

    def replace(self, target: "SimPath") -> None:
        self.disk.step(writes=True)
        if self.text not in self.disk.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.text)
        self.disk.names[target.text] = self.disk.names.pop(self.text)
        self.disk.changed(target.text)

    def unlink(self, missing_ok: bool = False) -> None:
        self.disk.step()
        if self.disk.names.pop(self.text, None) is None and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.text)
        self.disk.changed(self.text)

    def iterdir(self) -> list["SimPath"]:
        self.disk.step()
        if self.text not in self.disk.folders:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.text)
        return [SimPath(self.disk, name) for name in self.disk.names if posixpath.dirname(name) == self.text]

    def glob(self, pattern: str) -> list["SimPath"]:
        found = [name for name in self.disk.names if posixpath.dirname(name) == self.text]
        begin, _, end = pattern.partition("*")
        whole = [SimPath(self.disk, name) for name in found]
        return [path for path in whole if path.name.startswith(begin) and path.name.endswith(end)]


def found_again(text: str) -> SimPath:
    """The same path, as another process sees it: the disk is everybody's."""
    return SimPath(world().disk, text)  # type: ignore[attr-defined]
