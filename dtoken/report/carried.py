"""What the page links to and carries in itself, so that it can be sent alone: figures, and the table of all runs."""

import base64
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LARGEST = 3_000_000  # bytes of a packed file that a page should carry
MOST_TIMES = 5  # that packing makes a table smaller
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
    return [Carried(path.name, _packed(path)) for path in paths]


def _packed(path: Path) -> str:
    if path.stat().st_size > MOST_TIMES * LARGEST:  # not worth the time
        return ""
    content = packed(path.read_bytes(), QUICK)
    return content if len(content) <= LARGEST else ""
