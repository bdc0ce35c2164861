"""How far the start of a method is from the optimum, in the sums that its bound is made of: one pass over the data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dtoken.algorithms.contract import Vector
from dtoken.compiled import compiled
from dtoken.data.rows import RowBlock
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot, squared_norm, squared_norms
from dtoken.problem.losses import derivative, value
from dtoken.problem.shards import in_order
from dtoken.theory.bounds import Distance


class State(NamedTuple):
    """The state of one node, for some of its rows."""

    theta: Vector  # (d,) theta_i, after these rows and those before
    z: Vector  # (rows,) margins
    g: Vector  # (rows,) slopes


def of_margins(
    start: Callable[[HostedRows, Vector], State], sigma_t: float, K: int, problem: FiniteSum, best: Vector
) -> Distance:
    """Of a method whose nodes keep margins and slopes, and whose tokens begin at 0.

    ``start`` makes the state for some rows of one node from its theta after the rows before.
    """

    def of_node(node: int) -> tuple[float, float, Vector]:
        theta, flow, sums = np.zeros(problem.d), np.zeros(problem.d), np.zeros(3)
        for block in problem.reader.blocks(node):
            rows = _hosted(problem, node, block)
            theta, z, g = start(rows, theta)
            _compare(rows, z, g, best, sums, flow)
        return squared_norm(theta - best), squared_norm(flow + sigma_t * (best - theta)), sums

    nodes, flow, sums = zip(*in_order(of_node, problem.n, problem.threads), strict=True)
    return Distance(sum(nodes), K * squared_norm(best), np.array(flow), *np.sum(sums, axis=0).tolist())


def of_zero_slopes(sigma_t: float, K: int, problem: FiniteSum, best: Vector) -> Distance:
    """Of a method that begins at 0 with slopes of 0, the dual's own zero."""

    def of_node(node: int) -> tuple[float, Vector]:
        flow, sums = np.zeros(problem.d), np.zeros(2)
        for block in problem.reader.blocks(node):
            _from_zero(_hosted(problem, node, block), best, sums, flow)
        return squared_norm(flow + sigma_t * best), sums

    flow, sums = zip(*in_order(of_node, problem.n, problem.threads), strict=True)
    behind, slopes = np.sum(sums, axis=0).tolist()
    square = squared_norm(best)
    return Distance(problem.n * square, K * square, np.array(flow), 0.0, behind, slopes)


def _hosted(problem: FiniteSum, node: int, block: RowBlock) -> HostedRows:
    """Some rows of one node, as methods see them."""
    q, loss = np.empty(block.rows), problem.loss
    squared_norms(block.data, block.indptr, q)
    bounds, w = np.array([0, block.rows]), np.array([1.0 / problem.shards.node_rows[node]])
    ends = block.indptr[:-1], block.indptr[1:]
    indices = block.indices.astype(np.uint32)
    return HostedRows(block.data, indices, *ends, block.y, q, bounds, w, problem.d, loss.code, loss.curvature, 1)


@compiled
def _compare(rows: Any, z: Vector, g: Vector, best: Vector, sums: Vector, flow: Vector) -> None:
    """Add D(z, z*), D(z*, z) and (g - g*)^2 / c of every row that is not empty to ``sums``, (g* - g) a to ``flow``."""
    w = rows.w[0]
    for r in range(len(rows.y)):
        if rows.start[r] == rows.stop[r]:
            continue
        t, y = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], best), rows.y[r]
        slope, change = derivative(rows.loss, t, y), value(rows.loss, z[r], y) - value(rows.loss, t, y)
        sums[0] += w * (change - slope * (z[r] - t))
        sums[1] += w * (derivative(rows.loss, z[r], y) * (z[r] - t) - change)
        sums[2] += (g[r] - w * slope) ** 2 / (rows.c * w)
        add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], w * slope - g[r], flow)


@compiled
def _from_zero(rows: Any, best: Vector, sums: Vector, flow: Vector) -> None:
    """Add phi*(0) + phi(z*) and g*^2 / c of every row that is not empty to ``sums``, and g* a to ``flow``.

    phi*(0) = -inf phi is 0 for all losses here.
    """
    w = rows.w[0]
    for r in range(len(rows.y)):
        if rows.start[r] == rows.stop[r]:
            continue
        t, y = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], best), rows.y[r]
        slope = derivative(rows.loss, t, y)
        sums[0] += w * value(rows.loss, t, y)
        sums[1] += w * slope * slope / rows.c
        add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], w * slope, flow)
