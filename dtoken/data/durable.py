"""Files that are complete or absent, also after the power failed: data reach the disk before their name does."""

import os
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


def write_durably(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` fill a file, and put it in the place of ``path``; what killed processes left is removed."""
    for leftover in path.parent.glob(f".{path.name}.*.partial"):
        leftover.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
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
