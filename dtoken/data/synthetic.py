"""Small, seeded, well understood data: the default wherever a dataset is needed.

The rates of Hendrikx (2022) and the time axes of its section Experiments are functions of a condition number.
Here it is known beforehand, so that a measured rate can be held against its formula.

Dense (``density=1``): A = sqrt(N) U S V^T with seeded U and V of orthonormal columns. The second-moment
matrix A^T A / N has the eigenvalues ``condition ** -(j / (d - 1))``, j = 0..d-1, log-spaced from 1 to 1 /
condition: exact up to rounding.

Sparse (``density<1``): a row has ``density * d`` non-zeros (rounded up or down at random, right on average)
at seeded places, with random signs, scaled by column. The *expected* second-moment matrix is diagonal and has
the same eigenvalues. That of the N rows at hand differs by sampling: its condition number is ``condition`` up
to a factor 1 + O(sqrt(d / N)); for d = 20 and density = 0.3, 0.86 to 1.22 was seen at N = 1000 and 0.98 to
1.03 at N = 20,000.

Labels: with the planted vector theta (entries of equal size, random signs) and a noise variable e for each
row, regression has y = a . theta + noise * e, e standard normal, and classification y = sign(a . theta +
noise * e), e logistic, which means P(y = 1) = 1 / (1 + exp(-a . theta / noise)). The root mean square of a .
theta is about ``SIGNAL``, so the classes overlap. Row 1 takes the label opposite to row 0's: no seed gives a
single class.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from dtoken.compiled import compiled
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError

GENERATOR_VERSION = 1  # to be raised by whoever changes a single bit of the output
BLOCK_VALUES = 300_000  # a block holds about this many non-zeros
DENSE_VALUES = 4_000_000  # a dense set is built in memory: at most 32 MB
SIGNAL = 2.0

ROW_STREAM, THETA_STREAM, LEFT_STREAM, RIGHT_STREAM = range(4)


@dataclass(frozen=True)
class Synthetic:
    """Rows whose second-moment matrix has a known spectrum.

    Parameters
    ----------
    rows, features : int
        Shape. A dense set needs ``rows >= features``, classification two rows.
    density : float
        Share of non-zeros in a row; 1 means dense.
    condition : float
        Condition number of the second-moment matrix: exact if dense, of the expectation if sparse.
    seed : int
        Seed of everything random.
    task : {"classification", "regression"}
        Labels -1 and +1, or real numbers.
    noise : float
        Size of the noise in the labels; with 0, theta explains them all but that of row 1.

    Examples
    --------
    >>> (block,) = Synthetic(rows=200, features=5, condition=10.0).blocks()
    >>> dense = block.data.reshape(200, 5)
    >>> eigenvalues = np.linalg.eigvalsh(dense.T @ dense / 200)
    >>> round(float(eigenvalues[-1] / eigenvalues[0]), 8)
    10.0
    """

    rows: int = 1000
    features: int = 20
    density: float = 1.0
    condition: float = 100.0
    seed: int = 0
    task: Literal["classification", "regression"] = "classification"
    noise: float = 1.0

    name: ClassVar[str] = "synthetic"
    index_base: ClassVar[Literal[0]] = 0

    def __post_init__(self) -> None:
        check_integer("rows", self.rows, 1, 2**62)
        check_integer("features", self.features, 1, 2**24)
        check_integer("seed", self.seed, 0, 2**64 - 1)
        _check_real("density", self.density, "lie in (0, 1]", math.ulp(0.0), 1.0)
        _check_real("condition", self.condition, "lie in [1, 1e12]", 1.0, 1e12)
        _check_real("noise", self.noise, "lie in [0, 1e12]", 0.0, 1e12)
        rows, features = f"data.rows={self.rows}", f"data.features={self.features}"
        if self.task not in ("classification", "regression"):
            raise InputError(f"data.task={self.task!r} must be 'classification' or 'regression'")
        if self.task == "classification" and self.rows < 2:
            raise InputError(f"{rows} cannot hold two classes; use rows>=2 or task=regression")
        if self.features == 1 and self.condition != 1:
            raise InputError(f"data.condition={self.condition} needs two features at least; use condition=1")
        if self.density * self.features < 1:
            least = f"use density>={1 / self.features:.3g}"
            raise InputError(f"data.density={self.density} leaves rows of {features} empty; {least}")
        if self.density == 1 and self.rows < self.features:
            raise InputError(f"{rows} is too few for a dense set with {features}; use more rows or density<1")
        if self.density == 1 and self.rows * self.features > DENSE_VALUES:
            limit = f"the limit of {DENSE_VALUES} values of a dense set"
            raise InputError(f"{rows} with {features} is above {limit}; use density<1 or rcv1_like")

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalues of the second-moment matrix (of its expectation if sparse), largest first."""
        last = max(1, self.features - 1)
        return np.array([float(self.condition) ** -(j / last) for j in range(self.features)])

    @property
    def theta(self) -> NDArray[np.float64]:
        """The planted vector."""
        size = SIGNAL / math.sqrt(math.fsum(self.eigenvalues))
        return np.where(uniform(random_words(self.seed, THETA_STREAM, 0, self.features)[:, 0]) < 0.5, -size, size)

    @property
    def expected_nonzeros(self) -> int:
        """Of all rows together."""
        return round(self.rows * self.features * self.density)

    def identity(self) -> dict[str, object]:
        """Everything on which the rows depend."""
        reals = {key: float(getattr(self, key)) for key in ("density", "condition", "noise")}
        return {"kind": self.name, "generator_version": GENERATOR_VERSION, **asdict(self), **reals}

    def blocks(
        self, block_rows: int | None = None, *, advance: Callable[[float], None] | None = None
    ) -> Iterator[RowBlock]:
        """Yield all rows in order, `block_rows` at a time; `advance` is told the fraction done."""
        size = block_rows or max(1, int(BLOCK_VALUES / (self.density * self.features)))
        theta, scales = self.theta, np.sqrt(self.eigenvalues)
        whole = _dense_matrix(self.rows, scales, self.seed) if self.density == 1 else None
        first = 0.0
        for start in range(0, self.rows, size):
            words = random_words(self.seed, ROW_STREAM, start, min(size, self.rows - start))
            if whole is not None:
                rows = _dense_rows(whole[start : start + size])
            else:
                rows = _sparse_rows(words, scales, self.density)
            if advance is not None:
                advance((start + rows.rows) / self.rows)
            margin = _margins(rows, theta)
            if self.task == "regression":
                yield rows._replace(y=margin + self.noise * ndtri(uniform(words[:, 2])))
                continue
            y = np.where(margin + self.noise * logit(uniform(words[:, 2])) < 0, -1.0, 1.0)
            first = y[0] if start == 0 else first
            if start <= 1 < start + size:
                y[1 - start] = -first
            yield rows._replace(y=y)


def check_integer(key: str, value: object, low: int, high: int) -> None:
    """Refuse what is not an integer from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"data.{key}={value!r} must be an integer from {low} to {high}")


def _check_real(key: str, value: object, must: str, low: float, high: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"data.{key}={value!r} must {must}")


def random_words(seed: int, stream: int, start: int, count: int) -> NDArray[np.uint64]:
    """Four random words for each of `count` counters from `start` on."""
    key, counter = np.array([seed, stream], np.uint64), np.array([start, 0, 0, 0], np.uint64)
    words: NDArray[np.uint64] = np.random.Philox(key=key, counter=counter).random_raw(4 * count)
    return words.reshape(count, 4)


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers strictly between 0 and 1: the middles of 2^52 equal intervals."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


@compiled
def mix64(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Next state and random word of a SplitMix64 generator: cheap enough for every token of a row."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    word = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, word ^ (word >> np.uint64(31))


def _margins(rows: RowBlock, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """a . theta for each row a, added up from left to right."""
    row = np.repeat(np.arange(rows.rows), np.diff(rows.indptr))
    return np.bincount(row, rows.data * theta[rows.indices], rows.rows).astype(np.float64, copy=False)


def _dense_matrix(rows: int, scales: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    left = _orthonormal(_uniform_matrix(seed, LEFT_STREAM, rows, len(scales)))
    right = _orthonormal(_uniform_matrix(seed, RIGHT_STREAM, len(scales), len(scales)))
    return _product(left, math.sqrt(rows) * scales, right)


def _uniform_matrix(seed: int, stream: int, rows: int, columns: int) -> NDArray[np.float64]:
    words = random_words(seed, stream, 0, -(-rows * columns // 4)).ravel()[: rows * columns]
    return 2 * uniform(words).reshape(rows, columns) - 1


# Loops in place of LAPACK and BLAS, whose last bits depend on the machine and on its number of threads.
@compiled
def _orthonormal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the columns orthonormal in place: modified Gram-Schmidt, with a second round against rounding."""
    rows, columns = matrix.shape
    along = np.empty(columns)
    for _ in range(2):
        for j in range(columns):
            rest = along[j:]
            rest[:] = 0.0
            for r in range(rows):
                row = matrix[r, j:]
                for k in range(len(row)):
                    rest[k] += row[0] * row[k]
            for r in range(rows):
                row = matrix[r, j:]
                factor = row[0] / rest[0]
                for k in range(1, len(row)):
                    row[k] -= factor * rest[k]
                row[0] = factor * np.sqrt(rest[0])
    return matrix


@compiled
def _product(left: NDArray[np.float64], middle: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """left diag(middle) right^T."""
    result = np.zeros((len(left), len(right)))
    turned = right.T.copy()
    for r in range(len(left)):
        row = result[r]
        for j in range(len(middle)):
            factor, other = left[r, j] * middle[j], turned[j]
            for k in range(len(row)):
                row[k] += factor * other[k]
    return result


def _dense_rows(dense: NDArray[np.float64]) -> RowBlock:
    rows, features = dense.shape
    indices = np.tile(np.arange(features, dtype=np.int32), rows)
    return RowBlock(dense.ravel(), indices, np.arange(rows + 1, dtype=np.int64) * features, np.zeros(rows))


def _sparse_rows(words: NDArray[np.uint64], scales: NDArray[np.float64], density: float) -> RowBlock:
    indptr = np.zeros(len(words) + 1, np.int64)
    indptr[1:] = np.cumsum(np.floor(density * len(scales) + uniform(words[:, 1])).astype(np.int64))
    # A uniform number in (-1, 1) has variance 1/3, and a feature is there with probability `density`.
    data, indices = _draw_rows(words[:, 0], indptr, scales * math.sqrt(3 / density))
    return RowBlock(data, indices, indptr, np.zeros(len(words)))


@compiled
def _draw_rows(
    seeds: NDArray[np.uint64], indptr: NDArray[np.int64], scales: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Features without repetition (a partial shuffle, undone after the row), values uniform in +-scale."""
    data, indices = np.empty(indptr[-1], np.float64), np.empty(indptr[-1], np.int32)
    order = np.arange(len(scales)).astype(np.int32)
    swaps = np.empty(len(scales), np.int64)
    for r in range(len(seeds)):
        state, begin, size = seeds[r], indptr[r], indptr[r + 1] - indptr[r]
        for k in range(size):
            state, word = mix64(state)
            swaps[k] = k + np.int64(((word >> np.uint64(32)) * np.uint64(len(scales) - k)) >> np.uint64(32))
            order[k], order[swaps[k]] = order[swaps[k]], order[k]
        indices[begin : begin + size] = order[:size]
        indices[begin : begin + size].sort()
        for k in range(size - 1, -1, -1):
            order[k], order[swaps[k]] = order[swaps[k]], order[k]
        for k in range(begin, begin + size):
            state, word = mix64(state)
            data[k] = scales[indices[k]] * ((np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-51 - 1.0)
    return data, indices
