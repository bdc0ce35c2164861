"""Named arrays with checksums on disk: a zarr group."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import RunError


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], attributes: dict[str, Any]) -> None:
    """Write a zarr group, each array as one chunk with its crc32c."""
    import zarr
    from zarr.codecs import Crc32cCodec

    group = zarr.open_group(path, mode="a", attributes=attributes)
    for name, array in arrays.items():
        target = group.create_array(
            name,
            shape=array.shape,
            chunks=tuple(max(1, size) for size in array.shape),
            dtype=array.dtype,
            compressors=[Crc32cCodec()],
            config={"write_empty_chunks": True},
        )
        target[...] = array


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what ``write_arrays`` wrote: arrays and attributes."""
    import zarr

    try:
        group = zarr.open_group(path, mode="r")
        arrays = {}
        for name, member in group.members(max_depth=None):
            if isinstance(member, zarr.Array):
                if member.nchunks_initialized != member.nchunks:
                    raise ValueError(f"{name} is missing")
                arrays[name] = np.array(member[...])
        return arrays, dict(group.attrs)
    except Exception as error:  # zarr and its codecs raise many kinds
        raise RunError(f"{path} is damaged ({error}); delete it to start the run anew") from error
