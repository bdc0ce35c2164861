"""Files that are complete or absent, also after the power failed: data reach the disk before their name does."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


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


def partial_of(path: Path) -> Path:
    """The name under which ``path`` is written until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of a file, or of all files of a folder, that they were writing."""
    for leftover in folder.glob(f".{name}.*.partial"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def write_durably(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` fill a file, and put it in the place of ``path``; what killed processes left is removed."""
    remove_leftovers(path.parent, path.name)
    partial = partial_of(path)
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
