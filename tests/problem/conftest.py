"""Shards without a store, for tests of the problem alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from dtoken.data.rows import RowBlock


class InMemory:
    """Dense node matrices as shards; counts how often a node is read, and refuses when ``broken``."""

    def __init__(
        self,
        matrices: list[NDArray[np.float64]],
        labels: list[NDArray[np.float64]],
        *,
        classes: bool = True,
        block_rows: int = 7,
        path: Path | None = None,
    ) -> None:
        self.matrices = [scipy.sparse.csr_matrix(matrix) for matrix in matrices]
        self.labels = labels
        self.classes = classes
        self.block_rows = block_rows
        self.path = path
        self.reads = [0] * len(matrices)
        self.broken = False

    @property
    def n(self) -> int:
        return len(self.matrices)

    @property
    def d(self) -> int:
        return int(self.matrices[0].shape[1])

    @property
    def node_rows(self) -> NDArray[np.int64]:
        return np.array([len(y) for y in self.labels])

    @property
    def node_nonzeros(self) -> NDArray[np.int64]:
        return np.array([matrix.nnz for matrix in self.matrices])

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        for node in range(first, first + 1 if stop is None else stop):
            yield from self.blocks_of(node)

    def blocks_of(self, node: int) -> Iterator[RowBlock]:
        if self.broken:
            raise AssertionError("the shards were read again")
        self.reads[node] += 1
        for start in range(0, len(self.labels[node]), self.block_rows):
            part = self.matrices[node][start : start + self.block_rows]
            block = RowBlock(
                part.data,
                part.indices.astype(np.int32),
                part.indptr.astype(np.int64),
                self.labels[node][start : start + self.block_rows],
            )
            for array in block:
                array.flags.writeable = False  # as those of a store
            yield block


def make_shards(
    rows: tuple[int, ...] = (30, 17, 23),
    d: int = 6,
    *,
    seed: int = 0,
    density: float = 0.6,
    classes: bool = True,
    block_rows: int = 7,
    path: Path | None = None,
) -> InMemory:
    """Sparse random rows, every fifth of them empty, with noisy linear labels."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    matrices, labels = [], []
    for m in rows:
        matrix = rng.standard_normal((m, d)) * (rng.random((m, d)) < density)
        matrix[::5] = 0.0
        margins = matrix @ direction + 0.5 * rng.standard_normal(m)
        matrices.append(matrix)
        labels.append(np.where(margins > 0, 1.0, -1.0) if classes else margins)
    return InMemory(matrices, labels, classes=classes, block_rows=block_rows, path=path)


@pytest.fixture
def shards_of() -> type[InMemory]:
    return InMemory


@pytest.fixture
def random_shards() -> Callable[..., InMemory]:
    return make_shards
