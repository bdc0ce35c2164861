"""Reading the user's files: text streams that may be compressed, and how a file is recognised again."""

import bz2
import gzip
import lzma
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from dtoken.errors import InputError, RunError

_MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
READ_BYTES = 1 << 16
_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
    b"7z\xbc\xaf": "7z",
}
_UNSUPPORTED_SUFFIXES = {".zst", ".zip", ".lz4", ".z", ".7z", ".lzma", ".rar", ".tar", ".tgz"}


def existing_file(path: Path) -> Path:
    """Return ``path`` if it is a file that can be read; say in one sentence why not otherwise."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with open(path, "rb"):
                return path
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    raise InputError(f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'a device or pipe'}, not a file")


def reason(error: OSError) -> str:
    """What the operating system says, to be put into a sentence."""
    return error.strerror.lower() if error.strerror else str(error)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say of what the system refuses which file could not be written; nothing else fails here with OSError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error


def file_identity(path: Path) -> dict[str, object]:
    """Where a file is and which version of it: enough to notice, without reading it, that it changed."""
    status = existing_file(path).stat()
    return {"path": str(path.resolve()), "size": status.st_size, "mtime_ns": status.st_mtime_ns}


class TextStream:
    """The bytes of a file, decompressed on the way; faults of the file become one sentence."""

    def __init__(self, path: Path) -> None:
        self.path = existing_file(path)
        self._size = path.stat().st_size
        self._compression = _compression(path)
        self._raw: IO[bytes] = open(path, "rb")  # noqa: SIM115 -- closed by __exit__
        self._text = self._open()

    def _open(self) -> "IO[bytes] | gzip.GzipFile | _Streams":
        match self._compression:
            case "gz":
                return gzip.GzipFile(fileobj=self._raw)
            case "bz2":
                return _Streams(self._raw, bz2.BZ2Decompressor)
            case "xz":
                return _Streams(self._raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), padding=4)
            case _:
                return self._raw

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes of text."""
        try:
            return self._text.read(size)
        except EOFError:
            fault = "ends in the middle of its compressed data; it was cut short"
        except (zlib.error, lzma.LZMAError) as error:
            fault = f"holds damaged .{self._compression} data ({error})"
        except OSError as error:
            if error.errno is not None:
                raise RunError(f"{self.path} cannot be read: {reason(error)}") from None
            fault = f"holds damaged .{self._compression} data ({error})"  # how gzip and bz2 report it
        raise InputError(f"{self.path} {fault}")

    def fraction(self) -> float:
        """How much of the file, as it is on disk, was read."""
        return self._raw.tell() / self._size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()


class _Streams:
    """Compressed streams, one after the other; what follows a stream must be another one.

    Python's own readers end silently where it is not, so that one changed bit loses all rows of the later streams.
    """

    def __init__(self, raw: IO[bytes], make: Callable[[], Any], padding: int = 0) -> None:
        self._raw, self._make, self._padding = raw, make, padding  # zeros in such multiples may follow a stream
        self._decoder, self._waiting, self._ended = make(), b"", False

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer: the last ones."""
        parts: list[bytes] = []
        while size > 0 and self._ready():
            fresh = self._take() if self._decoder.needs_input else b""
            if self._decoder.needs_input and not fresh:
                raise EOFError
            parts.append(self._decoder.decompress(fresh, size))
            size -= len(parts[-1])
        return b"".join(parts)

    def _take(self) -> bytes:
        taken, self._waiting = self._waiting or self._raw.read(READ_BYTES), b""
        return taken

    def _ready(self) -> bool:
        """Whether there is a stream to read, the next one if this one has ended; False: the file has, too."""
        if self._ended or not self._decoder.eof:
            return not self._ended
        self._waiting = self._decoder.unused_data or self._take()
        zeros = 0
        while self._padding and self._waiting and not self._waiting.strip(b"\0"):
            zeros += len(self._take())
            self._waiting = self._take()
        if self._padding:
            rest = self._waiting.lstrip(b"\0")
            zeros, self._waiting = zeros + len(self._waiting) - len(rest), rest
            if zeros % self._padding:
                raise lzma.LZMAError(f"{zeros} zeros after a stream")
        self._ended = not self._waiting
        self._decoder = self._make()
        return not self._ended


def _compression(path: Path) -> str | None:
    """How a file is compressed, by its first bytes; None: plain text."""
    with open(path, "rb") as file:
        head = file.read(8)
    if not head:
        raise InputError(f"{path} is empty")
    suffix = path.suffix.lower()
    unknown = next((name for magic, name in _UNSUPPORTED.items() if head.startswith(magic)), None)
    found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if unknown or (suffix in _UNSUPPORTED_SUFFIXES and found is None):
        raise InputError(
            f"{path}: compression {unknown or suffix} is not supported; unpack it, or use .gz, .bz2 or .xz"
        )
    if suffix.lstrip(".") in _MAGIC.values() and f".{found}" != suffix:
        raise InputError(f"{path} is named {suffix} but holds no {suffix} data")
    return found


ATTEMPTS = 4  # to read something that the system failed to read


def pause(attempt: int) -> None:
    """Wait before the next attempt: not at all before the first, then longer and longer."""
    if attempt:
        time.sleep(0.02 * 4 ** (attempt - 1))
