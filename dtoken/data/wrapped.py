"""Sources made from others: with a constant column for the intercept, without the rows that are held out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dtoken.data.rows import RowBlock, Source, select
from dtoken.errors import InputError


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


@dataclass(frozen=True)
class Split:
    """The rows of a source to train on, or the others, which are held out.

    A row is held out with the probability ``share``, by its number and the seed alone: always the same ones, and
    in each of the two parts exactly those that the other one does not have.

    Parameters
    ----------
    source
        All rows.
    share
        Of the rows that is held out, about.
    held_out
        Whether these are the ones.
    seed
        Which rows they are.
    index_base
        Number of the first feature, as the rows to train on have it; None: that of the source.

    Examples
    --------
    >>> from dtoken.data.synthetic import Synthetic
    >>> [sum(block.rows for block in Split(Synthetic(), 0.2, part).blocks()) for part in (False, True)]
    [802, 198]
    """

    source: Source
    share: float
    held_out: bool
    seed: int = 0
    index_base: int | None = None

    def __post_init__(self) -> None:
        if self.index_base is None:
            object.__setattr__(self, "index_base", self.source.index_base)

    @property
    def name(self) -> str:
        """That of the source."""
        return self.source.name

    @property
    def features(self) -> int | None:
        """Those of the source."""
        return self.source.features

    def identity(self) -> dict[str, object]:
        """The source, and which part of it."""
        part = "held_out" if self.held_out else "trained_on"
        return {**self.source.identity(), "held_out_share": self.share, "held_out_seed": self.seed, "part": part}

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Yield the rows of this part in order."""
        draws, found = np.random.Generator(np.random.Philox(key=self.seed)), 0
        for block in self.source.blocks(advance=advance):
            rows = np.flatnonzero((draws.random(block.rows) < self.share) == self.held_out)
            found += len(rows)
            if len(rows):
                yield select(block, rows)
        if not found:
            purpose = "test" if self.held_out else "train"
            raise InputError(f"data.test={self.share:g} leaves no rows to {purpose} on; use another share")


def add_column(block: RowBlock, column: int, constant: float) -> RowBlock:
    """The rows with ``constant`` in a column behind all others."""
    ends = block.indptr[1:]
    return RowBlock(
        np.insert(block.data, ends, constant),
        np.insert(block.indices, ends, np.int32(column)),
        block.indptr + np.arange(len(block.indptr)),
        block.y,
    )
