"""A table of the slopes of all rows, as SAGA has it (Defazio, Bach, Lacoste-Julien 2014)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import SingleRows
from dtoken.algorithms.contract import Arrays, Facts, Vector
from dtoken.compiled import compiled
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.kernels import add_row
from dtoken.problem.losses import derivative
from dtoken.schedule.clock import Costs


class SlopeTable(SingleRows):
    """A method whose nodes keep the last slope of each row, draw rows uniformly, and know all slopes at the start."""

    draws_samples = True

    def bound(self, c: Arrays, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """Nothing is proved."""
        return None

    def weights(self, c: Arrays, L: Vector) -> Vector | None:
        """All rows alike."""
        return None

    def costs(self, facts: Facts) -> Costs:
        """One gradient a local step."""
        return Costs(np.ones(facts.n, np.int64), np.zeros(facts.n, np.int64))

    def start_gradients(self, facts: Facts) -> NDArray[np.int64]:
        """The table takes all rows once."""
        return facts.rows


@compiled
def fill_table(rows: Any, g: Vector, mean: Vector) -> None:
    """The slopes g of all rows at 0, and of each hosted node the mean of its gradients."""
    for i in range(len(rows.w)):
        for r in range(rows.first[i], rows.first[i + 1]):
            g[r] = derivative(rows.loss, 0.0, rows.y[r])
            add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], rows.w[i] * g[r], mean[i])
