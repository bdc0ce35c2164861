"""Sources made from others: with a constant column for the intercept."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dtoken.data.rows import RowBlock, Source


@dataclass(frozen=True)
class WithConstant:
    """The rows of a source with a last column that is the same in all of them; `build` adds it."""

    source: Source
    constant: float

    @property
    def name(self) -> str:
        """That of the source."""
        return self.source.name

    @property
    def index_base(self) -> int | None:
        """That of the source."""
        return self.source.index_base

    @property
    def features(self) -> int | None:
        """Those of the source, without the column."""
        return self.source.features

    def identity(self) -> dict[str, object]:
        """The source and the constant."""
        return {**self.source.identity(), "constant": self.constant}

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Those of the source: which column comes last is known when all were read."""
        return self.source.blocks(advance=advance)


def add_column(block: RowBlock, column: int, constant: float) -> RowBlock:
    """The rows with ``constant`` in a column behind all others."""
    ends = block.indptr[1:]
    return RowBlock(
        np.insert(block.data, ends, constant),
        np.insert(block.indices, ends, np.int32(column)),
        block.indptr + np.arange(len(block.indptr)),
        block.y,
    )
