"""How far the start of a method is from the optimum, in the sums that its bound is made of: one pass over the data."""

from typing import Any

import numpy as np

from dtoken.algorithms.contract import Arrays, Vector
from dtoken.compiled import compiled
from dtoken.data.rows import RowBlock
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot, squared_norm, squared_norms
from dtoken.problem.losses import derivative, value
from dtoken.problem.shards import in_order
from dtoken.theory.bounds import Distance


def of_start(method: Any, c: Arrays, problem: FiniteSum, best: Vector) -> Distance:
    """Of a method with margins whose tokens begin at 0 (`starts.Starting`)."""

    def of_node(node: int) -> tuple[float, float, Vector]:
        theta, flow, sums, unit = np.zeros(problem.d), np.zeros(problem.d), np.zeros(3), 1.0
        for block in problem.reader.blocks(node):
            rows = _hosted(problem, node, block)
            nodes, _ = method.states(c, rows)
            state = method.dual(c, nodes)
            state.theta[0] = theta  # after the rows before
            method.begin(c, rows, nodes)
            theta, unit = state.theta[0].copy(), state.unit
            _compare(rows, state.z.copy(), state.g.copy(), best, sums, flow)
        theta /= unit
        return squared_norm(theta - best), squared_norm(flow + c.sigma_t * (best - theta)), sums

    nodes, flow, sums = zip(*in_order(of_node, problem.n, problem.threads), strict=True)
    tokens = method.tokens * squared_norm(best)
    return Distance(sum(nodes), tokens, np.array(flow), *np.sum(sums, axis=0).tolist())


def _hosted(problem: FiniteSum, node: int, block: RowBlock) -> HostedRows:
    """Some rows of one node, as methods see them: copies, for code that is compiled for arrays that may change."""
    q, loss = np.empty(block.rows), problem.loss
    squared_norms(block.data, block.indptr, q)
    bounds, w = np.array([0, block.rows]), np.array([1.0 / problem.shards.node_rows[node]])
    data, y = block.data.copy(), block.y.copy()
    ends = block.indptr[:-1].copy(), block.indptr[1:].copy()
    indices = block.indices.astype(np.uint32)
    return HostedRows(data, indices, *ends, y, q, bounds, w, problem.d, loss.code, loss.curvature, 1)


@compiled
def _compare(rows: Any, z: Vector, g: Vector, best: Vector, sums: Vector, flow: Vector) -> None:
    """Add D(z, z*), D(z*, z) and (g - g*)^2 / c of every row that is not empty to ``sums``, (g* - g) a to ``flow``.

    Slopes of 0 need not be those of the margins: D(z*, z) is phi*(g) + phi(z*) - g z*, and phi*(0) is 0 for all losses.
    """
    w = rows.w[0]
    for r in range(len(rows.y)):
        if rows.start[r] == rows.stop[r]:
            continue
        t, y = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], best), rows.y[r]
        slope, change = derivative(rows.loss, t, y), value(rows.loss, z[r], y) - value(rows.loss, t, y)
        sums[0] += w * (change - slope * (z[r] - t))
        if g[r] == 0.0:
            sums[1] += w * value(rows.loss, t, y)
        else:
            sums[1] += g[r] * (z[r] - t) - w * change
        sums[2] += (g[r] - w * slope) ** 2 / (rows.c * w)
        add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], w * slope - g[r], flow)
