"""Small, seeded, well understood data: the default wherever a dataset is needed.

The rates of Hendrikx (2022, Theorems and section Experiments) are functions of the condition number. Here it is known
beforehand, so that a measured rate can be held against the formula.

Dense (``density=1``): A = sqrt(N) U S V^T with seeded U, V of orthonormal columns. The second-moment matrix A^T A / N has the
eigenvalues ``condition ** -(j / (d - 1))``, j = 0..d-1, log-spaced from 1 to 1 / condition: exact up to rounding.

Sparse (``density<1``): every row has ``density * d`` non-zeros (rounded up or down at random, so right on average) at
seeded places, of random sign, scaled by column. The *expected* second-moment matrix is diagonal with the same
eigenvalues. The one of the N rows at hand differs by sampling: its condition number is ``condition`` times a factor that tends
to 1 as N / d grows, about 1 + 4 sqrt(d / N) at most (for d = 20: within 10 % at N = 20,000).

Labels: with the planted vector theta (all entries of equal size) and a noise variable e of the row,
classification has y = sign(a . theta + noise * e), e logistic, that is P(y = 1) = 1 / (1 + exp(-a . theta / noise)), and
regression y = a . theta + noise * e, e standard normal. The root mean square of a . theta is about ``SIGNAL``, so classes overlap.
Row 1 always takes the label opposite to row 0: both classes are there whatever the seed.

Row r depends on (seed, r) alone if sparse; a dense set is built as a whole.
"""

import math
from collections.abc import Iterator
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
DENSE_VALUES = 20_000_000  # a dense set is built in memory: at most 160 MB
SIGNAL = 2.0

ROW_STREAM, THETA_STREAM, LEFT_STREAM, RIGHT_STREAM = 0, 1, 2, 3


@dataclass(frozen=True)
class Synthetic:
    """Rows whose second-moment matrix has a known spectrum.

    Parameters
    ----------
    rows, features : int
        Shape; a dense set needs ``rows >= features``, and two rows at least for classification.
    density : float
        Share of non-zeros in a row; 1 means dense.
    condition : float
        Condition number of the second-moment matrix (module docstring: exact if dense, in expectation if sparse).
    seed : int
        Seed of everything random.
    task : {"classification", "regression"}
        Labels -1/+1, or real numbers.
    noise : float
        Size of the noise; 0 gives labels that a linear model explains exactly.

    Examples
    --------
    >>> source = Synthetic(rows=200, features=5, condition=10.0)
    >>> (block,) = source.blocks()
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
        _check_real("density", self.density, "lie in (0, 1]", 5e-324, 1.0)
        _check_real("condition", self.condition, "lie in [1, 1e12]", 1.0, 1e12)
        _check_real("noise", self.noise, "lie in [0, 1e12]", 0.0, 1e12)
        if self.task not in ("classification", "regression"):
            raise InputError(f"data.task={self.task!r} must be 'classification' or 'regression'")
        if self.task == "classification" and self.rows < 2:
            raise InputError("data.rows=1 cannot hold two classes; use rows>=2 or task=regression")
        if self.features == 1 and self.condition != 1:
            raise InputError(f"data.condition={self.condition} needs two features or more; use condition=1")
        if self.density * self.features < 1:
            raise InputError(
                f"data.density={self.density} is less than one non-zero in a row of data.features={self.features}; "
                f"use density>={1 / self.features:.3g}"
            )
        if self.density == 1 and self.rows < self.features:
            raise InputError(
                f"data.rows={self.rows} is too few for a dense set of known condition number with "
                f"data.features={self.features}; use rows>={self.features} or density<1"
            )
        if self.density == 1 and self.rows * self.features > DENSE_VALUES:
            raise InputError(
                f"data.rows={self.rows} times data.features={self.features} is more than the {DENSE_VALUES} values "
                f"of a dense set; use fewer rows, density<1 or rcv1_like"
            )

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalues of the second-moment matrix (if sparse, of its expectation), largest first."""
        last = max(1, self.features - 1)
        return np.array([float(self.condition) ** -(j / last) for j in range(self.features)])

    @property
    def theta(self) -> NDArray[np.float64]:
        """The planted vector."""
        words = random_words(self.seed, THETA_STREAM, 0, self.features)[:, 0]
        size = SIGNAL / math.sqrt(math.fsum(self.eigenvalues))
        return np.where(uniform(words) < 0.5, -size, size)

    def identity(self) -> dict[str, object]:
        """Everything on which the rows depend."""
        reals = {key: float(getattr(self, key)) for key in ("density", "condition", "noise")}
        return {"kind": self.name, "generator_version": GENERATOR_VERSION, **asdict(self), **reals}

    def blocks(self, block_rows: int | None = None) -> Iterator[RowBlock]:
        """Yield all rows in order, `block_rows` at a time."""
        size = block_rows or max(1, int(BLOCK_VALUES / (self.density * self.features)))
        theta, scales = self.theta, np.sqrt(self.eigenvalues)
        whole = _dense_matrix(self.rows, scales, self.seed) if self.density == 1 else None
        first = 0.0
        for start in range(0, self.rows, size):
            words = random_words(self.seed, ROW_STREAM, start, min(size, self.rows - start))
            if whole is not None:
                data, indices, indptr = _to_csr(whole[start : start + size])
            else:
                data, indices, indptr = _sparse_rows(words, scales, self.density)
            y = _margins(data, indices, indptr, theta)
            if self.task == "regression":
                y += self.noise * ndtri(uniform(words[:, 2]))
            else:
                y = np.where(y + self.noise * logit(uniform(words[:, 2])) < 0, -1.0, 1.0)
                first = y[0] if start == 0 else first
                if start <= 1 < start + size:
                    y[1 - start] = -first
            yield RowBlock(data, indices, indptr, y)


def check_integer(key: str, value: object, low: int, high: int) -> None:
    """Refuse what is not an integer between `low` and `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"data.{key}={value!r} must be an integer from {low} to {high}")


def _check_real(key: str, value: object, must: str, low: float, high: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"data.{key}={value!r} must {must}")


def random_words(seed: int, stream: int, start: int, count: int) -> NDArray[np.uint64]:
    """Four random words for each counter from `start` on: shape (count, 4), the same in whatever pieces they are asked for.

    Examples
    --------
    >>> bool((random_words(7, 0, 0, 9)[5:] == random_words(7, 0, 5, 4)).all())
    True
    """
    key = np.array([seed, stream], np.uint64)
    counter = np.array([start, 0, 0, 0], np.uint64)
    words: NDArray[np.uint64] = (
        np.random.Philox(key=key, counter=counter).random_raw(4 * count).reshape(count, 4)
    )
    return words


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


def _dense_matrix(rows: int, scales: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """sqrt(N) U S V^T."""
    left = _orthonormal(_uniform_matrix(seed, LEFT_STREAM, len(scales), rows))
    right = _orthonormal(_uniform_matrix(seed, RIGHT_STREAM, len(scales), len(scales)))
    return _product(left, math.sqrt(rows) * scales, right)


def _uniform_matrix(seed: int, stream: int, rows: int, columns: int) -> NDArray[np.float64]:
    words = random_words(seed, stream, 0, -(-rows * columns // 4)).ravel()[: rows * columns]
    return 2 * uniform(words).reshape(rows, columns) - 1


# Kernels in place of LAPACK and BLAS, whose last bits depend on the machine and on its number of threads.


@compiled
def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the rows of `vectors` orthonormal, in place: Gram-Schmidt, twice, which is enough for rounding."""
    for i in range(len(vectors)):
        for _ in range(2):
            for j in range(i):
                along = 0.0
                for k in range(vectors.shape[1]):
                    along += vectors[i, k] * vectors[j, k]
                for k in range(vectors.shape[1]):
                    vectors[i, k] -= along * vectors[j, k]
        square = 0.0
        for k in range(vectors.shape[1]):
            square += vectors[i, k] * vectors[i, k]
        for k in range(vectors.shape[1]):
            vectors[i, k] /= np.sqrt(square)
    return vectors


@compiled
def _product(
    left: NDArray[np.float64], middle: NDArray[np.float64], right: NDArray[np.float64]
) -> NDArray[np.float64]:
    """left^T diag(middle) right."""
    result = np.zeros((left.shape[1], right.shape[1]))
    for r in range(left.shape[1]):
        for i in range(len(middle)):
            factor = left[i, r] * middle[i]
            for k in range(right.shape[1]):
                result[r, k] += factor * right[i, k]
    return result


@compiled
def _margins(
    data: NDArray[np.float64],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    theta: NDArray[np.float64],
) -> NDArray[np.float64]:
    """a . theta for each row a."""
    result = np.zeros(len(indptr) - 1)
    for r in range(len(result)):
        for k in range(indptr[r], indptr[r + 1]):
            result[r] += data[k] * theta[indices[k]]
    return result


def _to_csr(dense: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
    rows, features = dense.shape
    indices = np.tile(np.arange(features, dtype=np.int32), rows)
    return dense.ravel(), indices, np.arange(rows + 1, dtype=np.int64) * features


def _sparse_rows(
    words: NDArray[np.uint64], scales: NDArray[np.float64], density: float
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
    mean = density * len(scales)
    indptr = np.zeros(len(words) + 1, np.int64)
    indptr[1:] = np.cumsum(np.floor(mean + uniform(words[:, 1])).astype(np.int64))
    # Variance of a uniform number in (-1, 1) is 1/3, and a feature is there with probability `density`.
    data, indices = _draw_rows(words[:, 0], indptr, scales * math.sqrt(3 / density))
    return data, indices, indptr


@compiled
def _draw_rows(
    seeds: NDArray[np.uint64], indptr: NDArray[np.int64], scales: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Features without repetition (a partial shuffle, undone after the row), then values uniform in +-scale."""
    data = np.empty(indptr[-1], np.float64)
    indices = np.empty(indptr[-1], np.int32)
    order = np.arange(len(scales)).astype(np.int32)
    swaps = np.empty(len(scales), np.int64)
    for r in range(len(seeds)):
        state = seeds[r]
        begin, size = indptr[r], indptr[r + 1] - indptr[r]
        for k in range(size):
            state, word = mix64(state)
            # 32 random bits times the number of candidates: a bias of 2^-8 at most, for 2^24 features.
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
