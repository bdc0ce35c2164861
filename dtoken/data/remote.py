"""Stores that lie elsewhere, by any protocol that fsspec knows (s3://, gs://, memory://): read, never written.

A chunk is fetched when it is read for the first time, verified, and kept in a folder on the local disk. From then on a
remote store is a local one: rows are cut from the local copy (`row_files`), and a second run fetches nothing.
"""

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from dtoken.data.chunks import REMEDY, DamagedStore, StoredArray
from dtoken.data.files import ATTEMPTS, pause, reason
from dtoken.data.meta import ROOT, attributes_of, read_root
from dtoken.data.store import ShardStore
from dtoken.errors import InputError, RunError
from hydra_dask.durable import write_complete


def is_remote(location: str | os.PathLike[str] | None) -> bool:
    """Whether a location is a URL.

    Examples
    --------
    >>> is_remote("s3://bucket/rcv1.zarr"), is_remote("/data/rcv1.zarr")
    (True, False)
    """
    return "://" in str(location)


def own_folder(parent: Path | None = None) -> Path:
    """Where chunks of remote stores are kept: a folder of the user's own in ``parent``, or among temporary files.

    Everybody knows its name, and could have planted it with links: so it is made here, or must be a folder that nobody
    else can enter.
    """
    folder = (parent or Path(tempfile.gettempdir())) / f"dtoken-{os.getuid()}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {reason(error)}; set data.scratch to another folder") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InputError(f"{folder} is not a folder that only you can enter; set data.scratch to another folder")
    return folder


def open_store(location: str | os.PathLike[str], scratch: Path | None = None) -> ShardStore:
    """Open a store, local or remote.

    Parameters
    ----------
    location
        Its folder, or its URL.
    scratch
        Folder in which a folder of the user's own is made for what is fetched (`own_folder`).
    """
    if not is_remote(location):
        return ShardStore.open(Path(location))
    url = str(location).rstrip("/")
    if not all(part.strip(":/") for part in url.partition("://")[::2]):
        raise InputError(f"data.store={location} names no store; use for instance s3://bucket/rcv1.zarr")
    try:
        content = fetch(f"{url}/{ROOT}")
    except RunError as error:  # nothing has begun yet
        raise InputError(f"{error}; check data.store, the network and your credentials") from None
    if content is None:
        raise InputError(f"{url} is not a dtoken store: it has no {ROOT}; copy a store there, with all its files")
    attributes = attributes_of(url, content)
    root = read_root(url, attributes, lambda name: _fetched(f"{url}/{name}"))
    # The name of the folder depends on the root, so another store at the same place never meets old chunks.
    digest = hashlib.sha256(url.encode() + content).hexdigest()[:16]
    folder = own_folder(scratch) / digest / PurePosixPath(url).name
    try:
        _keep(folder / ROOT, content)
    except RunError as error:
        raise InputError(str(error)) from None
    return RemoteStore(folder, root.meta, root.checksums, root.digest, url, scratch)


@dataclass(frozen=True)
class RemoteStore(ShardStore):
    """A remote store, seen through the folder of its fetched chunks."""

    url: str = ""
    asked_scratch: Path | None = None

    @property
    def location(self) -> str:
        """The URL."""
        return self.url

    @property
    def scratch(self) -> Path | None:
        """The folder that was asked for, for what is fetched; None: the default of each machine."""
        return self.asked_scratch

    def array(self, pack: int, name: str) -> StoredArray:
        """One array of a pack, whose chunks are fetched when they are asked for."""
        local = super().array(pack, name)
        return RemoteArray(**vars(local), url=f"{self.url}/{self.meta.folder}/{pack}/{name}")


@dataclass(frozen=True)
class RemoteArray(StoredArray):
    """An array of a remote store."""

    url: str = ""

    def chunk_path(self, number: int) -> Path:
        """The file of a chunk, which is fetched unless it is there."""
        file = super().chunk_path(number)
        if not file.exists():
            url = f"{self.url}/c/{number}"
            content = _fetched(url)
            try:
                self.check(content, number, url)
            except DamagedStore as error:
                raise DamagedStore(f"{str(error).removesuffix(REMEDY)}; copy the store again") from None
            _keep(file, content)
        return file


@cache
def _filesystem(protocol: str) -> Any:
    import fsspec

    try:
        return fsspec.filesystem(protocol)
    except (ImportError, ValueError) as error:
        raise InputError(f"{protocol}:// cannot be read here: {error}") from None


def fetch(url: str) -> bytes | None:
    """The content of a remote file; None if there is none. Faults of the network are tried again."""
    protocol, _, path = url.partition("://")
    filesystem = _filesystem(protocol)
    for attempt in range(ATTEMPTS):
        pause(attempt)
        try:
            return bytes(filesystem.cat_file(url if protocol in ("http", "https") else path))  # as fsspec wants them
        except FileNotFoundError:
            return None
        except Exception as error:  # each protocol has its own kinds, and few of them say whether it is worth trying
            failure = error
    raise RunError(f"{url} cannot be read: {failure}")


def _fetched(url: str) -> bytes:
    """The content of a remote file of a store, which must be there."""
    content = fetch(url)
    if content is None:
        raise DamagedStore(f"{url} is missing; copy the store again")
    return content


def _keep(file: Path, content: bytes) -> None:
    """Write a file that is complete or absent, whoever else does the same."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_complete(file, lambda stream: stream.write(content), durable=False)
    except OSError as error:
        raise RunError(f"{file} cannot be written: {reason(error)}; set data.scratch to another folder") from None
