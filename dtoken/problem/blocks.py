"""Samples of several rows: a block of consecutive rows of a node as the summand f_ij of a method.

f_ij(theta) = (1/m_i) sum_r phi(a_r^T theta) over the rows of block j, the last of which may be shorter, so that the sum
of a node's f_ij is f_i as it is for single rows. f_ij is L_ij-smooth, L_ij = (c / m_i) q_ij, where q_ij is the largest
eigenvalue of A A^T, A the rows of the block, or, cheaper and larger, the sum of their squared norms. For a block of one
row both are ||a_ij||^2.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.rows import RowBlock, concatenate, cut
from dtoken.errors import InputError
from dtoken.problem.cache import cached
from dtoken.problem.kernels import add_row, row_dot, squared_norms
from dtoken.problem.shards import BlockReader, Shards, in_order

Vector = NDArray[np.float64]

MOST_ROWS = 2**31 - 1  # of a block: compiled code adds it to the number of a row
LANCZOS_STEPS = 500  # far more than the largest eigenvalue needs
CHECK = 4  # steps from one look at it to the next
SETTLED = 1e-10  # relative change between two looks: it has converged
MARGIN = 1e-8  # it is approached from below: this much more, relative, is a bound


@dataclass(frozen=True)
class Blocks:
    """What a method takes for a sample."""

    rows: int = 1  # of a block
    exact: bool = False  # smoothness by the largest eigenvalue; else by the sum of the rows'

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"algorithm.block_rows={self.rows}, but a block has at least one row")
        if self.rows > MOST_ROWS:
            raise InputError(f"algorithm.block_rows={self.rows} is more than any node has; use at most {MOST_ROWS}")

    def counts(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Blocks of nodes with so many rows each."""
        return -(-np.asarray(rows) // self.rows)

    def first_rows(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows in which the blocks of nodes begin, given the first row of each node and the end of the last.

        Examples
        --------
        >>> Blocks(4).first_rows(np.array([0, 10, 13]))
        array([ 0,  4,  8, 10])
        """
        counts = self.counts(np.diff(bounds))
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # inside its node
        return np.asarray(np.repeat(bounds[:-1], counts) + self.rows * number)


SINGLE_ROWS = Blocks()


def block_norms(shards: Shards, blocks: Blocks, threads: int = 1) -> Vector:
    """q_ij of all blocks, node after node; 0 for blocks of empty rows.

    Eigenvalues take some dozens of passes over the data, and are kept beside the store.
    """
    reader = BlockReader(shards, 0)

    def compute() -> dict[str, Vector]:
        found = in_order(lambda group: _group_norms(reader, group, shards.d, blocks), reader.groups, threads)
        return {"q": np.concatenate(list(found))}

    return (cached(shards.path, f"block_norms-{blocks.rows}", compute) if blocks.exact else compute())["q"]


def _group_norms(reader: BlockReader, group: int, d: int, blocks: Blocks) -> Vector:
    bounds, parts = reader.bounds(group), (block.rows for block in reader.blocks(group))
    if len(bounds) > 2:  # of several nodes, which are small
        return _norms(concatenate(list(parts)), bounds, d, blocks)
    found = [_norms(part, np.array([0, part.rows]), d, blocks) for part in _whole_blocks(parts, blocks.rows)]
    return np.concatenate(found)


def _norms(rows: RowBlock, bounds: NDArray[np.int64], d: int, blocks: Blocks) -> Vector:
    """q_ij of the blocks of whole nodes, or of whole blocks of one."""
    first = blocks.first_rows(bounds)
    if blocks.exact:
        q, ends = np.empty(len(first)), np.append(first, rows.rows)
        largest_eigenvalues(rows.data, rows.indices, rows.indptr, ends, SETTLED, np.zeros(d), q)
        return q * (1.0 + MARGIN)
    of_rows = np.empty(rows.rows)
    squared_norms(rows.data, rows.indptr, of_rows)
    return np.asarray(np.add.reduceat(of_rows, first))


def _whole_blocks(parts: Iterable[RowBlock], size: int) -> Iterator[RowBlock]:
    """The same rows, cut only at multiples of ``size``."""
    waiting: list[RowBlock] = []
    for part in parts:
        waiting.append(part)
        rows = sum(each.rows for each in waiting)
        if rows >= size:
            joined, whole = concatenate(waiting), rows - rows % size
            yield cut(joined, 0, whole)
            waiting = [cut(joined, whole, rows)] if whole < rows else []
    if waiting:
        yield concatenate(waiting)


@compiled
def largest_eigenvalues(
    data: Vector,
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    bounds: NDArray[np.int64],
    settled: float,
    dense: Vector,
    out: Vector,
) -> None:
    """Write the largest eigenvalue of A A^T to ``out``, A the rows from each bound to the next.

    It has converged when it changes by less than ``settled`` between two looks; ``dense`` has d zeros before and after.
    """
    for k in range(len(out)):
        out[k] = _largest(data, indices, indptr, bounds[k], bounds[k + 1], settled, dense)


@compiled
def _largest(
    data: Vector,
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    first: int,
    last: int,
    settled: float,
    dense: Vector,
) -> float:
    """By Lanczos' method from a fixed start, without BLAS: the same bits on every machine and thread."""
    size = last - first
    diagonal, beside = np.empty(LANCZOS_STEPS), np.empty(LANCZOS_STEPS)
    before, vector, image = np.zeros(size), _start_vector(size), np.empty(size)
    below = largest = beta = 0.0
    for step in range(LANCZOS_STEPS):
        for r in range(size):
            add_row(data, indices, indptr[first + r], indptr[first + r + 1], vector[r], dense)
        alpha = 0.0
        for r in range(size):
            image[r] = row_dot(data, indices, indptr[first + r], indptr[first + r + 1], dense)
            alpha += image[r] * vector[r]
        for entry in range(indptr[first], indptr[last]):
            dense[indices[entry]] = 0.0
        square = 0.0
        for r in range(size):
            image[r] -= alpha * vector[r] + beta * before[r]
            square += image[r] * image[r]
        beta = np.sqrt(square)
        diagonal[step], beside[step] = alpha, beta
        invariant = beta <= 1e-14 * abs(alpha)
        if invariant or step % CHECK == CHECK - 1:
            largest = _largest_of_tridiagonal(diagonal[: step + 1], beside[: step + 1])
            if invariant or largest - below <= settled * largest:
                break
            below = largest
        for r in range(size):
            before[r], vector[r] = vector[r], image[r] / beta
    return largest


@compiled
def _start_vector(size: int) -> Vector:
    """A unit vector without any pattern, but not orthogonal to vectors of one sign: those of rows that are alike."""
    vector, state, square = np.empty(size), np.uint64(1), 0.0
    for r in range(size):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        vector[r] = np.float64(state >> np.uint64(40)) / 2.0**23 - 0.5
        square += vector[r] * vector[r]
    vector /= np.sqrt(square)
    return vector


@compiled
def _largest_of_tridiagonal(diagonal: Vector, beside: Vector) -> float:
    """By bisection: below x lie as many eigenvalues as there are negative pivots of the matrix minus x."""
    size, low, high = len(diagonal), float(diagonal[0]), float(diagonal[0])
    for k in range(size):
        low = max(low, diagonal[k])
        around = (beside[k - 1] if k > 0 else 0.0) + (beside[k] if k < size - 1 else 0.0)
        high = max(high, diagonal[k] + around)
    while True:
        middle = 0.5 * low + 0.5 * high
        if not low < middle < high:
            return high
        pivot, all_below = diagonal[0] - middle, True
        for k in range(1, size):
            if pivot >= 0.0:
                all_below = False
                break
            pivot = diagonal[k] - middle - beside[k - 1] * beside[k - 1] / pivot
        if all_below and pivot < 0.0:
            high = middle
        else:
            low = middle
