"""Named arrays with checksums on disk: a zarr group that is complete or absent."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import RunError

Arrays = dict[str, NDArray[Any]]
CHUNK_BYTES = 1 << 23


def write_arrays(path: Path, arrays: Arrays, attributes: dict[str, Any] | None = None) -> None:
    """Write a zarr group, arrays in chunks of some megabytes with their crc32c: little more memory than one takes."""
    import zarr
    from zarr.codecs import Crc32cCodec

    group = zarr.open_group(path, mode="a", attributes=(attributes or {}) | {"arrays": sorted(arrays)})
    for name, array in arrays.items():
        target = group.create_array(
            name,
            shape=array.shape,
            chunks=_chunks(array),
            dtype=array.dtype,
            compressors=[Crc32cCodec()],
            config={"write_empty_chunks": True},
        )
        target[...] = array


def _chunks(array: NDArray[Any]) -> tuple[int, ...]:
    rest = [max(1, size) for size in array.shape[1:]]
    rows = max(1, CHUNK_BYTES // (array.itemsize * int(np.prod(rest))))
    return (max(1, min(rows, len(array))), *rest)


def replace_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` make a folder under a temporary name, and put it in the place of ``path``.

    Who is killed in between leaves the old one as ``.NAME.previous``.
    """
    for leftover in path.parent.glob(f".{path.name}.*.partial"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        old = path.with_name(f".{path.name}.previous")
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
        partial.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
