"""From a source to a finished store: once per source and settings, whatever happens on the way.

A store is built (``build.py``) in a hidden folder beside its final place and renamed when it is complete. A
lock per store lets one process do the work while the others wait for its result. It is the operating
system's, so a process that dies releases it; what such a process left half done is removed by the next one.
Everything is on disk before the store gets its name: after a power failure it is whole, or absent.
"""

import hashlib
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dtoken.data.build import Watcher, build
from dtoken.data.files import reason
from dtoken.data.labels import Labels, check_labels
from dtoken.data.meta import FORMAT_VERSION
from dtoken.data.partition import Partition
from dtoken.data.rows import Source
from dtoken.data.store import ShardStore
from dtoken.errors import InputError, RunError
from hydra_dask.durable import make_shared, sync_folder, sync_tree
from hydra_dask.locks import locked

WAITING = "{} is ingesting this dataset; waiting for it"


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
    return f"{_stem(source)}-{partition.nodes}-{partition.kind}-{digest[:12]}.zarr"


def _stem(source: Source) -> str:
    """What begins the names of a source's stores: short, and without characters that mean something."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", source.name.split(".")[0])[:60] or "data"


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
        ``classes``: two values that become -1 and +1; ``real``: numbers, kept; ``auto``: classes if there are
        at most two different values.
    watcher
        Told about progress.

    Examples
    --------
    >>> import tempfile
    >>> from dtoken.data.synthetic import Synthetic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ingest(Synthetic(rows=100), Partition(nodes=4), root=Path(folder)).node_rows
    array([25, 25, 25, 25])
    """
    watcher = watcher or Watcher()
    check_labels(labels)
    root = Path(os.path.expanduser(root or default_store_root())).absolute()
    path = root / store_key(source, partition, labels)
    if not os.path.exists(path):
        with _locked(root, path.name, watcher):
            if not path.exists():
                _note_older_version(source, root, watcher)
                with _working_folder(root, path.name) as folder:
                    made = build(source, partition, labels, folder, watcher)
                    sync_tree(made)
                    made.rename(path)
                    sync_folder(root)
    return ShardStore.open(path)


@contextmanager
def _locked(root: Path, name: str, watcher: Watcher) -> Iterator[None]:
    """Be the only process that makes the store ``name``."""
    with ExitStack() as stack:
        try:
            make_shared(root / ".locks")
            file = root / ".locks" / f"{name}.lock"
            stack.enter_context(locked(file, math.inf, lambda who: watcher.note(WAITING.format(who))))
        except OSError as error:
            raise InputError(f"{root} cannot hold stores: {reason(error)}; choose another folder") from None
        yield


@contextmanager
def _working_folder(root: Path, name: str) -> Iterator[Path]:
    """A folder that is gone afterwards; faults of the machine become one sentence.

    The caller holds the lock: another such folder can only be what a dead process left.
    """
    folder = root / f".{name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        for leftover in root.glob(f".{name}.*.partial"):
            shutil.rmtree(leftover)
        folder.mkdir()
        yield folder
    except OSError as error:  # sources have sentences of their own for what they cannot read
        raise RunError(f"{root} cannot be written: {reason(error)}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _note_older_version(source: Source, root: Path, watcher: Watcher) -> None:
    now = source.identity()
    for other in root.glob(f"{_stem(source)}-*.zarr"):
        try:
            before = ShardStore.open(other).meta.source
        except (InputError, RunError):
            continue  # not this command's business
        version = ("path", "size", "mtime_ns")
        if before.get("path") == now.get("path") and any(before.get(k) != now.get(k) for k in version):
            watcher.note(f"{now['path']} has changed since {other.name} was made; reading it anew")
            return
