"""The rows of the nodes that one process hosts, as flat arrays that compiled steps index."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoken.compiled import compiled
from dtoken.data.ranges import joined
from dtoken.data.rows import RowBlock, select
from dtoken.problem.blocks import SINGLE_ROWS, Blocks, block_norms
from dtoken.problem.kernels import add_compensated, add_row, compensated, row_dot, squared_norms
from dtoken.problem.losses import Loss, derivative, value
from dtoken.problem.shards import GROUP, Shards


class HostedRows(NamedTuple):
    """Rows of all hosted nodes, one below the other; node i owns rows first[i] to before first[i + 1].

    Attributes
    ----------
    data
        (nnz,) values.
    indices
        (nnz,) their features; unsigned, so that compiled code needs no check of the sign.
    start, stop
        (rows,) row r is data[start[r]:stop[r]], if it is in memory. ``stop[r]`` need not be ``start[r + 1]``: rows lie
        in any order where memory is short.
    y
        (rows,) labels.
    q
        (rows,) squared norms ``||a||^2``; of a block of rows its q_ij at its first row, then 0.
    first
        (hosted + 1,) first row of each node.
    w
        (hosted,) weight 1 / m_i of each row of the node.
    d
        Number of features.
    loss
        Code of the loss.
    c
        Curvature bound of the loss: phi'' <= c.
    block
        Rows of a sample; the last one of a node may have fewer.
    """

    data: NDArray[np.float64]
    indices: NDArray[np.uint32]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    y: NDArray[np.float64]
    q: NDArray[np.float64]
    first: NDArray[np.int64]
    w: NDArray[np.float64]
    d: int
    loss: int
    c: float
    block: int


def host(shards: Shards, nodes: ArrayLike, loss: Loss, blocks: Blocks = SINGLE_ROWS) -> HostedRows:
    """Read the shards of ``nodes``, in increasing order, into one set of arrays."""
    numbers = np.asarray(nodes, np.int64)
    rows, entries = np.asarray(shards.node_rows)[numbers], np.asarray(shards.node_nonzeros)[numbers]
    first = np.concatenate([[0], np.cumsum(rows)])
    data, indices = np.empty(entries.sum()), np.empty(entries.sum(), np.uint32)
    start, y, q = np.zeros(first[-1] + 1, np.int64), np.empty(first[-1]), np.empty(first[-1])
    row = entry = 0
    for block in (block for _, found in hosted_groups(shards, numbers) for block in found):
        size, stop = len(block.data), row + block.rows
        data[entry : entry + size] = block.data
        indices[entry : entry + size] = block.indices
        start[row + 1 : stop + 1] = block.indptr[1:] + entry
        y[row:stop] = block.y
        squared_norms(block.data, block.indptr, q[row:stop])
        row, entry = stop, entry + size
    if blocks.rows > 1:
        place_block_norms(shards, numbers, blocks, first, q)
    w, code, c = 1.0 / rows, loss.code, loss.curvature
    return HostedRows(data, indices, start[:-1], start[1:], y, q, first, w, shards.d, code, c, blocks.rows)


def hosted_groups(shards: Shards, nodes: NDArray[np.int64]) -> Iterator[tuple[int, Iterator[RowBlock]]]:
    """The rows of some nodes, in increasing order: how many nodes, and their blocks, of bounded size, again and again.

    Nodes that are near each other are read at once, with what lies between them.
    """
    near = np.append(joined(np.maximum(shards.node_nonzeros, 1), GROUP), shards.n)
    bounds = np.searchsorted(nodes, near)
    for group in np.flatnonzero(np.diff(bounds)).tolist():
        own = nodes[bounds[group] : bounds[group + 1]]
        yield len(own), _blocks_of(shards, own)


def _blocks_of(shards: Shards, nodes: NDArray[np.int64]) -> Iterator[RowBlock]:
    low, high, row = int(nodes[0]), int(nodes[-1]) + 1, 0
    hosted = np.zeros(high - low, np.bool_)
    hosted[nodes - low] = True
    wanted = np.repeat(hosted, np.asarray(shards.node_rows)[low:high])
    for block in shards.blocks(low, high):
        mine = wanted[row : row + block.rows]
        row += block.rows
        if mine.all():
            yield block
        elif mine.any():
            yield select(block, np.flatnonzero(mine))


def place_block_norms(
    shards: Shards, nodes: NDArray[np.int64], blocks: Blocks, first: NDArray[np.int64], q: NDArray[np.float64]
) -> None:
    """Write the q_ij of the blocks of some nodes to their first rows, and 0 to the others."""
    of_all, counts = block_norms(shards, blocks), blocks.counts(shards.node_rows)
    hosted = np.zeros(shards.n, np.bool_)
    hosted[nodes] = True
    q[:] = 0.0
    q[blocks.first_rows(first)] = of_all[np.repeat(hosted, counts)]


def sizes_only(hosted: int, rows: int, features: int) -> HostedRows:
    """Rows of the right number, which take no memory."""
    floats, integers = np.zeros(1), np.zeros(1, np.int64)
    per_row, places = np.broadcast_to(floats, rows), np.broadcast_to(integers, rows)
    first, w = np.broadcast_to(integers, hosted + 1), np.broadcast_to(floats, hosted)
    none, no_index = np.empty(0), np.empty(0, np.uint32)
    return HostedRows(none, no_index, places, places, per_row, per_row, first, w, features, 0, 0.0, 1)


@compiled
def add_values(rows: HostedRows, first: int, stop: int, theta: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add the losses of the rows from ``first`` to before ``stop`` to the compensated pair ``total``."""
    for r in range(first, stop):
        margin = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], theta)
        add_compensated(total, value(rows.loss, margin, rows.y[r]))


@compiled
def add_node_values(
    rows: HostedRows,
    first: int,
    stop: int,
    models: NDArray[np.float64],
    low: int,
    high: int,
    totals: NDArray[np.float64],
) -> None:
    """Add the losses of the rows from ``first`` to before ``stop`` to compensated pairs of their nodes, (n, K, 2).

    At the models from ``low`` to before ``high``.
    """
    i = np.searchsorted(rows.first, first, side="right") - 1
    while i < len(rows.w) and rows.first[i] < stop:
        for k in range(low, high):
            add_values(rows, max(first, rows.first[i]), min(stop, rows.first[i + 1]), models[k], totals[i, k])
        i += 1


@compiled
def row_excess(
    rows: HostedRows,
    nodes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    models: NDArray[np.float64],
    theta_star: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write the loss of each row, weighted as in f_i, at each model, less that at theta*."""
    for s in range(len(numbers)):
        r, w = numbers[s], rows.w[nodes[s]]
        start, stop = rows.start[r], rows.stop[r]
        best = value(rows.loss, row_dot(rows.data, rows.indices, start, stop, theta_star), rows.y[r])
        for k in range(len(models)):
            margin = row_dot(rows.data, rows.indices, start, stop, models[k])
            out[s, k] = w * (value(rows.loss, margin, rows.y[r]) - best)


@compiled
def node_value(rows: HostedRows, i: int, theta: NDArray[np.float64]) -> float:
    """f_i(theta), without regulariser."""
    total = np.zeros(2)
    add_values(rows, rows.first[i], rows.first[i + 1], theta, total)
    return float(rows.w[i] * compensated(total))


@compiled
def node_gradient(rows: HostedRows, i: int, sigma: float, theta: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write the gradient of F_i = f_i + sigma / 2 ||.||^2 at ``theta`` to ``out``."""
    for s in range(len(theta)):
        out[s] = sigma * theta[s]
    add_gradient(rows, i, rows.first[i], rows.first[i + 1], theta, out)


@compiled
def add_gradient(
    rows: HostedRows, i: int, first: int, stop: int, theta: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Add the share that the rows of node i from ``first`` to before ``stop`` have in the gradient of f_i."""
    for r in range(first, stop):
        start, end = rows.start[r], rows.stop[r]
        slope = derivative(rows.loss, row_dot(rows.data, rows.indices, start, end, theta), rows.y[r])
        add_row(rows.data, rows.indices, start, end, rows.w[i] * slope, out)
