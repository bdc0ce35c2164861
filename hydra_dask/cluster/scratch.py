"""Folders for the files of scheduler and workers that nobody else can enter.

Dask's own choice, ``dask-scratch-space`` in the temporary directory, has a name that everybody knows: another user can
make it first, put modules there, and a late import of a worker would run them.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "dask-"


@contextmanager
def private_folder(parent: Path | None = None) -> Iterator[str]:
    """Make a folder of mode 0700, its name random, in ``parent`` or among temporary files; remove it at the end."""
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
