"""The dataset that comes with the package, for first steps, demonstrations and tests."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Literal

from dtoken.data.rows import RowBlock
from dtoken.data.svmlight import Svmlight

FILE = Path(str(files("dtoken.data"))) / "embedded" / "tiny.svm.xz"


@dataclass(frozen=True)
class Tiny:
    """A small dataset that comes with dtoken: 1,000 rows of norm 1, 2,000 sparse features, two classes.

    Examples
    --------
    >>> sum(block.rows for block in Tiny().blocks())
    1000
    """

    name: ClassVar[str] = "tiny"
    index_base: ClassVar[Literal[1]] = 1
    features: ClassVar[int] = 2000

    def identity(self) -> dict[str, object]:
        """The content of the file, wherever the package is installed."""
        return {"kind": self.name, "sha256": hashlib.sha256(FILE.read_bytes()).hexdigest()}

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Yield the rows in the order of the file; ``advance`` is told the fraction of it that was read."""
        return Svmlight(FILE, self.index_base, self.features).blocks(advance)
