"""Named arrays with checksums on disk: a zarr group that is complete or absent."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import array_metadata
from dtoken.data.writer import group, write_chunk, write_metadata

Arrays = dict[str, NDArray[Any]]
CHUNK_BYTES = 1 << 23


def write_arrays(path: Path, arrays: Arrays, attributes: dict[str, Any] | None = None) -> None:
    """Write a zarr group, arrays in chunks of some megabytes with their crc32c: little more memory than one takes.

    The format is simple; zarr-python takes eight times as long for the arrays of a small run.
    """
    path.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        _write_array(path / name, array)
        for above in list(Path(name).parents)[:-1]:
            write_metadata(path / above, group({}))
    write_metadata(path, group((attributes or {}) | {"arrays": sorted(arrays)}))  # it makes the folder a group


def _write_array(path: Path, array: NDArray[Any]) -> None:
    chunk = _chunks(array)
    last = "/".join("0" * (array.ndim - 1))  # only the first axis is cut
    for number in range(-(-len(array) // chunk[0]) if array.size else 0):
        part = array[number * chunk[0] : (number + 1) * chunk[0]]
        if len(part) < chunk[0]:
            part = np.concatenate([part, np.zeros((chunk[0] - len(part), *chunk[1:]), array.dtype)])
        file = path / "c" / str(number) / last
        file.parent.mkdir(parents=True, exist_ok=True)
        write_chunk(file, part)
    path.mkdir(parents=True, exist_ok=True)
    write_metadata(path, array_metadata(array.shape, chunk, array.dtype, {}, array.dtype.type(0).item()))


def _chunks(array: NDArray[Any]) -> tuple[int, ...]:
    rest = [max(1, size) for size in array.shape[1:]]
    rows = max(1, CHUNK_BYTES // (array.itemsize * int(np.prod(rest))))
    return (max(1, min(rows, len(array))), *rest)


def read_arrays(path: Path) -> Arrays:
    """Read what ``write_arrays`` wrote; ValueError where something is missing."""
    import zarr

    group = zarr.open_group(path, mode="r", zarr_format=3)
    names: Any = group.attrs["arrays"]
    arrays: Arrays = {}
    for name in names:
        member: Any = group[name]
        if member.nchunks_initialized < member.nchunks:  # zarr would fill in zeros
            raise ValueError(f"data of {name} are missing")
        arrays[name] = np.array(member[...])
    return arrays
