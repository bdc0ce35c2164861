"""The proximal operator of a node's loss, by Newton's method with conjugate gradients, compiled.

It minimises P(y) = F_i(y) + beta / 2 ||y - p||^2, F_i = f_i + sigma / 2 ||.||^2, to the rounding level of its gradient.
The Hessian is (sigma + beta) I plus that of f_i, so a large beta leaves little to do.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.problem.hosted import node_gradient, node_value
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import second

Vector = NDArray[np.float64]

GRADIENT = 1e-14  # of the gradient, relative to its terms: solved
ROUNDING = 1e-11  # the same, where no step helps any more: still solved
CONJUGATE = 1e-3  # by how much the residual of a Newton system has to fall
HALVINGS = 40


@compiled
def _dot(a: Vector, b: Vector) -> float:
    """a^T b, not by BLAS, whose summation order depends on its number of threads."""
    total = 0.0
    for s in range(len(a)):
        total += a[s] * b[s]
    return total


@compiled
def _value(rows: Any, i: int, sigma: float, beta: float, p: Vector, y: Vector) -> float:
    return node_value(rows, i, y) + 0.5 * sigma * _dot(y, y) + 0.5 * beta * _dot(y - p, y - p)


@compiled
def _hessian(rows: Any, i: int, shift: float, y: Vector, vector: Vector) -> Vector:
    """Hessian of P at ``y`` times ``vector``; shift = sigma + beta."""
    out = shift * vector
    for r in range(rows.first[i], rows.first[i + 1]):
        start, stop = rows.start[r], rows.stop[r]
        curvature = second(rows.loss, row_dot(rows.data, rows.indices, start, stop, y), rows.y[r])
        along = row_dot(rows.data, rows.indices, start, stop, vector)
        add_row(rows.data, rows.indices, start, stop, rows.w[i] * curvature * along, out)
    return out


@compiled
def _direction(rows: Any, i: int, shift: float, y: Vector, gradient: Vector) -> Vector:
    """Minus the inverse Hessian times the gradient, by conjugate gradients."""
    x, residual = np.zeros(len(y)), -gradient
    along = residual.copy()
    size = first = _dot(residual, residual)
    for _ in range(2 * len(y) + 10):
        if size <= CONJUGATE * CONJUGATE * first:
            break
        image = _hessian(rows, i, shift, y, along)
        step = size / _dot(along, image)
        x += step * along
        residual -= step * image
        before, size = size, _dot(residual, residual)
        along = residual + size / before * along
    return x


@compiled
def node_prox(rows: Any, i: int, sigma: float, beta: float, p: Vector, steps: int, y: Vector) -> bool:
    """Minimise P from ``y`` on, in place; False: ``steps`` Newton steps were not enough."""
    gradient = np.empty(len(y))
    for taken in range(steps + 1):
        node_gradient(rows, i, sigma, y, gradient)
        pull = beta * (y - p)
        scale = math.sqrt(_dot(gradient, gradient)) + math.sqrt(_dot(pull, pull)) + beta * math.sqrt(_dot(y, y))
        gradient += pull
        size = math.sqrt(_dot(gradient, gradient))
        if size <= GRADIENT * scale:
            return True
        if taken == steps or not math.isfinite(size):
            break
        direction = _direction(rows, i, sigma + beta, y, gradient)
        value, slope, factor = _value(rows, i, sigma, beta, p, y), _dot(gradient, direction), 1.0
        for _ in range(HALVINGS):
            moved = _value(rows, i, sigma, beta, p, y + factor * direction)
            if moved <= value + 1e-4 * factor * slope + 1e-15 * abs(value):
                break
            factor *= 0.5
        y += factor * direction
    return size <= ROUNDING * scale
