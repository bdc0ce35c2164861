"""A seeded generator of any number of rows with the shape of RCV1.

Hendrikx (2022, section Experiments) runs logistic regression on RCV1: 47,236 features, some 75 of them in a
row, 20 nodes with 9841 rows each. This source imitates that set where the real one is not at hand or too
small: the paper's number of rows or a hundred times as many, in blocks and bounded memory.

A document draws tokens, most from the words of its class and a share of its own from those of the other,
until it has its number of *different* words. With tf the count of a word in the document and df the share of
documents with that word under the model,

    value = (1 + log tf) * log(1 / df),   then the row is divided by its Euclidean norm.

Word frequencies follow a Zipf law that is flat at the top and steep in the tail; a seeded permutation hides
the ranks. The label is the class, flipped with probability ``LABEL_NOISE``.

Row r depends on the seed and r alone, through counter r of a Philox generator: a shorter set is a prefix of a
longer one, and blocks can be made in any order. No numpy distribution is used, whose stream may change with
its version, and the tables are rounded far above the last bits in which the logarithms of two machines may
differ: but for a rare tie in that rounding, a seed means the same rows everywhere.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dtoken.compiled import compiled
from dtoken.data.rows import RowBlock
from dtoken.data.synthetic import check_integer, mix64, random_words, uniform
from dtoken.errors import InputError

GENERATOR_VERSION = 1  # to be raised by whoever changes a single bit of the output
BLOCK_VALUES = 300_000  # a block holds about this many non-zeros: 3.6 MB, 4096 rows of the default shape

# Fitted to 23,774 rows of RCV1: document frequencies by rank, row lengths, accuracy of a linear classifier.
LENGTH_SPREAD = 0.70  # standard deviation of the logarithm of a row's number of non-zeros
TOP_OFFSET, TOP_SLOPE = 10.0, 0.55  # frequency of rank k ~ (k + offset)^-slope * (1 + k / knee)^-(tail slope)
TAIL_KNEE, TAIL_SLOPE = 0.03, 1.8  # the knee as a share of the features
TILT = 2.0  # a word's frequency is e^t and e^-t times the common one in the two classes, t uniform in +-TILT
OVERLAP = 0.42  # a document takes a share of its tokens from the other class, uniform in 0..OVERLAP
LABEL_NOISE = 0.01
IDF_FLOOR = 0.1  # a word in nearly all documents of a tiny vocabulary still has a positive weight
DRAWS_PER_WORD = 64  # where a vocabulary is too small to give a document its length, stop here

TOP_COUNT = 256  # term frequencies above are taken as this
ROW_STREAM, MODEL_STREAM = 0, 1


class _Model(NamedTuple):
    """The tables from which rows are drawn."""

    alias: NDArray[np.uint32]  # (2, features, 2): for each class and column, threshold and alias
    idf: NDArray[np.float64]  # (features,) log(1 / df)
    damped: NDArray[np.float64]  # (TOP_COUNT + 1,) 1 + log tf
    lengths: NDArray[np.int64]  # (4096,) equally likely numbers of non-zeros


@dataclass(frozen=True)
class Rcv1Like:
    """A set with the shape of RCV1.

    Parameters
    ----------
    rows : int
        Number of rows; the default is the paper's 20 x 9841.
    features : int
        Number of features d.
    nonzeros : int
        Average number of non-zeros in a row, at most half of `features`.
    seed : int
        Seed of the words, their order and all rows.

    Examples
    --------
    >>> source = Rcv1Like(rows=10_000, seed=1)
    >>> first, *others = source.blocks()
    >>> bool(np.isclose(np.square(first.data[: first.indptr[1]]).sum(), 1.0))
    True
    >>> first.rows + sum(block.rows for block in others)
    10000
    """

    rows: int = 196_820
    features: int = 47_236
    nonzeros: int = 73
    seed: int = 0

    name: ClassVar[str] = "rcv1_like"
    index_base: ClassVar[Literal[0]] = 0

    def __post_init__(self) -> None:
        check_integer("rows", self.rows, 1, 2**62)
        check_integer("features", self.features, 2, 2**24)
        check_integer("nonzeros", self.nonzeros, 1, 2**23)
        check_integer("seed", self.seed, 0, 2**64 - 1)
        if 2 * self.nonzeros > self.features:
            raise InputError(
                f"data.nonzeros={self.nonzeros} is more than half of data.features={self.features}; "
                f"use nonzeros<={self.features // 2}"
            )

    @property
    def expected_nonzeros(self) -> int:
        """Of all rows together."""
        return self.rows * self.nonzeros

    def identity(self) -> dict[str, object]:
        """Everything on which the rows depend."""
        return {"kind": self.name, "generator_version": GENERATOR_VERSION, **asdict(self)}

    def blocks(
        self,
        block_rows: int | None = None,
        threads: int | None = None,
        *,
        advance: Callable[[float], None] | None = None,
    ) -> Iterator[RowBlock]:
        """Yield all rows in order, `block_rows` at a time; up to `threads` blocks are made ahead.

        `advance` is told the fraction done.
        """
        size = block_rows or max(1, BLOCK_VALUES // self.nonzeros)
        workers = threads or min(4, os.cpu_count() or 1)
        model = _model(self.features, self.nonzeros, self.seed)
        pending: deque[Future[RowBlock]] = deque()
        with ThreadPoolExecutor(workers, thread_name_prefix="rcv1_like") as pool:
            for start in range(0, self.rows, size):
                pending.append(pool.submit(_rows, model, self.seed, start, min(start + size, self.rows)))
                if len(pending) > workers:
                    yield pending.popleft().result()
                if advance is not None:
                    advance(min(start + size, self.rows) / self.rows)
            while pending:
                yield pending.popleft().result()


def _rows(model: _Model, seed: int, start: int, stop: int) -> RowBlock:
    """Rows `start` to `stop`."""
    words = random_words(seed, ROW_STREAM, start, stop - start)
    lengths = model.lengths[words[:, 0] >> np.uint64(52)]
    classes = (words[:, 1] >> np.uint64(63)).astype(np.int64)
    flipped = uniform(words[:, 1] << np.uint64(1)) < LABEL_NOISE
    y = np.where((classes == 1) != flipped, 1.0, -1.0)
    borrowed = (OVERLAP * 2.0**32 * uniform(words[:, 3])).astype(np.uint64)
    size = int(lengths.sum())
    block = RowBlock(np.empty(size), np.empty(size, np.int32), np.zeros(len(y) + 1, np.int64), y)
    _draw_rows(model, words[:, 2], lengths, classes, borrowed, block)
    used = block.indptr[-1]  # less than size where a small vocabulary has not enough words for a long row
    return block._replace(data=block.data[:used], indices=block.indices[:used])


@compiled
def _draw_rows(
    model: _Model,
    seeds: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    classes: NDArray[np.int64],
    borrowed: NDArray[np.uint64],
    block: RowBlock,
) -> None:
    """Fill the arrays of `block`: draw tokens, count them, sort, weigh and normalise."""
    alias, idf, damped, _ = model
    data, indices, indptr, _ = block
    features = np.uint64(len(idf))
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    counts = np.zeros(len(idf), np.int32)
    for r in range(len(lengths)):
        state = seeds[r]
        begin = indptr[r]
        end = begin
        for _ in range(DRAWS_PER_WORD * lengths[r]):
            state, choice = mix64(state)
            state, draw = mix64(state)
            table = classes[r]
            if (choice & low) < borrowed[r]:
                table = 1 - table
            column = np.int64(((draw >> half) * features) >> half)
            if (draw & low) >= np.uint64(alias[table, column, 0]):
                column = np.int64(alias[table, column, 1])
            if counts[column] == 0:
                indices[end] = column
                end += 1
            counts[column] += 1
            if end - begin == lengths[r]:
                break
        indices[begin:end].sort()
        square = 0.0
        for k in range(begin, end):
            j = indices[k]
            data[k] = damped[min(counts[j], len(damped) - 1)] * idf[j]
            square += data[k] * data[k]
            counts[j] = 0
        norm = np.sqrt(square)
        for k in range(begin, end):
            data[k] /= norm
        indptr[r + 1] = end


def _model(features: int, nonzeros: int, seed: int) -> _Model:
    """Word frequencies, their alias tables, weights and row lengths."""
    words = random_words(seed, MODEL_STREAM, 0, features)
    rank = np.empty(features)
    rank[np.argsort(words[:, 0], kind="stable")] = np.arange(1, features + 1)
    frequency = (rank + TOP_OFFSET) ** -TOP_SLOPE * (1 + rank / (TAIL_KNEE * features)) ** -TAIL_SLOPE
    tilt = np.exp(TILT * (2 * uniform(words[:, 1]) - 1))
    # The 24 bits of a float32 are the same whatever machine computed the powers; from here on sums are exact.
    share = np.stack([frequency / tilt, frequency * tilt]).astype(np.float32).astype(np.float64)
    share /= np.array([[math.fsum(p)] for p in share])
    return _Model(
        alias=np.stack([_alias_table(_to_units(p)) for p in share]),
        idf=_rounded(np.maximum(-np.log(_document_frequency(share.mean(axis=0), nonzeros)), IDF_FLOOR)),
        damped=_rounded(1 + np.log(np.maximum(np.arange(TOP_COUNT + 1), 1))),
        lengths=_row_lengths(features, nonzeros),
    )


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """To multiples of 2^-24."""
    rounded: NDArray[np.float64] = np.rint(values * 2.0**24) / 2.0**24
    return rounded


def _document_frequency(share: NDArray[np.float64], nonzeros: int) -> NDArray[np.float64]:
    """P(word in document) = 1 - exp(-T p), with the number of tokens T that makes their sum `nonzeros`."""
    low, high = 0.0, 64.0
    for _ in range(64):
        middle = (low + high) / 2
        enough = -np.expm1(-np.exp(middle) * share).sum() > nonzeros
        low, high = (low, middle) if enough else (middle, high)
    frequency: NDArray[np.float64] = -np.expm1(-np.exp(low) * share)
    return frequency


def _row_lengths(features: int, nonzeros: int) -> NDArray[np.int64]:
    """4096 quantiles of a log-normal distribution with mean `nonzeros`."""
    normal = ndtri((np.arange(4096) + 0.5) / 4096)
    lengths = np.rint(nonzeros * np.exp(LENGTH_SPREAD * normal - LENGTH_SPREAD**2 / 2))
    clipped: NDArray[np.int64] = np.clip(lengths, 1, features).astype(np.int64)
    return clipped


def _to_units(share: NDArray[np.float64]) -> NDArray[np.int64]:
    """Probabilities as integers that add up to features * 2^32."""
    total = len(share) << 32
    units = np.rint(share * total).astype(np.int64)
    units[np.argmax(units)] += total - units.sum()
    return units


@compiled
def _alias_table(units: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Vose's alias table: column j gives j below its threshold (of 2^32), otherwise its alias."""
    full = np.int64(1) << 32
    table = np.empty((len(units), 2), np.uint32)
    rest = units.copy()
    small = np.empty(len(units), np.int64)
    large = np.empty(len(units), np.int64)
    n_small, n_large = 0, 0
    for j in range(len(units)):
        table[j, 0], table[j, 1] = full - 1, j  # its own alias: the threshold does not matter
        if rest[j] < full:
            small[n_small] = j
            n_small += 1
        else:
            large[n_large] = j
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        j, k = small[n_small], large[n_large - 1]
        table[j, 0], table[j, 1] = rest[j], k
        rest[k] -= full - rest[j]
        if rest[k] < full:
            n_large -= 1
            small[n_small] = k
            n_small += 1
    return table
