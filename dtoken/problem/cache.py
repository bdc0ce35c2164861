"""Results that cost many passes over the data, kept beside the store: computed once, complete or absent."""

import hashlib
import math
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hydra_dask.durable import make_shared, write_complete
from hydra_dask.locks import locked

Arrays = dict[str, NDArray[np.float64]]
DIGEST = "sha256"  # name of the digest among the arrays of a file


def cached(store: str | os.PathLike[str] | None, name: str, compute: Callable[[], Arrays]) -> Arrays:
    """Arrays of ``<store>.facts/<name>.npz``, computed and written there if they are not yet.

    Processes that ask at the same moment wait for the one that computes. A damaged file, or one of another
    store that had this path before, is computed again. Without a store, or where the facts cannot be written,
    the arrays are just computed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = cached(folder + "/store", "answer", lambda: {"value": np.array([42.0])})
    ...     again = cached(folder + "/store", "answer", lambda: {"value": np.array([0.0])})
    >>> again["value"]
    array([42.])
    """
    if store is None:
        return compute()
    file = Path(f"{os.fspath(store)}.facts") / f"{name}.npz"
    stamp = _stamp(Path(store))
    found = _read(file, stamp)
    if found is not None:
        return found
    with ExitStack() as stack:
        try:
            make_shared(file.parent)
            stack.enter_context(locked(file.with_name(f"{file.name}.lock"), math.inf))
        except OSError as error:
            warnings.warn(f"{file} cannot be written ({error}): computing it for this run only", stacklevel=2)
            return compute()
        return _compute_locked(file, stamp, compute)


def _compute_locked(file: Path, stamp: bytes, compute: Callable[[], Arrays]) -> Arrays:
    found = _read(file, stamp)  # another process may have been faster
    if found is not None:
        return found
    arrays = compute()
    try:
        _write(file, stamp, arrays)
    except OSError as error:
        warnings.warn(f"{file} cannot be written ({error}): it will be computed again", stacklevel=3)
    return arrays


def _stamp(store: Path) -> bytes:
    # the root metadata of a zarr store say where its rows came from and how they were partitioned
    root = store / "zarr.json"
    return root.read_bytes() if root.is_file() else b""


def _read(file: Path, stamp: bytes) -> Arrays | None:
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        digest = arrays.pop(DIGEST)
        return arrays if np.array_equal(digest, _digest(stamp, arrays)) else None
    except Exception:
        # absent, or damaged: then almost anything may be raised, from zip, header or decompression
        return None


def _write(file: Path, stamp: bytes, arrays: Arrays) -> None:
    content = arrays | {DIGEST: _digest(stamp, arrays)}
    write_complete(file, lambda stream: np.savez(stream, allow_pickle=False, **content))


def _digest(stamp: bytes, arrays: Arrays) -> NDArray[np.uint8]:
    state = hashlib.sha256(stamp)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        state.update(array.tobytes())
    return np.frombuffer(state.digest(), dtype=np.uint8)
