"""Compiled loops over the rows of one CSR block: margins, gradients, Hessian products, row norms.

A block may hold rows of several nodes, and ``nodes`` says of which. Each kernel adds to what the caller passes for that
node, row by row, so that a node gives the same bits in one block or in many, alone or beside others. Losses are
unweighted here (see `losses`); the caller divides by the node's number of rows. Loops over the entries of a row run
over slices: they count from zero, so that compiled code need not ask at each entry whether its index is negative, which
costs a quarter of the time.
"""

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.ranges import pairwise_sum
from dtoken.problem.losses import derivative, second, value

Floats = NDArray[np.float64]
Integers = NDArray[np.int32] | NDArray[np.uint32]
Offsets = NDArray[np.int64]
Places = NDArray[np.int32]

MOST_PARTS = 48  # doubles whose digits do not overlap: their exponents span 2,098 digits, 53 each


@compiled
def row_dot(data: Floats, indices: Integers, start: int, stop: int, x: Floats) -> float:
    """a^T x of the row stored in [start, stop), summed in storage order."""
    total = 0.0
    values, places = data[start:stop], indices[start:stop]
    for k in range(len(values)):
        total += values[k] * x[places[k]]
    return total


@compiled
def add_row(data: Floats, indices: Integers, start: int, stop: int, factor: float, out: Floats) -> None:
    """Add factor * a to ``out``."""
    values, places = data[start:stop], indices[start:stop]
    for k in range(len(values)):
        out[places[k]] += factor * values[k]


@compiled
def row_square(data: Floats, start: int, stop: int) -> float:
    """||a||^2 of the row stored in [start, stop)."""
    total = 0.0
    for entry in data[start:stop]:
        total += entry * entry
    return total


@compiled
def add_compensated(total: Floats, term: float) -> None:
    """Add ``term`` to the pair total = (sum, lost digits): Neumaier's summation."""
    before = total[0]
    after = before + term
    if abs(before) >= abs(term):
        total[1] += (before - after) + term
    else:
        total[1] += (term - after) + before
    total[0] = after


@compiled
def compensated(total: Floats) -> float:
    """The sum that the pair stands for; lost digits of an infinite sum are nan."""
    result: float = total[0] + total[1] if np.isfinite(total[0]) else total[0]
    return result


@compiled
def add_values(
    code: int, data: Floats, indices: Integers, indptr: Offsets, y: Floats, nodes: Places, theta: Floats, totals: Floats
) -> None:
    """Add phi_j(a_j^T theta) of every row to the compensated pair of its node, ``totals`` (nodes, 2)."""
    for j in range(len(y)):
        t = row_dot(data, indices, indptr[j], indptr[j + 1], theta)
        add_compensated(totals[nodes[j]], value(code, t, y[j]))


@compiled
def add_gradients(
    code: int, data: Floats, indices: Integers, indptr: Offsets, y: Floats, nodes: Places, theta: Floats, out: Floats
) -> None:
    """Add phi_j'(a_j^T theta) a_j of every row to the vector of its node, ``out`` (nodes, d)."""
    for j in range(len(y)):
        t = row_dot(data, indices, indptr[j], indptr[j + 1], theta)
        add_row(data, indices, indptr[j], indptr[j + 1], derivative(code, t, y[j]), out[nodes[j]])


@compiled
def add_values_and_gradients(
    code: int,
    data: Floats,
    indices: Integers,
    indptr: Offsets,
    y: Floats,
    nodes: Places,
    theta: Floats,
    totals: Floats,
    out: Floats,
) -> None:
    """`add_values` and `add_gradients` in one pass, with the same bits."""
    for j in range(len(y)):
        t = row_dot(data, indices, indptr[j], indptr[j + 1], theta)
        add_compensated(totals[nodes[j]], value(code, t, y[j]))
        add_row(data, indices, indptr[j], indptr[j + 1], derivative(code, t, y[j]), out[nodes[j]])


@compiled
def add_hessian_vector(
    code: int,
    data: Floats,
    indices: Integers,
    indptr: Offsets,
    y: Floats,
    nodes: Places,
    theta: Floats,
    vector: Floats,
    out: Floats,
) -> None:
    """Add phi_j''(a_j^T theta) (a_j^T vector) a_j of every row to the vector of its node.

    The margins are computed again rather than kept: the row is in cache then; no array grows with the rows.
    """
    for j in range(len(y)):
        curvature = second(code, row_dot(data, indices, indptr[j], indptr[j + 1], theta), y[j])
        if curvature != 0.0:
            factor = curvature * row_dot(data, indices, indptr[j], indptr[j + 1], vector)
            add_row(data, indices, indptr[j], indptr[j + 1], factor, out[nodes[j]])


@compiled
def add_hessian_diagonal(
    code: int, data: Floats, indices: Integers, indptr: Offsets, y: Floats, nodes: Places, theta: Floats, out: Floats
) -> None:
    """Add the diagonal of phi_j''(a_j^T theta) a_j a_j^T of every row to the vector of its node."""
    for j in range(len(y)):
        curvature, own = second(code, row_dot(data, indices, indptr[j], indptr[j + 1], theta), y[j]), out[nodes[j]]
        for k in range(indptr[j], indptr[j + 1]):
            own[indices[k]] += curvature * data[k] * data[k]


@compiled
def add_means(terms: Floats, rows: Offsets, total: Floats) -> None:
    """Add the vector of every node, divided by its number of rows, to ``total``, node after node."""
    for i in range(len(terms)):
        for s in range(len(total)):
            total[s] += terms[i, s] / rows[i]


@compiled
def add_gram(data: Floats, indices: Integers, indptr: Offsets, nodes: Places, out: Floats) -> None:
    """Add a_j a_j^T of every row to the matrix of its node, ``out`` (nodes, d, d)."""
    for j in range(len(nodes)):
        own = out[nodes[j]]
        for k in range(indptr[j], indptr[j + 1]):
            add_row(data, indices, indptr[j], indptr[j + 1], data[k], own[indices[k]])


@compiled
def add_gram_vector(data: Floats, indices: Integers, indptr: Offsets, vector: Floats, out: Floats) -> None:
    """Add A^T A vector of the block A to ``out``."""
    for j in range(len(indptr) - 1):
        factor = row_dot(data, indices, indptr[j], indptr[j + 1], vector)
        add_row(data, indices, indptr[j], indptr[j + 1], factor, out)


@compiled
def squared_norm(x: Floats) -> float:
    """||x||^2, not by BLAS, whose summation order depends on its number of threads."""
    total = np.zeros(2)
    for k in range(len(x)):
        add_compensated(total, x[k] * x[k])
    return compensated(total)


@compiled
def squared_distances(points: Floats, centre: Floats) -> Floats:
    """||x - centre||^2 of every row of ``points``, with the bits of `squared_norm`."""
    out = np.empty(len(points))
    total = np.empty(2)
    for i in range(len(points)):
        total[:] = 0.0
        for k in range(len(centre)):
            difference = points[i, k] - centre[k]
            add_compensated(total, difference * difference)
        out[i] = compensated(total)
    return out


@compiled
def compensated_sums(totals: Floats) -> Floats:
    """The sums that pairs (n, K, 2) stand for."""
    out = np.empty(totals.shape[:2])
    for i in range(len(totals)):
        for k in range(totals.shape[1]):
            out[i, k] = compensated(totals[i, k])
    return out


@compiled
def squared_norms(data: Floats, indptr: Offsets, out: Floats) -> None:
    """Write q_j = ||a_j||^2 of every row to ``out``."""
    for j in range(len(out)):
        out[j] = row_square(data, indptr[j], indptr[j + 1])


@compiled
def margins(data: Floats, indices: Integers, indptr: Offsets, theta: Floats, out: Floats) -> None:
    """Write a_j^T theta of every row to ``out``."""
    for j in range(len(out)):
        out[j] = row_dot(data, indices, indptr[j], indptr[j + 1], theta)


@compiled
def add_slopes(
    code: int,
    data: Floats,
    indices: Integers,
    indptr: Offsets,
    y: Floats,
    nodes: Places,
    z: Floats,
    totals: Floats,
    out: Floats,
) -> None:
    """Add g_j a_j, g_j = phi_j'(z_j), and phi_j*(g_j) = z_j g_j - phi_j(z_j) of every row to ``out`` and ``totals``."""
    for j in range(len(y)):
        slope = derivative(code, z[j], y[j])
        add_row(data, indices, indptr[j], indptr[j + 1], slope, out[nodes[j]])
        add_compensated(totals[nodes[j]], z[j] * slope - value(code, z[j], y[j]))


@compiled
def exact_parts(values: Floats) -> Floats:
    """For each column some numbers that have its sum, without any rounding (Shewchuk 1997); zeros fill them up."""
    parts = np.zeros((MOST_PARTS, values.shape[1]))
    used = np.zeros(values.shape[1], np.int64)
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            x, kept = values[i, k], 0
            for part in range(used[k]):
                y = parts[part, k]
                if abs(x) < abs(y):
                    x, y = y, x
                high = x + y
                low = y - (high - x)
                if low != 0.0:
                    parts[kept, k] = low
                    kept += 1
                x = high
            parts[kept, k] = x
            for part in range(kept + 1, used[k]):
                parts[part, k] = 0.0
            used[k] = kept + 1
    return parts


@compiled
def node_statistics(q: Floats, first: Offsets, out: Floats) -> None:
    """Write of the rows of every node: how many are 0; the least, mean, largest and sum of the others; 0 if none is.

    ``first`` (nodes + 1,) are the bounds of the nodes, ``out`` is (5, nodes).
    """
    used = np.empty(len(q))
    for i in range(len(first) - 1):
        count = 0
        for r in range(first[i], first[i + 1]):
            if q[r] > 0:
                used[count] = q[r]
                count += 1
        out[:, i] = 0.0
        out[0, i] = first[i + 1] - first[i] - count
        if count:
            out[1, i], out[3, i] = used[:count].min(), used[:count].max()
            out[4, i] = pairwise_sum(used, 0, count)
            out[2, i] = out[4, i] / count
