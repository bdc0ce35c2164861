"""A disk that forgets what was not flushed: what is left of a folder when the power fails at any moment.

It notes what every ``fsync`` secures, the content of a file or the names in a folder, and what ``syncfs`` does: all.
Between that and the moment of the failure the file system is free to keep any part. Two extremes stand for all of it:
``late``, only flushed names are there; ``early``, every name is there at once, and a file whose content was not flushed
is empty.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hydra_dask import durable

STEPS = ("fsync", "replace", "rename", "unlink", "rmdir")  # of os: a failure before and after each of them

Inode = tuple[int, int]


class Disk:
    """What is secured of ``root``, in which nothing is open."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[Inode, bytes] = {}
        self._folders: dict[Inode, dict[str, Inode]] = {}
        self._kind: dict[Inode, bool] = {}  # whether it is a folder
        self._lock, self._failing = threading.RLock(), False
        self.secure_all()

    def _note(self, status: os.stat_result, path: Path) -> None:
        own = (status.st_dev, status.st_ino)
        if path.is_dir():
            entries = {entry.name: (status.st_dev, entry.inode()) for entry in os.scandir(path)}
            self._kind |= {(status.st_dev, entry.inode()): entry.is_dir() for entry in os.scandir(path)}
            self._folders[own] = entries
        else:
            self._files[own] = path.read_bytes()

    def secure(self, number: int) -> None:
        """A file or folder was flushed."""
        with self._lock:
            path = Path(os.readlink(f"/proc/self/fd/{number}"))
            if path.is_relative_to(self.root):
                self._note(os.fstat(number), path)

    def secure_all(self) -> None:
        """The whole file system was flushed."""
        with self._lock:
            for path in [self.root, *self.root.rglob("*")]:
                self._note(os.stat(path), path)

    def fail(self, failed: Callable[["Disk"], None]) -> None:
        """The power might fail now; what ``failed`` itself does is no part of the story."""
        with self._lock:
            if not self._failing:
                self._failing = True
                failed(self)
                self._failing = False

    def left(self, target: Path, early: bool) -> None:
        """Write to ``target`` what a machine finds that starts again now."""
        with self._lock:
            shutil.rmtree(target, ignore_errors=True)
            if early:
                shutil.copytree(self.root, target, copy_function=self._copy_secured)
            else:
                self._restore(_inode(self.root), target)

    def _copy_secured(self, source: str, target: str) -> None:
        content = self._files.get(_inode(Path(source)), b"")
        Path(target).write_bytes(content)

    def _restore(self, own: Inode, target: Path) -> None:
        target.mkdir()
        for name, inode in self._folders.get(own, {}).items():
            if self._kind.get(inode):
                self._restore(inode, target / name)
            else:
                (target / name).write_bytes(self._files.get(inode, b""))


def _inode(path: Path) -> Inode:
    status = os.stat(path)
    return status.st_dev, status.st_ino


@contextmanager
def watched(
    root: Path, monkeypatch: pytest.MonkeyPatch, failed: Callable[[Disk], None], at_once: bool = False
) -> Iterator[Disk]:
    """Call ``failed`` whenever the power might fail; ``at_once``: file systems are flushed as a whole."""
    disk = Disk(root)

    def flush(path: Path) -> bool:
        if at_once:
            disk.secure_all()
            disk.fail(failed)
        return at_once

    def step(original: Any, name: str) -> Any:
        def done(*arguments: Any, **options: Any) -> Any:
            found = original(*arguments, **options)
            if name == "fsync":
                disk.secure(arguments[0])
            disk.fail(failed)
            return found

        return done

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, step(getattr(os, name), name))
        patch.setattr(durable, "sync_file_system", flush)
        yield disk
