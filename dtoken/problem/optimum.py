"""The reference optimum theta*, against which every run is measured.

L-BFGS-B brings theta near the optimum; Newton steps, whose systems are solved by preconditioned conjugate
gradients on streamed Hessian products, then reach the last digits that float64 allows. Nothing larger than
some vectors of d numbers is kept, whatever the size of the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from dtoken.problem.cache import cached
from dtoken.problem.finite_sum import FiniteSum, Vector
from dtoken.problem.smoothness import sum_smoothness

TOLERANCE = 1e-12  # of the gradient norm, relative to the one at 0
PRECISION = 1e-12  # of F*, relative to F
ROUGH = 1e-10  # where F* is not known so well, a user should be told
STUCK = 1e-8  # a relative gradient norm above this is not due to rounding errors
NEWTON_STEPS = 50
HALVINGS = 30
METHOD = "L-BFGS-B, then Newton-CG"


@dataclass(frozen=True)
class Optimum:
    """The minimiser of a problem, and how well it is known."""

    theta: Vector  # (d,)
    objective: float  # F(theta)
    gradient_norm: float  # ||grad F(theta)||
    relative_gradient_norm: float  # gradient_norm / ||grad F(0)||, or gradient_norm if 0 is the optimum
    error: float  # F(theta) - F* is at most this, by strong convexity: ||grad F(theta)||^2 / (2 n sigma)
    iterations: int  # of both methods together
    method: str = METHOD


def optimum(problem: FiniteSum, *, cache: bool = True) -> Optimum:
    """Minimise F until F - F* is certainly below 1e-12 F and the gradient 1e-12 of the one at 0; once per store.

    Where float64 ends earlier, so does this; ``error`` tells.

    Examples
    --------
    >>> from dtoken.data.rows import RowBlock
    >>> from dtoken.problem.losses import get_loss
    >>> class One:  # (2 theta - 3)^2 / 2 + theta^2 / 4
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, np.ones(1, int), np.ones(1, int), False, None
    ...     def blocks(self, first, stop):
    ...         yield RowBlock(np.array([2.0]), np.zeros(1, np.int32), np.array([0, 1]), np.array([3.0]))
    >>> found = optimum(FiniteSum(One(), get_loss("squared"), sigma=0.5))
    >>> abs(found.theta[0] - 6 / 4.5) < 1e-15
    np.True_
    """

    def compute() -> dict[str, Vector]:
        problem.check_labels()
        found = minimise(problem)
        numbers = (found.objective, found.gradient_norm, found.relative_gradient_norm, found.error, found.iterations)
        return {"theta": found.theta, "numbers": np.array(numbers, dtype=np.float64)}

    store = problem.shards.path if cache else None
    arrays = cached(store, f"minimum-{problem.loss.key}-{float(problem.sigma)!r}", compute)
    objective, norm, relative, error, iterations = arrays["numbers"].tolist()
    return Optimum(arrays["theta"], objective, norm, relative, error, int(iterations))


def start_objective(problem: FiniteSum) -> float:
    """F(0), where tokens begin; the same for every sigma, computed once per store."""

    def compute() -> dict[str, Vector]:
        return {"objective": np.array([problem.objective(np.zeros(problem.d))])}

    return float(cached(problem.shards.path, f"start-{problem.loss.key}", compute)["objective"][0])


class _Point(NamedTuple):
    theta: Vector
    objective: float
    gradient: Vector
    norm: float  # of the gradient


def minimise(problem: FiniteSum) -> Optimum:
    """Compute the optimum (see `optimum`), without any cache."""
    origin = _evaluate(problem, np.zeros(problem.d))
    scale = origin.norm or 1.0
    theta, iterations = _lbfgs(problem, origin)
    point, steps = _newton(problem, theta, scale, _goal(problem, scale))
    if point.norm > STUCK * scale:
        other, more = _follow_path(problem, scale)
        point, steps = min(point, other, key=lambda each: each.norm), steps + more
    error = _error(problem, point)
    return Optimum(point.theta, point.objective, point.norm, point.norm / scale, error, iterations + steps)


def _goal(problem: FiniteSum, scale: float) -> Callable[[_Point], bool]:
    """What is good enough. One long row makes the gradient at 0 large, so its share alone says nothing about F."""
    return lambda point: point.norm <= TOLERANCE * scale and _error(problem, point) <= PRECISION * abs(point.objective)


def _below(tolerance: float) -> Callable[[_Point], bool]:
    return lambda point: point.norm <= tolerance


def _error(problem: FiniteSum, point: _Point) -> float:
    return point.norm**2 / (2 * problem.n * problem.sigma)


def _follow_path(problem: FiniteSum, scale: float) -> tuple[_Point, int]:
    """Newton along decreasing sigma, each time from the optimum of the one before.

    With a tiny sigma the smoothed hinge is so flat between its kinks that Newton steps from afar get stuck.
    From one sigma to the next, few rows change sides of a kink.
    """
    sigma = max(problem.sigma, 1e-2 * float(sum_smoothness(problem).max()))
    theta, iterations = np.zeros(problem.d), 0
    while sigma > problem.sigma:
        # the gradient changes in proportion to sigma: no use in knowing an intermediate optimum better
        tolerance = 1e-3 * min(1.0, sigma) * scale
        point, steps = _newton(problem.with_sigma(sigma), theta, scale, _below(tolerance))
        theta, iterations, sigma = point.theta, iterations + steps, 0.2 * sigma
    point, steps = _newton(problem, theta, scale, _goal(problem, scale))
    return point, iterations + steps


def _newton(problem: FiniteSum, theta: Vector, scale: float, good: Callable[[_Point], bool]) -> tuple[_Point, int]:
    point = _evaluate(problem, theta)
    for steps in range(NEWTON_STEPS):
        if good(point):
            return point, steps
        better = _step(problem, point, _newton_direction(problem, point, point.norm / scale))
        if better is None:  # no progress: rounding errors dominate, or a kink is in the way
            return point, steps
        point = better
    return point, NEWTON_STEPS


def _evaluate(problem: FiniteSum, theta: Vector) -> _Point:
    objective, gradient = problem.objective_and_gradient(theta)
    return _Point(theta, objective, gradient, float(np.linalg.norm(gradient)))


def _lbfgs(problem: FiniteSum, origin: _Point) -> tuple[Vector, int]:
    from scipy.optimize import minimize  # takes half a second, and most runs find the optimum in the cache

    if origin.norm == 0.0:
        return origin.theta, 0
    scale = float(np.abs(origin.gradient).max())
    result = minimize(
        problem.objective_and_gradient,
        origin.theta,
        method="L-BFGS-B",
        jac=True,
        # gtol is absolute. Badly conditioned problems are for Newton, whose systems have a preconditioner.
        options={"maxiter": 100, "gtol": 1e-4 * scale, "ftol": 1e-12},
    )
    return np.asarray(result.x, dtype=np.float64), int(result.nit)


def _newton_direction(problem: FiniteSum, point: _Point, relative: float) -> Vector:
    d = problem.d
    diagonal = problem.hessian_diagonal(point.theta)
    hessian = LinearOperator((d, d), matvec=lambda v: problem.hessian_vector(point.theta, v), dtype=np.float64)
    jacobi = LinearOperator((d, d), matvec=lambda v: v / diagonal, dtype=np.float64)
    # the first systems need not be solved well; later ones, near the optimum, more and more
    rtol = min(1e-2, max(1e-4, relative))
    steps = max(100, min(10 * d, 5000))
    direction, _ = cg(hessian, -point.gradient, rtol=rtol, atol=0.0, maxiter=steps, M=jacobi)
    return direction


def _step(problem: FiniteSum, point: _Point, direction: Vector) -> _Point | None:
    """Halve the Newton step until it helps; None if it does not.

    It helps if F falls as its slope promises or, where the change of F drowns in rounding errors, if the
    gradient norm falls.
    """
    slope = float(point.gradient @ direction)
    noise = 8 * np.finfo(np.float64).eps * abs(point.objective)
    for halvings in range(HALVINGS):
        size = 0.5**halvings
        candidate = _evaluate(problem, point.theta + size * direction)
        fall = point.objective - candidate.objective
        if fall > max(noise, -1e-4 * size * slope) or (candidate.norm < point.norm and fall >= -noise):
            return candidate
    return None
