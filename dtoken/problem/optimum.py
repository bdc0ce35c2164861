"""The reference optimum theta*, against which every run is measured.

L-BFGS-B brings theta near the optimum; Newton steps, whose systems are solved by preconditioned conjugate
gradients on streamed Hessian products, then reach the last digits that float64 allows. Nothing larger than
some vectors of d numbers is kept, whatever the size of the data.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from dtoken.problem.cache import cached
from dtoken.problem.finite_sum import FiniteSum, Vector

TOLERANCE = 1e-12  # of the gradient norm, relative to the one at 0
NEWTON_STEPS = 100
HALVINGS = 12
METHOD = "L-BFGS-B, then Newton-CG"


@dataclass(frozen=True)
class Optimum:
    """The minimiser of a problem, and how well it is known."""

    theta: Vector  # (d,)
    objective: float  # F(theta)
    gradient_norm: float  # ||grad F(theta)||
    relative_gradient_norm: float  # gradient_norm / ||grad F(0)||, or gradient_norm if 0 is the optimum
    iterations: int  # of both methods together
    method: str = METHOD


def optimum(problem: FiniteSum, *, cache: bool = True) -> Optimum:
    """Minimise F to a relative gradient norm of 1e-12, or to where float64 ends; computed once per store.

    Examples
    --------
    >>> from dtoken.data.rows import RowBlock
    >>> from dtoken.problem.losses import get_loss
    >>> class One:  # (2 theta - 3)^2 / 2 + theta^2 / 4
    ...     n, d, node_rows, node_nonzeros, classes, path = 1, 1, (1,), (1,), False, None
    ...     def blocks(self, node):
    ...         yield RowBlock(np.array([2.0]), np.zeros(1, np.int32), np.array([0, 1]), np.array([3.0]))
    >>> found = optimum(FiniteSum(One(), get_loss("squared"), sigma=0.5))
    >>> abs(found.theta[0] - 6 / 4.5) < 1e-15
    np.True_
    """

    def compute() -> dict[str, Vector]:
        found = minimise(problem)
        numbers = (found.objective, found.gradient_norm, found.relative_gradient_norm, found.iterations)
        return {"theta": found.theta, "numbers": np.array(numbers, dtype=np.float64)}

    store = problem.shards.path if cache else None
    arrays = cached(store, f"optimum-{problem.loss.name}-{float(problem.sigma)!r}", compute)
    objective, norm, relative, iterations = arrays["numbers"].tolist()
    return Optimum(arrays["theta"], objective, norm, relative, int(iterations))


def minimise(problem: FiniteSum) -> Optimum:
    """Compute the optimum (see `optimum`), without any cache."""
    gradient = problem.gradient(np.zeros(problem.d))
    scale = float(np.linalg.norm(gradient)) or 1.0
    theta, iterations = _lbfgs(problem, float(np.abs(gradient).max()))
    gradient = problem.gradient(theta)
    norm = float(np.linalg.norm(gradient))
    for _ in range(NEWTON_STEPS):
        if norm <= TOLERANCE * scale:
            break
        direction = _newton_direction(problem, theta, gradient, norm / scale)
        step = _shorten(problem, theta, direction, norm)
        if step is None:
            break  # rounding errors dominate: float64 ends here
        theta, gradient = step
        norm = float(np.linalg.norm(gradient))
        iterations += 1
    return Optimum(theta, problem.objective(theta), norm, norm / scale, iterations)


def _lbfgs(problem: FiniteSum, scale: float) -> tuple[Vector, int]:
    start = np.zeros(problem.d)
    if scale == 0.0:
        return start, 0
    result = minimize(
        problem.objective_and_gradient,
        start,
        method="L-BFGS-B",
        jac=True,
        # gtol is absolute; Newton takes over before rounding errors in F stop the line search
        options={"maxiter": 1000, "maxfun": 2000, "maxcor": 20, "gtol": 1e-5 * scale, "ftol": 1e-12},
    )
    return np.asarray(result.x, dtype=np.float64), int(result.nit)


def _newton_direction(problem: FiniteSum, theta: Vector, gradient: Vector, relative: float) -> Vector:
    # the first systems need not be solved well; later ones, near the optimum, more and more
    d = problem.d
    diagonal = problem.hessian_diagonal(theta)
    hessian = LinearOperator((d, d), matvec=lambda v: problem.hessian_vector(theta, v), dtype=np.float64)
    jacobi = LinearOperator((d, d), matvec=lambda v: v / diagonal, dtype=np.float64)
    rtol = min(1e-2, max(1e-4, relative))
    direction, _ = cg(hessian, -gradient, rtol=rtol, atol=0.0, maxiter=max(100, min(10 * d, 5000)), M=jacobi)
    return direction


def _shorten(
    problem: FiniteSum, theta: Vector, direction: Vector, norm: float
) -> tuple[Vector, Vector] | None:
    """Halve the step until the gradient norm falls; None if it does not."""
    for halvings in range(HALVINGS):
        candidate = theta + 0.5**halvings * direction
        gradient = problem.gradient(candidate)
        if float(np.linalg.norm(gradient)) < norm:
            return candidate, gradient
    return None
