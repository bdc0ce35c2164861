"""Smoothness of the nodes' losses: what the condition numbers of the paper are made of (Hendrikx 2022).

With L_ij = c q_ij / m_i, the paper's kappa_s uses sum_j L_ij and the batch methods use the smoothness of the
whole node, lambda_max((c / m_i) sum_j a_ij a_ij^T), which is at most that sum and usually much smaller.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from dtoken.data.ranges import range_sums
from dtoken.data.rows import RowBlock, concatenate
from dtoken.errors import RunError
from dtoken.problem import kernels
from dtoken.problem.blocks import largest_eigenvalues
from dtoken.problem.cache import cached
from dtoken.problem.finite_sum import FiniteSum, Vector
from dtoken.problem.shards import BlockReader, in_order

DENSE_FEATURES = 16  # up to here the whole matrix takes fewer passes than a Krylov method
TOLERANCE = 1e-12  # of the eigenvalue, relative
SETTLED = 1e-14  # the same, as Lanczos' method has it: the change between two looks
POWER_STEPS = 100_000

# Restarts inside ARPACK draw random vectors; the seed keeps the last bits equal from run to run.
_SEED: dict[str, Any] = {"rng": 0} if "rng" in inspect.signature(eigsh).parameters else {}


class RowFacts(NamedTuple):
    """Per node: how many rows of which length. Statistics of q are over the rows that are not empty."""

    rows: NDArray[np.int64]  # (n,) m_i, with the empty rows
    empty: NDArray[np.int64]  # (n,) rows with q = 0
    nonzeros: NDArray[np.int64]  # (n,) stored values
    q_min: Vector  # (n,) smallest squared norm; 0 if all rows are empty, as for the next two
    q_mean: Vector  # (n,)
    q_max: Vector  # (n,)
    q_sum: Vector  # (n,)


def row_facts(problem: FiniteSum, *, cache: bool = True) -> RowFacts:
    """Facts about the rows of every node, in one pass; computed once per store.

    Examples
    --------
    >>> from dtoken.problem.losses import get_loss
    >>> class One:  # the rows (3, 4) and (0, 0)
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 2, np.array([2]), np.array([2]), True, None
    ...     def blocks(self, first, stop):
    ...         indices, indptr = np.arange(2, dtype=np.int32), np.array([0, 2, 2])
    ...         yield RowBlock(np.array([3.0, 4.0]), indices, indptr, np.array([1.0, -1.0]))
    >>> problem = FiniteSum(One(), get_loss("logistic"), sigma=1.0)
    >>> facts = row_facts(problem)
    >>> facts.empty, facts.q_max
    (array([1]), array([25.]))
    >>> sum_smoothness(problem), max_smoothness(problem), batch_smoothness(problem)
    (array([3.125]), array([3.125]), array([3.125]))
    """

    reader = problem.reader

    def of_group(group: int) -> Vector:
        bounds = reader.bounds(group)
        out = np.empty((5, len(bounds) - 1))
        kernels.node_statistics(problem.row_norms(group), bounds, out)
        return out

    def compute() -> dict[str, Vector]:
        return {"statistics": np.concatenate(list(in_order(of_group, reader.groups, problem.threads)), axis=1)}

    shards = problem.shards
    empty, *statistics = cached(shards.path if cache else None, "rows", compute)["statistics"]
    rows, nonzeros = np.array(shards.node_rows, np.int64), np.array(shards.node_nonzeros, np.int64)
    return RowFacts(rows, empty.astype(np.int64), nonzeros, *statistics)


def sum_smoothness(problem: FiniteSum, facts: RowFacts | None = None) -> Vector:
    """sum_j L_ij of every node, the smoothness in kappa_s; ``facts`` saves a pass (see `row_facts`)."""
    facts = facts or row_facts(problem)
    return problem.loss.curvature * facts.q_sum / facts.rows


def max_smoothness(problem: FiniteSum, facts: RowFacts | None = None) -> Vector:
    """max_j L_ij of every node; ``facts`` saves a pass (see `row_facts`)."""
    facts = facts or row_facts(problem)
    return problem.loss.curvature * facts.q_max / facts.rows


def sum_over_rows(problem: FiniteSum, function: Callable[[Vector], Vector]) -> Vector:
    """The sum of what ``function`` makes of every L_ij that is not 0, for each node; a pass over the data."""
    reader = problem.reader

    def of_group(group: int) -> Vector:
        bounds, q = reader.bounds(group), problem.row_norms(group)
        m, node = np.diff(bounds), np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        used = q > 0
        first = np.concatenate([[0], np.cumsum(np.bincount(node[used], minlength=len(m)))])
        return range_sums(function((problem.loss.curvature * q / m[node])[used]), first)

    return np.concatenate(list(in_order(of_group, reader.groups, problem.threads)))


def batch_smoothness(problem: FiniteSum, *, cache: bool = True) -> Vector:
    """lambda_max((c / m_i) sum_j a_ij a_ij^T) of every node, to about twelve digits (see `row_facts`).

    Of large nodes one at a time; a shard of up to ``problem.memory`` bytes is held while its eigenvalue is computed.
    """

    def compute() -> dict[str, Vector]:
        of_groups = _by_matrices(problem) if problem.d <= DENSE_FEATURES else _by_krylov_spaces(problem)
        scale = problem.loss.curvature / np.array(problem.shards.node_rows, dtype=np.float64)
        return {"L": scale * np.concatenate(list(of_groups))}

    if not cache:
        return compute()["L"]
    name = f"batch_smoothness-{problem.loss.key}"
    return cached(problem.shards.path, name, compute)["L"]


def _by_matrices(problem: FiniteSum) -> Iterator[Vector]:
    """lambda_max(A_i^T A_i) of the nodes of each group, from the matrices themselves."""
    d = problem.d
    reader = BlockReader(problem.shards, 0, d * d)

    def of_group(group: int) -> Vector:
        first, stop = reader.nodes(group)
        gram = np.zeros((stop - first, d, d))
        for rows, nodes, _ in reader.blocks(group):
            kernels.add_gram(rows.data, rows.indices, rows.indptr, nodes, gram)
        return np.asarray(np.linalg.eigvalsh(0.5 * (gram + gram.transpose(0, 2, 1)))[:, -1])

    return in_order(of_group, reader.groups, problem.threads)


def _by_krylov_spaces(problem: FiniteSum) -> Iterator[Vector]:
    """The same where d is larger: in compiled code where many nodes are in a group, else in passes over one node."""

    def of_group(group: int) -> Vector:
        first, stop = problem.reader.nodes(group)
        if stop - first == 1:
            return np.array([largest_eigenvalue(problem, first)])
        rows, out = concatenate([block.rows for block in problem.reader.blocks(group)]), np.empty(stop - first)
        bounds = problem.reader.bounds(group)
        largest_eigenvalues(rows.data, rows.indices, rows.indptr, bounds, SETTLED, np.zeros(problem.d), out)
        return out

    return in_order(of_group, problem.reader.groups, problem.threads)


def largest_eigenvalue(problem: FiniteSum, node: int) -> float:
    """lambda_max(A_i^T A_i), A_i the node's rows."""
    blocks = problem.reader.repeated(node)
    d = problem.d

    def product(vector: Vector) -> Vector:
        return _gram_vector(blocks(), vector)

    start = np.random.default_rng(0).standard_normal(d)
    if not product(start).any():
        return 0.0  # only empty rows; Krylov methods refuse the zero matrix
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    try:
        return float(eigsh(operator, k=1, which="LA", v0=start, tol=TOLERANCE, return_eigenvectors=False, **_SEED)[0])
    except ArpackError:
        return power_iteration(product, start)


def power_iteration(product: Callable[[Vector], Vector], start: Vector) -> float:
    """Largest eigenvalue of a positive semi-definite matrix by the slowest and most robust method.

    Examples
    --------
    >>> power_iteration(lambda x: np.array([3.0, 1.0]) * x, np.ones(2))
    3.0
    """
    vector = start / np.linalg.norm(start)
    for _ in range(POWER_STEPS):
        image = product(vector)
        eigenvalue = float(vector @ image)
        # the residual bounds the distance to an eigenvalue, and its square over the gap the error of this one
        if np.linalg.norm(image - eigenvalue * vector) <= 1e-9 * eigenvalue:
            return eigenvalue
        vector = image / np.linalg.norm(image)
    raise RunError(f"the largest eigenvalue did not converge in {POWER_STEPS} steps of the power iteration")


def _gram_vector(blocks: Iterable[RowBlock], vector: Vector) -> Vector:
    out = np.zeros(len(vector))
    vector = np.ascontiguousarray(vector)
    for block in blocks:
        kernels.add_gram_vector(block.data, block.indices, block.indptr, vector, out)
    return out
