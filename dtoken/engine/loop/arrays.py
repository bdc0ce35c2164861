"""Named arrays on disk as a zarr group, whose root has the checksum of every file: each is bound to its place."""

import hashlib
import json
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dtoken.data.chunks import CRC_BYTES, array_metadata
from dtoken.data.meta import ROOT
from dtoken.data.writer import encoded, group, write_chunk, write_metadata

Arrays = dict[str, NDArray[Any]]
CHUNK_BYTES = 1 << 23


def write_arrays(path: Path, arrays: Arrays, attributes: dict[str, Any] | None = None) -> str:
    """Write a zarr group, arrays in chunks of some megabytes with their crc32c: little more memory than one takes.

    The format is simple; zarr-python takes eight times as long for the arrays of a small run. Returns the digest of the
    root, which stands for everything.
    """
    path.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        _write_array(path / name, array)
        for above in list(Path(name).parents)[:-1]:
            write_metadata(path / above, group({}))
    files = sorted(file for file in path.rglob("*") if file.is_file())
    checksums = {str(file.relative_to(path)): _checksum(file) for file in files}
    root = group((attributes or {}) | {"arrays": sorted(arrays), "checksums": checksums})
    write_metadata(path, root)  # it makes the folder a group
    return hashlib.sha256(encoded(root)).hexdigest()


def _checksum(file: Path) -> int:
    """That of a file's content; of a chunk, without its own, because with it all chunks have the same."""
    content = file.read_bytes()
    return int(google_crc32c.value(content if file.name == ROOT else content[:-CRC_BYTES]))


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


def read_arrays(path: Path, digest: str | None = None) -> Arrays:
    """Read what ``write_arrays`` wrote; ValueError where something is missing, damaged or not in its place.

    ``digest`` is what it returned, if that is known. Earlier versions listed no checksums.
    """
    import zarr

    root = (path / ROOT).read_bytes()
    if digest is not None and hashlib.sha256(root).hexdigest() != digest:
        raise ValueError("it is not what was written")
    for name, checksum in json.loads(root)["attributes"].get("checksums", {}).items():
        if _checksum(path / name) != checksum:
            raise ValueError(f"{name} is not what was written there")
    group = zarr.open_group(path, mode="r", zarr_format=3)
    names: Any = group.attrs["arrays"]
    arrays: Arrays = {}
    for name in names:
        member: Any = group[name]
        if member.nchunks_initialized < member.nchunks:  # zarr would fill in zeros
            raise ValueError(f"data of {name} are missing")
        arrays[name] = np.array(member[...])
    return arrays
