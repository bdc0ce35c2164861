"""How far the start of a method is from the optimum, in the sums that its bound is made of: one pass over the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Vector
from dtoken.compiled import compiled
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot, squared_distances, squared_norm, squared_norms
from dtoken.problem.losses import derivative, value
from dtoken.problem.shards import NodeBlock, in_order
from dtoken.theory.bounds import Distance


def of_start(method: Any, c: Arrays, problem: FiniteSum, best: Vector) -> Distance:
    """Of a method with margins whose tokens begin at 0 (`starts.Starting`)."""

    reader = problem.reader

    def of_group(group: int) -> tuple[Vector, Vector, Vector]:
        m = np.diff(reader.bounds(group))
        theta, flow, sums, unit = (
            np.zeros((len(m), problem.d)),
            np.zeros((len(m), problem.d)),
            np.zeros((len(m), 3)),
            1.0,
        )
        for block in reader.blocks(group):
            own = slice(int(block.nodes[0]), int(block.nodes[-1]) + 1)
            rows = _hosted(problem, block, m[own])
            nodes, _ = method.states(c, rows)
            state = method.dual(c, nodes)
            state.theta[...] = theta[own]  # after the rows before
            method.begin(c, rows, nodes)
            theta[own], unit = state.theta, state.unit
            _compare(rows, state.z.copy(), state.g.copy(), best, sums[own], flow[own])
        theta /= unit
        apart = squared_distances(theta, best)
        return apart, squared_distances(flow + c.sigma_t * (best - theta), np.zeros(problem.d)), sums

    found = in_order(of_group, reader.groups, problem.threads)
    nodes, flow, sums = (np.concatenate(parts) for parts in zip(*found, strict=True))
    tokens = method.tokens * squared_norm(best)
    return Distance(sum(nodes.tolist()), tokens, flow, *np.sum(sums, axis=0).tolist())


def _hosted(problem: FiniteSum, block: NodeBlock, m: NDArray[np.int64]) -> HostedRows:
    """Some rows of nodes with m rows each, as methods see them: copies, for code compiled for arrays that change."""
    (data, indices, indptr, y), nodes, _ = block
    q, loss = np.empty(len(y)), problem.loss
    squared_norms(data, indptr, q)
    bounds, w = np.searchsorted(nodes - nodes[0], np.arange(len(m) + 1)), 1.0 / m
    ends = indptr[:-1].copy(), indptr[1:].copy()
    return HostedRows(
        data.copy(), indices.astype(np.uint32), *ends, y.copy(), q, bounds, w, problem.d, loss.code, loss.curvature, 1
    )


@compiled
def _compare(rows: Any, z: Vector, g: Vector, best: Vector, sums: Vector, flow: Vector) -> None:
    """Add D(z, z*), D(z*, z) and (g - g*)^2 / c of every row that is not empty to ``sums``, (g* - g) a to ``flow``.

    Both have a row for each node.

    Slopes of 0 need not be those of the margins: D(z*, z) is phi*(g) + phi(z*) - g z*, and phi*(0) is 0 for all losses.
    """
    for i in range(len(rows.w)):
        _compare_node(rows, i, z, g, best, sums[i], flow[i])


@compiled
def _compare_node(rows: Any, i: int, z: Vector, g: Vector, best: Vector, sums: Vector, flow: Vector) -> None:
    w = rows.w[i]
    for r in range(rows.first[i], rows.first[i + 1]):
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
