"""The regularised finite sum over the nodes' shards (Hendrikx 2022, "Setting").

    F(theta) = sum_i [ (1/m_i) sum_j phi_ij(a_ij^T theta) + sigma/2 ||theta||^2 ]

with m_i the node's own number of rows. Empty rows count in m_i and add their constant phi(0).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.problem import kernels
from dtoken.problem.losses import Loss
from dtoken.problem.shards import BlockReader, Shards, in_order

Vector = NDArray[np.float64]


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
        Nodes evaluated at the same time; each needs a vector of d numbers.

    Examples
    --------
    >>> from dtoken.data.rows import RowBlock
    >>> from dtoken.problem.losses import get_loss
    >>> class One:  # one node with the single row a = (2), y = 3
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, (1,), (1,), False, None
    ...     def blocks(self, node):
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

        def node_value(node: int) -> float:
            total = np.zeros(2)
            for block in self.reader.blocks(node):
                kernels.add_values(self.loss.code, *block, theta, total)
            return kernels.compensated(total) / self.shards.node_rows[node]

        return self._with_regulariser(list(in_order(node_value, self.n, self.threads)), theta)

    def gradient(self, theta: Vector) -> Vector:
        """Gradient of F at theta."""
        theta = self._checked(theta)
        return self._sum(lambda node: self._node_gradient(node, theta)) + self.n * self.sigma * theta

    def objective_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """F(theta) and its gradient in one pass, with the bits of `objective` and `gradient`."""
        theta = self._checked(theta)

        def node_terms(node: int) -> tuple[float, Vector]:
            total, out = np.zeros(2), np.zeros(self.d)
            for block in self.reader.blocks(node):
                kernels.add_values_and_gradients(self.loss.code, *block, theta, total, out)
            m = self.shards.node_rows[node]
            return kernels.compensated(total) / m, np.divide(out, m, out=out)

        values: list[float] = []
        gradient = np.zeros(self.d)
        for node_value, node_gradient in in_order(node_terms, self.n, self.threads):
            values.append(node_value)
            gradient += node_gradient
        return self._with_regulariser(values, theta), gradient + self.n * self.sigma * theta

    def node_gradient(self, node: int, theta: Vector) -> Vector:
        """Gradient at theta of a node's own term f_i + sigma/2 ||.||^2; they sum to `gradient`."""
        theta = self._checked(theta)
        return self._node_gradient(node, theta) + self.sigma * theta

    def hessian_vector(self, theta: Vector, vector: Vector) -> Vector:
        """Hessian of F at theta times ``vector`` (for the smoothed hinge a generalised Hessian)."""
        theta, vector = self._checked(theta), self._checked(vector)

        def node_product(node: int) -> Vector:
            out = np.zeros(self.d)
            for block in self.reader.blocks(node):
                kernels.add_hessian_vector(self.loss.code, *block, theta, vector, out)
            return np.divide(out, self.shards.node_rows[node], out=out)

        return self._sum(node_product) + self.n * self.sigma * vector

    def hessian_diagonal(self, theta: Vector) -> Vector:
        """Diagonal of the Hessian of F at theta."""
        theta = self._checked(theta)

        def node_diagonal(node: int) -> Vector:
            out = np.zeros(self.d)
            for block in self.reader.blocks(node):
                kernels.add_hessian_diagonal(self.loss.code, *block, theta, out)
            return np.divide(out, self.shards.node_rows[node], out=out)

        return self._sum(node_diagonal) + self.n * self.sigma

    def row_norms(self, node: int) -> Vector:
        """q_ij = ||a_ij||^2 of the node's rows."""
        q = np.zeros(self.shards.node_rows[node])
        start = 0
        for block in self.reader.blocks(node):
            kernels.squared_norms(block.data, block.indptr, q[start : start + block.rows])
            start += block.rows
        return q

    def smoothness(self, node: int) -> Vector:
        """L_ij = c q_ij / m_i of the node's rows, c the curvature bound of the loss; 0 for empty rows."""
        return self.loss.curvature * self.row_norms(node) / self.shards.node_rows[node]

    def check_labels(self) -> None:
        """Refuse labels that make no sense for the loss; a pass over them, where the loss minds."""
        least = self.loss.least_label
        for node in range(self.n) if least is not None else ():
            for block in self.reader.blocks(node):
                if block.rows and block.y.min() < least:
                    raise InputError(
                        f"problem.loss={self.loss.name} needs labels of at least {least:g}, but one is "
                        f"{block.y.min():g}; two different labels become -1 and +1 unless data.labels=real"
                    )

    def rows_above(self, theta: Vector, limit: float) -> int:
        """How many margins of ``theta`` are above ``limit``."""

        def of_node(node: int) -> int:
            count = 0
            for block in self.reader.blocks(node):
                found = np.empty(block.rows)
                kernels.margins(block.data, block.indices, block.indptr, theta, found)
                count += int(np.count_nonzero(found > limit))
            return count

        return sum(in_order(of_node, self.n, self.threads))

    def _node_gradient(self, node: int, theta: Vector) -> Vector:
        out = np.zeros(self.d)
        for block in self.reader.blocks(node):
            kernels.add_gradients(self.loss.code, *block, theta, out)
        return np.divide(out, self.shards.node_rows[node], out=out)

    def _sum(self, node_term: Callable[[int], Vector]) -> Vector:
        total = np.zeros(self.d)
        for term in in_order(node_term, self.n, self.threads):
            total += term
        return total

    def _with_regulariser(self, values: list[float], theta: Vector) -> float:
        return math.fsum([*values, 0.5 * self.n * self.sigma * kernels.squared_norm(theta)])

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
    for node, rows in enumerate(shards.node_rows):
        if rows < 1:
            raise InputError(f"node {node} of {where} has no rows; use fewer nodes or another partition")
