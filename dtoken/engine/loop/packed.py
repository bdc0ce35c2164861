"""Named arrays in one file, with a checksum over every byte of it: what checkpoints are made of.

In this order: eight bytes that say what it is, the length of the head, the head (JSON: attributes; name, type and shape
of each array), the arrays as they lie in memory, SHA-256 of all that. Nothing is ever unpickled. Arrays pass in pieces:
writing or reading takes no second copy of them.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import reason
from dtoken.errors import RunError
from hydra_dask.durable import write_complete

MAGIC = b"dtoken\x00\x01"
PIECE = 1 << 23  # bytes that pass at a time
LENGTH = 8  # bytes of the head's length

Arrays = dict[str, NDArray[Any]]


def write_packed(path: Path, arrays: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]) -> None:
    """Write a file in place of the one before, complete or not at all."""
    table = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    head = json.dumps({"attributes": attributes, "arrays": table}).encode()

    def write(file: BinaryIO) -> None:
        digest = hashlib.sha256()
        for part in (MAGIC, len(head).to_bytes(LENGTH, "little"), head):
            digest.update(part)
            file.write(part)
        for array in arrays.values():
            for piece in _pieces(array):
                digest.update(piece)
                file.write(piece)
        file.write(digest.digest())

    write_complete(path, write)


def read_packed(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> tuple[Arrays, dict[str, Any]]:
    """The attributes, and the ``wanted`` arrays; RunError unless the file is the one that was written, to the bit."""
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size, wanted)
    except PermissionError as error:  # it may be whole
        raise RunError(f"{path} cannot be read: {reason(error)}") from error
    except Exception as error:  # a damaged head can make anything fail
        raise damaged(path, error) from error


def damaged(path: Path, error: object) -> RunError:
    """What to say of a checkpoint that cannot be read."""
    return RunError(f"{path} is damaged ({error}); delete it to start the run anew")


def _read(file: BinaryIO, size: int, wanted: Callable[[str], bool]) -> tuple[Arrays, dict[str, Any]]:
    digest = hashlib.sha256()

    def take(count: int) -> bytes:
        found = file.read(count)
        digest.update(found)
        return found

    if take(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as a checkpoint does")
    length = int.from_bytes(take(LENGTH), "little")
    if length > size:
        raise ValueError("it is cut off")
    head = json.loads(take(length))
    table = [(name, np.dtype(kind), tuple(shape)) for name, kind, shape in head["arrays"]]
    if any(kind.hasobject or min(shape, default=0) < 0 for _, kind, shape in table):
        raise ValueError("its head is not one that was written")
    expected = sum(kind.itemsize * math.prod(shape) for _, kind, shape in table)
    if len(MAGIC) + LENGTH + length + expected + digest.digest_size != size:
        raise ValueError("it has not the size that its head says")
    arrays: Arrays = {}
    for name, kind, shape in table:
        if wanted(name):
            arrays[name] = np.empty(shape, kind)
            _fill(arrays[name], file, digest)
        else:
            for start in range(0, left := kind.itemsize * math.prod(shape), PIECE):
                take(min(PIECE, left - start))
    if file.read() != digest.digest():
        raise ValueError("its checksum is wrong")
    return arrays, head["attributes"]


def _fill(array: NDArray[Any], file: BinaryIO, digest: Any) -> None:
    for piece in _pieces(array):
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise ValueError("it is cut off")
        digest.update(piece)


def _pieces(array: NDArray[Any]) -> list[memoryview]:
    """The bytes of an array, which are no copy where it is contiguous."""
    if array.size == 0:
        return []
    content = np.ascontiguousarray(array).data.cast("B")
    return [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
