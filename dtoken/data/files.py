"""Reading the user's files: text streams that may be compressed, and how a file is recognised again."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dtoken.errors import InputError

_MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
    b"7z\xbc\xaf": "7z",
}
_SUFFIXES = {".gz": "gz", ".bz2": "bz2", ".xz": "xz"}
_UNSUPPORTED_SUFFIXES = {".zst", ".zip", ".lz4", ".z", ".7z", ".lzma", ".rar", ".tar", ".tgz"}


def existing_file(path: Path) -> Path:
    """Return ``path`` if it is a file that can be read; say in one sentence why not otherwise."""
    try:
        with open(path, "rb"):
            return path
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file") from None
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied") from None


def file_identity(path: Path) -> dict[str, object]:
    """Where a file is and which version of it: enough to notice, without reading it, that it changed."""
    status = existing_file(path).stat()
    return {"path": str(path.resolve()), "size": status.st_size, "mtime_ns": status.st_mtime_ns}


class TextStream:
    """The bytes of a file, decompressed on the way; faults of the file become one sentence."""

    def __init__(self, path: Path) -> None:
        self.path = existing_file(path)
        self._raw: IO[bytes] = open(path, "rb")  # noqa: SIM115 -- closed by __exit__
        self._size = path.stat().st_size
        self._compression = self._recognise()
        self._text: IO[bytes] = self._open()

    def _recognise(self) -> str | None:
        head = self._raw.read(8)
        self._raw.seek(0)
        if not head:
            raise InputError(f"{self.path} is empty")
        for magic, name in _UNSUPPORTED.items():
            if head.startswith(magic):
                raise InputError(
                    f"{self.path}: compression {name} is not supported; unpack it, or use .gz, .bz2 or .xz"
                )
        found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
        suffix = self.path.suffix.lower()
        if suffix in _UNSUPPORTED_SUFFIXES and found is None:
            raise InputError(f"{self.path}: compression {suffix} is not supported; use .gz, .bz2, .xz or plain text")
        if suffix in _SUFFIXES and found != _SUFFIXES[suffix]:
            raise InputError(f"{self.path} is named {suffix} but holds no {suffix} data")
        return found

    def _open(self) -> IO[bytes]:
        match self._compression:
            case "gz":
                return gzip.GzipFile(fileobj=self._raw)
            case "bz2":
                return bz2.BZ2File(self._raw)
            case "xz":
                return lzma.LZMAFile(self._raw)
            case _:
                return self._raw

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes of text."""
        try:
            return self._text.read(size)
        except EOFError:
            raise InputError(f"{self.path} ends in the middle of its compressed data; it was cut short") from None
        except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
            raise InputError(f"{self.path} holds damaged .{self._compression} data ({error})") from None
        except OSError as error:
            if error.errno is None:  # bz2 reports damaged data this way
                raise InputError(f"{self.path} holds damaged .{self._compression} data ({error})") from None
            raise

    def fraction(self) -> float:
        """How much of the file, as it is on disk, was read."""
        return self._raw.tell() / self._size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._text.close()
        self._raw.close()
