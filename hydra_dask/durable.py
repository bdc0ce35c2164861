"""Files and folders, complete or absent also after a power failure: data reach the disk before their name does.

Whatever is written passes through here, in this order: contents, name, folder of the name. So a file that vouches for
others, written after them, is never on disk without them.
"""

import ctypes
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

FORGOTTEN = 86_400  # seconds after which nobody elsewhere is still writing a file
SIDE_BY_SIDE = 16  # waits that a file system may answer together: sixteen take little longer than one
TELLS_FAULTS = (5, 8)  # the first Linux whose syncfs reports what could not be written


def sync_file(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk, where the file system can do that."""
    folder = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(folder)
    finally:
        os.close(folder)


def sync_file_system(path: Path) -> bool:
    """Wait until everything in the file system of ``path`` is on disk; False: this machine cannot do that at once."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or release is None or tuple(map(int, release.groups())) < TELLS_FAULTS:
        return False
    folder = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(folder)
    return True


def sync_tree(path: Path) -> None:
    """Wait until a folder with everything in it is on disk: in one call where there is one, else file by file."""
    if sync_file_system(path):
        return
    files = [Path(root) / name for root, _, names in os.walk(path) for name in names]
    folders = [Path(root) for root, _, _ in os.walk(path)]
    with ThreadPoolExecutor(SIDE_BY_SIDE, "dtoken-sync") as pool:
        for each in [pool.submit(sync_file, file) for file in files] + [pool.submit(sync_folder, f) for f in folders]:
            each.result()


def partial_of(path: Path) -> Path:
    """The name under which ``path`` is written until it is complete; it says who writes."""
    return path.with_name(f".{path.name}.{os.uname().nodename}-{os.getpid()}.partial")


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of a file, or of all files of a folder, that they were writing."""
    remove(leftover for leftover in folder.glob(f".{name}.*.partial") if _is_left(leftover))


def _is_left(partial: Path) -> bool:
    """Whether nobody writes it any more."""
    host, _, process = partial.name.removesuffix(".partial").rpartition("-")
    if not process.isdecimal() or not host.endswith(f".{os.uname().nodename}"):
        with suppress(OSError):
            return time.time() - partial.stat().st_mtime > FORGOTTEN
        return False
    return int(process) != os.getpid() and not lives(int(process))


def lives(process: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def remove(paths: Iterable[Path]) -> None:
    """Remove files and folders, as far as they are there."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let a fault that names no file, as a full disk is one, name this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def make_shared(folder: Path) -> None:
    """Make a folder that is as open to others as the one in which it is, whatever the user's mask says."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir()
        with suppress(OSError):  # a file system that has no such thing
            folder.chmod(folder.parent.stat().st_mode & 0o7777)


class Batch:
    """Files and folders that get their names together, in the order in which they were made, once all are on disk.

    What need not outlive the machine's next minute is not ``durable``: after a power failure it may be empty. Who is
    killed while a folder is replaced leaves the old one as ``.NAME.previous``.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._made: list[tuple[Path, Path]] = []  # under which name it is written, and which it is to get

    def file(self, path: Path, write: Callable[[BinaryIO], object]) -> None:
        """Let ``write`` fill a file."""
        with _naming(path), self._partial(path).open("wb") as file:
            write(file)

    def folder(self, path: Path, write: Callable[[Path], object]) -> None:
        """Let ``write`` make a folder."""
        with _naming(path):
            write(self._partial(path))

    def _partial(self, path: Path) -> Path:
        remove_leftovers(path.parent, path.name)
        self._made.append((partial_of(path), path))
        return self._made[-1][0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        named = False
        try:
            if kind is None:
                self._name_all()
                named = True
        finally:
            if not named:
                with suppress(OSError):
                    remove(partial for partial, _ in self._made)

    def _name_all(self) -> None:
        """Flush everything, then give the names, then flush those."""
        if self._durable:
            self._flush()
        replaced = [_set_aside(path) for partial, path in self._made if partial.is_dir()]
        for partial, path in self._made:
            partial.replace(path)
        if self._durable:
            for folder in {path.parent: None for _, path in self._made}:
                sync_folder(folder)
        remove(replaced)

    def _flush(self) -> None:
        partials = [partial for partial, _ in self._made]
        if len(partials) > 1 and sync_file_system(partials[0].parent):
            return
        for partial in partials:
            (sync_tree if partial.is_dir() else sync_file)(partial)


def _set_aside(folder: Path) -> Path:
    """Make room for a new folder; under which name the old one is found, if there was one."""
    old = folder.with_name(f".{folder.name}.previous")
    remove([old])
    if folder.exists():
        folder.rename(old)
    return old


def write_complete(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = True) -> None:
    """Let ``write`` fill a file, and put it in the place of ``path``; what killed processes left is removed."""
    with Batch(durable=durable) as batch:
        batch.file(path, write)
