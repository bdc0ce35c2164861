"""Smoothness of blocks of rows, against dense linear algebra."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from dtoken.data.rows import RowBlock
from dtoken.problem import blocks as module
from dtoken.problem.blocks import Blocks, block_norms
from dtoken.problem.hosted import host
from dtoken.problem.losses import get_loss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """Dense nodes, read in parts of so many rows."""

    A: list[Floats]
    part: int
    classes: bool = True
    path: None = None

    @property
    def n(self) -> int:
        return len(self.A)

    @property
    def d(self) -> int:
        return self.A[0].shape[1]

    @property
    def node_rows(self) -> NDArray[np.int64]:
        return np.array([len(A) for A in self.A])

    @property
    def node_nonzeros(self) -> NDArray[np.int64]:
        return np.array([int(np.count_nonzero(A)) for A in self.A])

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        for node in range(first, first + 1 if stop is None else stop):
            yield from self.blocks_of(node)

    def blocks_of(self, node: int) -> Iterator[RowBlock]:
        for start in range(0, len(self.A[node]), self.part):
            rows = sp.csr_array(self.A[node][start : start + self.part])
            yield RowBlock(
                rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int64), np.ones(rows.shape[0])
            )


def sparse(rng: np.random.Generator, rows: int) -> Floats:
    return rng.standard_normal((rows, 40)) * (rng.random((rows, 40)) < 0.2)


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "signed": sparse,
    "text": lambda rng, rows: np.abs(sparse(rng, rows)),
    "equal": lambda rng, rows: np.tile(sparse(rng, 1), (rows, 1)),
    "opposite": lambda rng, rows: sparse(rng, 1) * (-1.0) ** np.arange(rows)[:, None],
    "orthogonal": lambda rng, rows: np.eye(40)[np.arange(rows) % 40],
    "scales": lambda rng, rows: sparse(rng, rows) * 10.0 ** rng.uniform(-8, 8, (rows, 1)),
    "empty": lambda rng, rows: np.zeros((rows, 40)),
}


def pieces(A: Floats, size: int) -> list[Floats]:
    return [A[start : start + size] for start in range(0, len(A), size)]


@pytest.mark.parametrize("part", [1, 7, 1000])
@pytest.mark.parametrize("size", [2, 5, 16, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalues_and_sums(kind: str, size: int, part: int) -> None:
    """A bound from above, to 1e-7, wherever the parts that are read end, and the last block may be shorter."""
    rng = np.random.default_rng(size)
    A = [KINDS[kind](rng, rows) for rows in (83, 1, 32)]
    ends = np.cumsum([len(pieces(of_node, size)) for of_node in A])
    exact = np.split(block_norms(Cut(A, part), Blocks(size, exact=True), threads=2), ends[:-1])
    sums = np.split(block_norms(Cut(A, part), Blocks(size)), ends[:-1])
    for node, of_node in enumerate(A):
        true = np.array([np.linalg.norm(piece, 2) ** 2 for piece in pieces(of_node, size)])
        np.testing.assert_allclose(exact[node], true, rtol=1e-7)
        assert (exact[node] >= true * (1 - 1e-12)).all()
        np.testing.assert_allclose(sums[node], [np.sum(piece**2) for piece in pieces(of_node, size)], rtol=1e-12)


def test_hosts_find_the_number_at_the_first_row_of_each_block() -> None:
    rng = np.random.default_rng(0)
    shards = Cut([sparse(rng, rows) for rows in (10, 7, 4)], 3)
    rows = host(shards, [0, 2], get_loss("logistic"), Blocks(4, exact=True))
    norms = block_norms(shards, Blocks(4, exact=True))
    expected = np.zeros(14)
    expected[[0, 4, 8, 10]] = norms[[0, 1, 2, 5]]  # node 1 has two blocks
    assert rows.block == 4
    assert rows.q.tolist() == expected.tolist()
    single = host(shards, [0, 2], get_loss("logistic"))
    np.testing.assert_allclose(single.q, (np.concatenate([shards.A[0], shards.A[2]]) ** 2).sum(axis=1))


def test_eigenvalues_are_kept_beside_the_store(make_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store()
    first = block_norms(store, Blocks(4, exact=True))
    monkeypatch.setattr(module, "_group_norms", None)
    again = block_norms(store, Blocks(4, exact=True))
    assert again.tolist() == first.tolist()
    with pytest.raises(TypeError):
        block_norms(store, Blocks(5, exact=True))
