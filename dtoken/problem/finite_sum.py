"""The regularised finite sum over the nodes' shards (Hendrikx 2022, "Setting").

    F(theta) = sum_i [ (1/m_i) sum_j phi_ij(a_ij^T theta) + sigma/2 ||theta||^2 ]

with m_i the node's own number of rows. Empty rows count in m_i and add their constant phi(0).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.problem import kernels
from dtoken.problem.losses import Loss
from dtoken.problem.shards import BlockReader, Shards, in_order

Vector = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class FiniteSum:
    """The problem over a dataset, evaluated by streaming row blocks through compiled kernels.

    A node's terms are added row by row, then the nodes in their order: results are the same bits whatever the
    block sizes, the memory and the number of threads. Objectives use compensated summation.

    Parameters
    ----------
    shards
        The dataset.
    loss
        Loss of every row; classification losses need labels -1 and +1.
    sigma
        Regularisation of each node, positive.
    memory
        Bytes of decoded shards kept between passes; the rest is read again at every pass.
    threads
        Groups of nodes evaluated at the same time; each needs a vector of d numbers for every node of the group.

    Examples
    --------
    >>> from dtoken.data.rows import RowBlock
    >>> from dtoken.problem.losses import get_loss
    >>> class One:  # one node with the single row a = (2), y = 3
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, np.ones(1, int), np.ones(1, int), False, None
    ...     def blocks(self, first, stop):
    ...         yield RowBlock(np.array([2.0]), np.zeros(1, np.int32), np.array([0, 1]), np.array([3.0]))
    >>> problem = FiniteSum(One(), get_loss("squared"), sigma=0.5)
    >>> problem.objective(np.array([1.0]))  # (2 - 3)^2 / 2 + 0.5 / 2
    0.75
    >>> problem.gradient(np.array([1.0]))  # 2 (2 - 3) + 0.5
    array([-1.5])
    """

    shards: Shards
    loss: Loss
    sigma: float
    memory: int = 256 * 1024**2
    threads: int = 1
    reader: BlockReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _validate(self)
        object.__setattr__(self, "reader", BlockReader(self.shards, self.memory))

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.shards.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self.shards.d

    def with_sigma(self, sigma: float) -> "FiniteSum":
        """Return the same problem with another sigma; the shards kept in memory are shared."""
        other = replace(self, sigma=sigma)
        object.__setattr__(other, "reader", self.reader)
        return other

    def objective(self, theta: Vector) -> float:
        """F(theta)."""
        theta = self._checked(theta)

        def values(group: int) -> Vector:
            totals = self._zeros(group, 2)
            for block in self.reader.blocks(group):
                kernels.add_values(self.loss.code, *block.rows, block.nodes, theta, totals)
            return self._means(group, totals)

        return self._with_regulariser(list(self._over_groups(values)), theta)

    def gradient(self, theta: Vector) -> Vector:
        """Gradient of F at theta."""
        theta = self._checked(theta)
        return self._sum(lambda group: self._gradients(group, theta)) + self.n * self.sigma * theta

    def objective_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """F(theta) and its gradient in one pass, with the bits of `objective` and `gradient`."""
        theta, values = self._checked(theta), []

        def terms(group: int) -> tuple[Vector, Vector]:
            totals, out = self._zeros(group, 2), self._zeros(group, self.d)
            for block in self.reader.blocks(group):
                kernels.add_values_and_gradients(self.loss.code, *block.rows, block.nodes, theta, totals, out)
            return self._means(group, totals), out

        gradient = np.zeros(self.d)
        for group, (of_nodes, out) in enumerate(self._over_groups(terms)):
            values.append(of_nodes)
            kernels.add_means(out, self._rows(group), gradient)
        return self._with_regulariser(values, theta), gradient + self.n * self.sigma * theta

    def node_gradients(self, theta: Vector) -> Iterator[Vector]:
        """Gradients at theta of the nodes' own terms f_i + sigma/2 ||.||^2, (nodes, d) of one group after the other."""
        theta = self._checked(theta)
        for group, sums in enumerate(self._over_groups(lambda group: self._gradients(group, theta))):
            yield sums / self._rows(group)[:, None] + self.sigma * theta

    def hessian_vector(self, theta: Vector, vector: Vector) -> Vector:
        """Hessian of F at theta times ``vector`` (for the smoothed hinge a generalised Hessian)."""
        theta, vector = self._checked(theta), self._checked(vector)

        def terms(group: int) -> Vector:
            out = self._zeros(group, self.d)
            for block in self.reader.blocks(group):
                kernels.add_hessian_vector(self.loss.code, *block.rows, block.nodes, theta, vector, out)
            return out

        return self._sum(terms) + self.n * self.sigma * vector

    def hessian_diagonal(self, theta: Vector) -> Vector:
        """Diagonal of the Hessian of F at theta."""
        theta = self._checked(theta)

        def terms(group: int) -> Vector:
            out = self._zeros(group, self.d)
            for block in self.reader.blocks(group):
                kernels.add_hessian_diagonal(self.loss.code, *block.rows, block.nodes, theta, out)
            return out

        return self._sum(terms) + self.n * self.sigma

    def row_norms(self, group: int) -> Vector:
        """q_ij = ||a_ij||^2 of the rows of a group of nodes (`BlockReader`)."""
        q, start = np.zeros(self.reader.bounds(group)[-1]), 0
        for rows, _, _ in self.reader.blocks(group):
            kernels.squared_norms(rows.data, rows.indptr, q[start : start + rows.rows])
            start += rows.rows
        return q

    def smoothness(self, node: int) -> Vector:
        """L_ij = c q_ij / m_i of the node's rows, c the curvature bound of the loss; 0 for empty rows."""
        group = int(np.searchsorted(self.reader.first, node, "right")) - 1
        place = node - self.reader.nodes(group)[0]
        own = slice(*self.reader.bounds(group)[place : place + 2])
        return np.asarray(self.loss.curvature * self.row_norms(group)[own] / self.shards.node_rows[node])

    def check_labels(self) -> None:
        """Refuse labels that make no sense for the loss; a pass over them, where the loss minds."""
        least = self.loss.least_label
        for group in range(self.reader.groups) if least is not None else ():
            for block, _, _ in self.reader.blocks(group):
                if block.rows and block.y.min() < least:
                    raise InputError(
                        f"problem.loss={self.loss.name} needs labels of at least {least:g}, but one is "
                        f"{block.y.min():g}; two different labels become -1 and +1 unless data.labels=real"
                    )

    def rows_above(self, theta: Vector, limit: float) -> int:
        """How many margins of ``theta`` are above ``limit``."""

        def of_group(group: int) -> int:
            count = 0
            for block, _, _ in self.reader.blocks(group):
                found = np.empty(block.rows)
                kernels.margins(block.data, block.indices, block.indptr, theta, found)
                count += int(np.count_nonzero(found > limit))
            return count

        return sum(self._over_groups(of_group))

    def _gradients(self, group: int, theta: Vector) -> Vector:
        """(nodes, d) the sums over the rows of each node of a group."""
        out = self._zeros(group, self.d)
        for block in self.reader.blocks(group):
            kernels.add_gradients(self.loss.code, *block.rows, block.nodes, theta, out)
        return out

    def _over_groups(self, function: Callable[[int], T]) -> Iterator[T]:
        return in_order(function, self.reader.groups, self.threads)

    def _rows(self, group: int) -> NDArray[np.int64]:
        """Rows of each node of a group."""
        return np.diff(self.reader.bounds(group))

    def _zeros(self, group: int, width: int) -> Vector:
        first, stop = self.reader.nodes(group)
        return np.zeros((stop - first, width))

    def _means(self, group: int, totals: Vector) -> Vector:
        """The compensated sums of the nodes of a group, divided by their rows."""
        return np.asarray(kernels.compensated_sums(totals[:, None])[:, 0] / self._rows(group))

    def _sum(self, terms: Callable[[int], Vector]) -> Vector:
        """Add up the means of all nodes; ``terms`` gives the sums of a group."""
        total = np.zeros(self.d)
        for group, out in enumerate(self._over_groups(terms)):
            kernels.add_means(out, self._rows(group), total)
        return total

    def _with_regulariser(self, values: list[Vector], theta: Vector) -> float:
        regulariser = 0.5 * self.n * self.sigma * kernels.squared_norm(theta)
        return math.fsum([*np.concatenate(values).tolist(), regulariser])

    def _checked(self, theta: Vector) -> Vector:
        if np.shape(theta) != (self.d,):
            raise InputError(
                f"theta has the shape {np.shape(theta)} but the problem has {self.d} features; "
                f"use a vector of shape ({self.d},)"
            )
        return np.ascontiguousarray(theta, dtype=np.float64)


def _validate(problem: FiniteSum) -> None:
    shards, loss = problem.shards, problem.loss
    where = shards.path if shards.path is not None else "the dataset"
    if not (problem.sigma > 0 and math.isfinite(problem.sigma)):
        raise InputError(f"problem.sigma={problem.sigma!r} is not a positive number; use for instance 1e-3")
    if loss.classification and not shards.classes:
        raise InputError(
            f"problem.loss={loss.name} needs two classes, but the labels of {where} are numbers, or more than two; "
            "use problem.loss=squared, or make them two"
        )
    if problem.memory < 0:
        raise InputError(f"memory={problem.memory} bytes is negative; use 0 to read everything at every pass")
    if problem.threads < 1:
        raise InputError(f"threads={problem.threads} cannot do any work; use threads>=1")
    if np.min(shards.node_rows) < 1:
        node = int(np.argmin(shards.node_rows))
        raise InputError(f"node {node} of {where} has no rows; use fewer nodes or another partition")
