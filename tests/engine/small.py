"""Small problems in memory, and all that is needed to run a method on one without optimum, files or command line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Facts, Method
from dtoken.data.partition import Partition
from dtoken.data.rows import RowBlock
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import gather_facts
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.events import Events, concatenate
from dtoken.schedule.stream import start_at

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InMemory:
    """Dense node matrices as shards."""

    A: list[Floats]  # (m_i, d) of each node
    y: list[Floats]  # (m_i,) of each node
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
        return np.array([len(y) for y in self.y])

    @property
    def node_nonzeros(self) -> NDArray[np.int64]:
        return np.array([int(np.count_nonzero(A)) for A in self.A])

    def blocks(self, first: int, stop: int | None = None) -> Iterator[RowBlock]:
        for node in range(first, first + 1 if stop is None else stop):
            yield from self.blocks_of(node)

    def blocks_of(self, node: int) -> Iterator[RowBlock]:
        for start in range(0, len(self.y[node]), 5):
            part = sp.csr_array(self.A[node][start : start + 5])
            indices, indptr = part.indices.astype(np.int32), part.indptr.astype(np.int64)
            yield RowBlock(part.data, indices, indptr, self.y[node][start : start + 5])


def small_shards(
    n: int = 8, m: int = 6, d: int = 5, *, seed: int = 0, classes: bool = True, unequal: bool = True, empty: bool = True
) -> InMemory:
    """Sparse rows of very different norms with noisy linear labels; about n * m rows, every seventh of them empty."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((n * m, d)) * (rng.random((n * m, d)) < 0.7) * rng.uniform(0.3, 2.0, (n * m, 1))
    if empty:
        matrix[3::7] = 0.0
    margins = matrix @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n * m)
    labels = np.where(margins > 0, 1.0, -1.0) if classes else margins
    sizes = Partition(n, sizes="unequal" if unequal else "equal", seed=seed, alpha=3.0).node_sizes(n * m)
    ends = np.cumsum(sizes)[:-1]
    return InMemory(np.split(matrix, ends), np.split(labels, ends), classes)


@dataclass(frozen=True)
class Setup:
    """A method on a problem and a graph: what an engine and a schedule are made from."""

    shards: Any
    problem: FiniteSum
    method: Method
    facts: Facts
    constants: Arrays
    schedule: Any  # Drawn for token methods

    def engine(self, threads: int = 1) -> LocalEngine:
        return LocalEngine(self.method, self.constants, self.shards, self.problem.loss, threads)

    def events(self, count: int) -> Events:
        """The first events."""
        parts: list[Events] = []
        for events, _ in self.schedule.segments(start_at(self.method.token_start(self.shards.n))):
            parts.append(events)
            if sum(part.size for part in parts) >= count:
                return concatenate(parts).between(0, count)
        raise AssertionError("the schedule has an end")


def setup(
    shards: Any,
    method: Method,
    *,
    loss: str = "logistic",
    sigma: float = 0.05,
    graph: str = "complete",
    kind: str = "simple",
    seed: int = 0,
    **params: Any,
) -> Setup:
    problem = FiniteSum(shards, get_loss(loss), sigma)
    facts = gather_facts(problem, walk(build(graph, shards.n, **params), kind), method.blocks)
    constants = method.constants(facts)
    return Setup(shards, problem, method, facts, constants, method.schedule(constants, facts, seed))


def solve(shards: Any, loss: str, sigma: float) -> Floats:
    """The optimum by Newton's method on dense matrices: another way than dtoken's own."""
    theta = np.zeros(shards.d)
    for _ in range(100):
        gradient, hessian = len(shards.A) * sigma * theta, len(shards.A) * sigma * np.eye(shards.d)
        for A, y in zip(shards.A, shards.y, strict=True):
            t = A @ theta
            if loss == "squared":
                slope, curvature = t - y, np.ones(len(y))
            else:
                p = 1 / (1 + np.exp(y * t))
                slope, curvature = -y * p, p * (1 - p)
            gradient = gradient + A.T @ slope / len(y)
            hessian = hessian + A.T @ (curvature[:, None] * A) / len(y)
        theta = theta - np.linalg.solve(hessian, gradient)
    return theta
