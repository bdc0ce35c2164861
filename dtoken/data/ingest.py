"""From a source to a finished store: once per source and settings, whatever happens on the way.

A store is built (``build.py``) in a hidden folder beside its final place and renamed when it is complete. A lock per store lets one process do the work while the others wait for its result. It is the operating system's, so a
process that dies releases it; what such a process left half done is removed by the next one.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from dtoken.data.build import Watcher, build
from dtoken.data.labels import Labels
from dtoken.data.partition import Partition
from dtoken.data.rows import Source
from dtoken.data.store import FORMAT_VERSION, ShardStore
from dtoken.errors import RunError


def default_store_root() -> Path:
    """Where stores are kept: ``$DTOKEN_STORE``, or ``~/.cache/dtoken``."""
    return Path(os.environ.get("DTOKEN_STORE") or Path.home() / ".cache" / "dtoken")


def store_key(source: Source, partition: Partition, labels: Labels) -> str:
    """Name of the store for a source and its settings."""
    settings = {
        "format": FORMAT_VERSION,
        "source": source.identity(),
        "partition": partition.identity(),
        "labels": labels,
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    stem = source.name.split(".")[0] or "data"
    return f"{stem}-{partition.nodes}-{partition.kind}-{digest[:12]}.zarr"


def ingest(
    source: Source,
    partition: Partition,
    *,
    root: Path | None = None,
    labels: Labels = "auto",
    watcher: Watcher | None = None,
) -> ShardStore:
    """Return the store of ``source`` under ``partition``, made now unless it is there already.

    Parameters
    ----------
    source
        Where the rows come from.
    partition
        How they are spread over nodes.
    root
        Folder of all stores; default: ``default_store_root()``.
    labels
        ``classes``: two values that become -1 and +1; ``real``: numbers, kept; ``auto``: classes if there are at most
        two different values.
    watcher
        Told about progress.

    Examples
    --------
    >>> import tempfile
    >>> from dtoken.data.synthetic import Synthetic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ingest(Synthetic(rows=100), Partition(nodes=4), root=Path(folder)).node_rows
    (25, 25, 25, 25)
    """
    watcher = watcher or Watcher()
    root = (root or default_store_root()).expanduser().absolute()
    path = root / store_key(source, partition, labels)
    if path.exists():
        return ShardStore.open(path)
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f".{path.name}.lock", watcher):
        if path.exists():
            return ShardStore.open(path)
        for leftover in root.glob(f".{path.name}.*.partial"):  # only a dead process can have left it: we hold the lock
            shutil.rmtree(leftover)
        _note_older_version(source, root, watcher)
        with _working_folder(root / f".{path.name}.{uuid.uuid4().hex[:8]}.partial") as folder:
            build(source, partition, labels, folder, watcher).rename(path)
    return ShardStore.open(path)


@contextmanager
def _locked(file: Path, watcher: Watcher) -> Iterator[None]:
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        watcher.note("another process is ingesting this dataset; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _working_folder(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards; faults of the machine become one sentence."""
    folder.mkdir()
    try:
        yield folder
    except OSError as error:
        raise RunError(f"cannot write below {folder.parent}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _note_older_version(source: Source, root: Path, watcher: Watcher) -> None:
    identity = source.identity()
    if "path" not in identity:
        return
    for other in root.glob(f"{source.name.split('.')[0]}-*.zarr/zarr.json"):
        seen = ShardStore.open(other.parent).meta.source
        if seen.get("path") == identity["path"] and seen.get("mtime_ns") != identity["mtime_ns"]:
            watcher.note(f"{identity['path']} has changed since it was ingested into {other.parent.name}; reading it anew")
            return
