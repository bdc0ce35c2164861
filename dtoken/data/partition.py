"""Which rows go to which node.

A partition is decided from the number of rows of each class alone, then carried out row by row: row after row
draws its node without replacement from an urn that holds each node as often as it still needs a row. That is
exactly a uniformly random partition with the given sizes, at a memory cost that does not depend on the number
of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.files import file_identity
from dtoken.data.given import NodeNumbers, node_numbers, read_node_numbers
from dtoken.errors import InputError

Kind = Literal["contiguous", "shuffled", "dirichlet", "given"]
Sizes = Literal["keep", "equal", "unequal"]
KINDS: tuple[Kind, ...] = ("contiguous", "shuffled", "dirichlet", "given")
SIZES: tuple[Sizes, ...] = ("keep", "equal", "unequal")
DROPPED = -1

Assign = Callable[[NDArray[np.float64]], NDArray[np.int32]]


@dataclass(frozen=True)
class Partition:
    """How rows are spread over nodes.

    Parameters
    ----------
    nodes
        Number of nodes, n.
    kind
        ``contiguous`` keeps the order of the source, ``shuffled`` draws a uniformly random partition,
        ``dirichlet`` gives each node a share of positive rows drawn from a Dirichlet law around the overall
        share (label skew), ``given`` takes the node of each row from ``file`` or ``column``.
    seed
        Seed of the draws.
    sizes
        ``keep``: no row is dropped and sizes differ by at most one; ``equal``: all nodes have floor(rows / n)
        rows and the remainder is dropped, as in the paper; ``unequal``: sizes are drawn from a Dirichlet law
        and no row is dropped.
    alpha
        Concentration of the Dirichlet laws (label shares and unequal sizes): small is very uneven, large is
        even.
    file
        Of ``given``: a file with the number of the node of each row, ``.npy`` or text with one number a line.
    column
        Of ``given``: number of the feature, as the source counts, whose values are the numbers of the nodes (0 where
        a sparse row has none). It is taken out of the rows.
    numbers
        Of ``given``: the numbers themselves; see ``of_rows``.

    Examples
    --------
    >>> Partition(nodes=3).node_sizes(10)
    array([4, 3, 3])
    """

    nodes: int
    kind: Kind = "contiguous"
    seed: int = 0
    sizes: Sizes = "keep"
    alpha: float = 1.0
    file: Path | None = None
    column: int | None = None
    numbers: NodeNumbers | None = None

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InputError(f"nodes={self.nodes}, but there must be at least one; use nodes>=1")
        if self.nodes >= 2**31:
            raise InputError(f"nodes={self.nodes}, but there can be at most 2**31 - 1")
        if self.kind not in KINDS:
            raise InputError(f"partition.kind={self.kind} is not known; use one of {', '.join(KINDS)}")
        if self.sizes not in SIZES:
            raise InputError(f"partition.sizes={self.sizes} is not known; use one of {', '.join(SIZES)}")
        if not (0 < self.alpha < np.inf):
            raise InputError(f"partition.alpha={self.alpha} must be a positive number")
        if not 0 <= self.seed < 2**64:
            raise InputError(f"partition.seed={self.seed} must be an integer from 0 to 2**64 - 1")
        given = [key for key in ("file", "column", "numbers") if getattr(self, key) is not None]
        if self.kind == "given" and len(given) != 1:
            raise InputError("partition.kind=given needs either partition.file=FILE or partition.column=NUMBER")
        if self.kind != "given" and given:
            raise InputError(f"partition.{given[0]} is for partition.kind=given, not for {self.kind}; give that, too")

    @classmethod
    def of_rows(cls, numbers: Any, nodes: int | None = None) -> Self:
        """The partition in which the node of each row is given, as an array of numbers from 0 on.

        Examples
        --------
        >>> Partition.of_rows([0, 1, 1, 0, 1]).node_sizes(5)
        array([2, 3])
        """
        found = node_numbers(numbers)
        return cls(found.nodes if nodes is None else nodes, "given", numbers=found)

    @cached_property
    def given(self) -> NodeNumbers | None:
        """The node of each row, where it is given by itself."""
        return self.numbers if self.file is None else read_node_numbers(self.file)

    def keys(self) -> dict[str, object]:
        """The settings as a configuration has them; numbers by their hash."""
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "numbers"}
        return settings | ({} if self.numbers is None else {"numbers": self.numbers.digest})

    def identity(self) -> dict[str, object]:
        """The settings that decide where a row goes: those without influence are left out."""
        if self.kind == "given":
            where: dict[str, object] = {"column": self.column}
            if self.file is not None:
                where = file_identity(self.file)
            elif self.numbers is not None:
                where = {"digest": self.numbers.digest}
            return {"nodes": self.nodes, "kind": self.kind, **where}
        settings = self.keys() | {"alpha": float(self.alpha)}
        del settings["file"], settings["column"]
        if self.kind == "contiguous" and self.sizes != "unequal":
            del settings["seed"]
        if self.kind != "dirichlet" and self.sizes != "unequal":
            del settings["alpha"]
        return settings

    def check_rows(self, rows: int) -> None:
        """Refuse more nodes than rows, or rows for which no node is given."""
        if self.nodes > rows:
            raise InputError(f"nodes={self.nodes} but the dataset has only {rows} rows; use nodes<={rows}")
        if self.given is not None:
            self.given.check(rows, self.nodes)

    def node_sizes(self, rows: int) -> NDArray[np.int64]:
        """Number of rows of each node."""
        n = self.nodes
        self.check_rows(rows)
        if self.given is not None:
            return self.given.sizes
        if self.sizes == "equal":
            return np.full(n, rows // n)
        if self.sizes == "keep":
            return rows // n + (np.arange(n) < rows % n).astype(np.int64)
        shares = self._generator(1).dirichlet(np.full(n, self.alpha))
        return 1 + _round_to_total(shares * (rows - n), rows - n)

    def assignment(self, rows: int, positives: int | None) -> Assign:
        """Return a function that maps consecutive blocks of labels to nodes (DROPPED: to none).

        ``positives`` is the number of rows labelled +1, or None where labels are real numbers.
        """
        sizes = self.node_sizes(rows)
        if self.given is not None:
            return _Given(self.given)
        if self.kind == "contiguous":
            return _Contiguous(sizes)
        if self.kind == "shuffled":
            return _Urn(_with_dropped(sizes, rows)[None, :], self._generator(0))
        if positives is None:
            raise InputError(
                "partition.kind=dirichlet needs two classes, but the labels are real numbers; use shuffled"
            )
        return _Urn(self._label_counts(sizes, rows, positives), self._generator(0))

    def _generator(self, stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, stream]))

    def _label_counts(self, sizes: NDArray[np.int64], rows: int, positives: int) -> NDArray[np.int64]:
        """Rows of each class (negative, positive) for each node; the last column is dropped."""
        kept = int(sizes.sum())
        kept_positives = round(positives * kept / rows)
        kept_positives = min(max(kept_positives, kept - (rows - positives)), positives)
        dropped = [rows - positives - (kept - kept_positives), positives - kept_positives]
        positive = self._positive_rows(sizes, kept_positives)
        return np.column_stack([np.stack([sizes - positive, positive]), dropped])

    def _positive_rows(self, sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        from scipy.optimize import brentq  # these take half a second, and few partitions need them
        from scipy.special import expit, logit

        share = total / int(sizes.sum())
        if share in (0, 1):
            return sizes * int(share)
        # Dir(alpha * overall shares) over two classes is a Beta law; 1e-9 keeps its logarithms finite.
        laws = self._generator(2).beta(self.alpha * share, self.alpha * (1 - share), self.nodes)
        logits = logit(np.clip(laws, 1e-9, 1 - 1e-9))

        def excess(shift: float) -> float:
            return float(sizes @ expit(logits + shift)) - total

        # One common shift on the logit scale makes the drawn shares agree with the rows that there are.
        shift = brentq(excess, -60.0, 60.0)
        return _round_to_total(sizes * expit(logits + shift), total)


def _round_to_total(amounts: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round down, then give what is missing to the largest remainders."""
    counts = np.floor(amounts).astype(np.int64)
    largest = np.argsort(counts - amounts, kind="stable")[: total - int(counts.sum())]
    counts[largest] += 1
    return counts


def _with_dropped(sizes: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    return np.append(sizes, rows - sizes.sum())


class _Contiguous:
    """Rows in order: the first sizes[0] to node 0, and so on; what is left over is dropped."""

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        self._ends = np.cumsum(sizes)
        self._row = 0

    def __call__(self, labels: NDArray[np.float64]) -> NDArray[np.int32]:
        row = self._row + np.arange(len(labels))
        self._row += len(labels)
        nodes = np.searchsorted(self._ends, row, side="right").astype(np.int32)
        nodes[nodes == len(self._ends)] = DROPPED
        return nodes


class _Given:
    """Rows in order: each to the node that was given for it."""

    def __init__(self, given: NodeNumbers) -> None:
        self._numbers = given.values
        self._row = 0

    def __call__(self, labels: NDArray[np.float64]) -> NDArray[np.int32]:
        self._row += len(labels)
        return self._numbers[self._row - len(labels) : self._row]


class _Urn:
    """Draws without replacement, one urn per class; the last bin stands for dropped rows."""

    def __init__(self, counts: NDArray[np.int64], generator: np.random.Generator) -> None:
        self._trees = np.stack([_fenwick(row) for row in counts])
        self._left = counts.sum(axis=1)
        self._bins = counts.shape[1]
        self._generator = generator

    def __call__(self, labels: NDArray[np.float64]) -> NDArray[np.int32]:
        urn = (labels > 0).astype(np.int64) if len(self._left) == 2 else np.zeros(len(labels), np.int64)
        nodes = np.empty(len(labels), np.int32)
        _draw(self._trees, self._left, urn, self._generator.random(len(labels)), nodes)
        nodes[nodes == self._bins - 1] = DROPPED
        return nodes


def _fenwick(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """A Fenwick tree of prefix sums, of a size that is a power of two."""
    size = 1 << max(1, (len(counts) - 1).bit_length())
    tree = np.zeros(size + 1, np.int64)
    tree[1 : len(counts) + 1] = counts
    _add_up(tree)
    return tree


@compiled
def _add_up(tree: NDArray[np.int64]) -> None:
    for node in range(1, len(tree)):
        parent = node + (node & -node)
        if parent < len(tree):
            tree[parent] += tree[node]


@compiled
def _draw(
    trees: NDArray[np.int64],
    left: NDArray[np.int64],
    urn: NDArray[np.int64],
    uniform: NDArray[np.float64],
    nodes: NDArray[np.int32],
) -> None:
    """Draw one bin for every row and take it out of the row's urn."""
    size = trees.shape[1] - 1
    for row in range(len(urn)):
        tree = trees[urn[row]]
        target = min(np.int64(uniform[row] * left[urn[row]]), left[urn[row]] - 1)
        left[urn[row]] -= 1
        position = 0
        step = size
        while step > 0:  # descend to the last bin whose prefix sum does not exceed the target
            if position + step <= size and tree[position + step] <= target:
                position += step
                target -= tree[position]
            step >>= 1
        nodes[row] = position
        position += 1
        while position <= size:
            tree[position] -= 1
            position += position & -position
