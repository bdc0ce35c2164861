"""What the page links to and carries in itself, so that it can be sent alone: figures, and the table of all runs."""

import base64
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LARGEST = 8_000_000  # bytes of a packed file that a page should carry
QUICK = 1  # level of compression: pictures are compressed already, and tables should not take long


@dataclass(frozen=True)
class Carried:
    """A file inside the page."""

    name: str
    packed: str  # empty: too large for a page

    @property
    def id(self) -> str:
        """Its place in the page."""
        return f"file-{self.name}"


def packed(content: bytes, level: int) -> str:
    """Bytes compressed, in letters; the browser unpacks them."""
    return base64.b64encode(gzip.compress(content, level, mtime=0)).decode()


def carry(paths: Iterable[Path]) -> list[Carried]:
    """Pack files, unless they are too large."""
    found = {path.name: packed(path.read_bytes(), QUICK) for path in paths}
    return [Carried(name, content if len(content) <= LARGEST else "") for name, content in found.items()]
