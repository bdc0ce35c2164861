"""Files of several compressed streams: all of them are read, or a sentence says why not."""

import bz2
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dtoken.data import files
from dtoken.data.files import TextStream
from dtoken.errors import InputError

TEXT = [f"{number} 1:{number}.5\n".encode() * 40 for number in range(4)]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"bz2": bz2.compress, "xz": lzma.compress}


def read(file: Path, size: int = 1000) -> bytes:
    with TextStream(file) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_all_streams_are_read(
    tmp_path: Path, kind: str, piece: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READ_BYTES", piece)
    file = tmp_path / f"x.{kind}"
    padding = b"\0" * 8 if kind == "xz" else b""
    file.write_bytes(padding.join(COMPRESS[kind](text) for text in TEXT) + padding)
    assert read(file, size) == b"".join(TEXT)


@pytest.mark.parametrize("kind", COMPRESS)
def test_every_damage_is_noticed(tmp_path: Path, kind: str) -> None:
    """A changed bit anywhere, a lost end, more at the end: never fewer rows without a word."""
    whole, file = b"".join(COMPRESS[kind](text) for text in TEXT), tmp_path / f"x.{kind}"
    rng = np.random.default_rng(0)
    for _ in range(400):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(content)
        with suppress(InputError):
            assert read(file) == b"".join(TEXT)  # of bz2 a few bits mean nothing
    for content in [whole[:length] for length in range(1, len(whole), 7)] + [whole + b"x", whole + b"\0" * 3]:
        file.write_bytes(content)
        ends = [len(b"".join(COMPRESS[kind](text) for text in TEXT[:count])) for count in range(1, 4)]
        if len(content) in ends:
            continue  # whole streams alone do not tell that there were more
        with pytest.raises(InputError):
            read(file)
