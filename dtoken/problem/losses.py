"""Scalar losses phi(t) of a margin t = a^T theta with label y, as compiled functions (Hendrikx 2022).

Everything here is *unweighted*: the paper's phi_ij carries the weight w = 1/m_i of a node with m_i rows, and
callers apply it. Kernels are generic over the loss by its integer code, because a function passed as argument
would defeat numba's disk cache.

=============  ==============================================================  ==============
name           phi(t)                                                          bound of phi''
=============  ==============================================================  ==============
logistic       log(1 + exp(-y t))                                              1/4
squared        (t - y)^2 / 2                                                   1
smooth_hinge   0 if yt >= 1, (1 - yt)^2 / 2 if 0 < yt < 1, 1/2 - yt otherwise  1
=============  ==============================================================  ==============

Further losses are classes in files of their own (``examples``, or a user's; see ``own``), called by address.
"""

import math
from dataclasses import dataclass
from typing import Any

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.own import compile_loss, imported
from dtoken.problem.pointers import call_pointer
from dtoken.text import use_one_of

LOGISTIC = 0
SQUARED = 1
SMOOTH_HINGE = 2  # larger codes are addresses of tables with three functions

EPSILON = 2.0**-52
NEWTON_STEPS = 64  # far more than a well-posed root needs; after that plain bisection, which always ends


@dataclass(frozen=True)
class Loss:
    """A scalar loss.

    Parameters
    ----------
    name
        As ``problem.loss`` has it.
    code
        What the compiled functions branch on.
    curvature
        The smallest upper bound of phi''.
    classification
        Whether labels are -1 and +1.
    least_label
        The smallest label that makes sense; None: any.
    limit
        Margins up to which the loss is what its name says; None: all.
    digest
        Of the file that defines the loss; empty for those that are compiled into the kernels.

    Examples
    --------
    >>> LOSSES["logistic"].curvature
    0.25
    >>> value(LOSSES["squared"].code, 3.0, 1.0)
    2.0
    """

    name: str
    code: int
    curvature: float
    classification: bool
    least_label: float | None = None
    limit: float | None = None
    digest: str = ""

    @property
    def key(self) -> str:
        """What results are kept under: the name, and of a loss in a file of its own what the file says."""
        return f"{self.name}-{self.digest}" if self.digest else self.name


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("logistic", LOGISTIC, 0.25, classification=True),
        Loss("squared", SQUARED, 1.0, classification=False),
        Loss("smooth_hinge", SMOOTH_HINGE, 1.0, classification=True),
    )
}

EXAMPLES = {"huber": "dtoken.problem.examples.huber.Huber", "poisson": "dtoken.problem.examples.poisson.Poisson"}
NAMES = (*LOSSES, *EXAMPLES)


def get_loss(name: str) -> Loss:
    """Find a loss by its name, or ``package.module.Class`` in a file of your own.

    Examples
    --------
    >>> get_loss("logistic").classification
    True
    >>> get_loss("logistics")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: problem.loss=logistics is not known; did you mean logistic? Use one of ...
    """
    if name in LOSSES:
        return LOSSES[name]
    target = EXAMPLES.get(name, name)
    if "." not in target:
        raise InputError(f"problem.loss={name} is not known; {use_one_of(name, NAMES)}")
    return own_loss(imported(target, "problem.loss"), name)


def own_loss(kind: Any, name: str) -> Loss:
    """The loss that a class defines."""
    functions = compile_loss(kind)
    least, limit = getattr(kind, "least_label", None), getattr(kind, "limit", None)
    curvature = float(kind.curvature)
    return Loss(name, functions.code, curvature, kind.classification, least, limit, functions.digest)


@compiled
def value(code: int, t: float, y: float) -> float:
    """phi(t), without overflow where phi itself does not overflow.

    Examples
    --------
    >>> value(LOGISTIC, -1e300, 1.0)
    1e+300
    """
    if code == SQUARED:
        return 0.5 * (t - y) * (t - y)
    if code > SMOOTH_HINGE:
        own: float = call_pointer(code, 0, t, y)
        return own
    z = y * t
    if code == LOGISTIC:
        # exp of a non-positive number only: it may underflow, to the exact limit, but not overflow
        tail = math.log1p(math.exp(-abs(z)))
        return tail if z > 0.0 else tail - z
    if z >= 1.0:
        return 0.0
    if z <= 0.0:
        return 0.5 - z
    return 0.5 * (1.0 - z) * (1.0 - z)


@compiled
def derivative(code: int, t: float, y: float) -> float:
    """phi'(t), accurate to the last digits also where it is tiny.

    Examples
    --------
    >>> derivative(SMOOTH_HINGE, 0.25, 1.0)
    -0.75
    """
    if code == SQUARED:
        return t - y
    if code > SMOOTH_HINGE:
        own: float = call_pointer(code, 1, t, y)
        return own
    z = y * t
    if code == LOGISTIC:
        e = math.exp(-abs(z))
        return -y * e / (1.0 + e) if z > 0.0 else -y / (1.0 + e)
    if z >= 1.0:
        return 0.0
    if z <= 0.0:
        return -y
    return -y * (1.0 - z)


@compiled
def second(code: int, t: float, y: float) -> float:
    """phi''(t); for the smoothed hinge an element of the generalised derivative (0 at both kinks).

    Examples
    --------
    >>> second(LOGISTIC, 0.0, -1.0)
    0.25
    """
    if code == SQUARED:
        return 1.0
    if code > SMOOTH_HINGE:
        own: float = call_pointer(code, 2, t, y)
        return own
    z = y * t
    if code == LOGISTIC:
        e = math.exp(-abs(z))
        return e / ((1.0 + e) * (1.0 + e))
    return 1.0 if 0.0 < z < 1.0 else 0.0


@compiled
def prox_root(code: int, y: float, w: float, t0: float, beta: float, g: float, start: float) -> float:
    """Solve h(u) = (u - t0) + beta (w phi'(u) - g) = 0: the scalar step of accelerated token methods (TAVR).

    Solved to the rounding level of h. ``beta`` may be negative while h increases (1 + beta w phi'' > 0).

    Parameters
    ----------
    code, y, w
        Loss, label and weight (1/m_i) of the sample.
    t0, beta, g
        Finite numbers of the equation above.
    start
        First guess, for instance the sample's previous root or ``t0``. The last bits of the result depend on
        it.

    Examples
    --------
    >>> prox_root(SQUARED, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0)
    0.5
    >>> u = prox_root(LOGISTIC, 1.0, 0.1, 0.3, -2.0, 0.05, 0.3)
    >>> abs((u - 0.3) - 2.0 * (0.1 * derivative(LOGISTIC, u, 1.0) - 0.05)) < 1e-16
    True
    """
    if code == SQUARED:
        slope = 1.0 + beta * w
        u = t0 + beta * (g - w * (t0 - y)) / slope
        # one correction: the difference form alone keeps an error of eps |t0| even where |u| is much smaller
        return u - ((u - t0) + beta * (w * (u - y) - g)) / slope
    if code > SMOOTH_HINGE:
        low, high = _bracket(code, y, w, t0, beta, g, start)
        return _bracketed_newton(code, y, w, t0, beta, g, start, low, high, math.nan)
    # phi' lies between 0 and -y. A few ulps more on both sides keep a saturated root strictly inside.
    end0 = t0 + beta * g
    end1 = t0 + beta * (g + w * y)
    slack = 8.0 * EPSILON * (abs(t0) + abs(beta) * (abs(g) + w))
    low = min(end0, end1) - slack
    high = max(end0, end1) + slack
    # phi' is point-symmetric around this point, so h is convex on one side of it and concave on the other:
    # Newton's method from here is monotone after one step. Go here when steps leave the bracket, or when they
    # jump to and fro over this point, which can last long.
    centre = 0.0 if code == LOGISTIC else 0.5 * y
    return _bracketed_newton(code, y, w, t0, beta, g, start, low, high, centre)


@compiled
def _bracket(code: int, y: float, w: float, t0: float, beta: float, g: float, start: float) -> tuple[float, float]:
    """Two points around the root of h, of a loss of which nothing more is known than that h increases."""
    low = high = start
    h = (start - t0) + beta * (w * derivative(code, start, y) - g)
    step = 1.0625 * abs(h)  # enough where beta >= 0: h' is at least 1
    if h > 0.0:
        while h > 0.0 and step < math.inf:
            high, low, step = low, low - step, 2.0 * step
            h = (low - t0) + beta * (w * derivative(code, low, y) - g)
    else:
        while h < 0.0 and step < math.inf:
            low, high, step = high, high + step, 2.0 * step
            h = (high - t0) + beta * (w * derivative(code, high, y) - g)
    return low, high


@compiled
def _bracketed_newton(
    code: int,
    y: float,
    w: float,
    t0: float,
    beta: float,
    g: float,
    start: float,
    low: float,
    high: float,
    centre: float,
) -> float:
    """The root of h between ``low`` and ``high``; ``centre`` is where steps go that help little, nan: nowhere."""
    u = min(max(start, low), high)
    before = math.inf
    steps = 0
    while True:
        force = w * derivative(code, u, y)
        h = (u - t0) + beta * (force - g)
        if abs(h) <= 2.0 * EPSILON * (abs(u - t0) + abs(beta) * (abs(force) + abs(g))):
            return u
        if h > 0.0:
            high = u
        else:
            low = u
        following = u - h / (1.0 + beta * w * second(code, u, y))
        if following == u:
            return u
        steps += 1
        to_centre = low < centre < high and abs(h) > 0.5 * before
        if to_centre or steps > NEWTON_STEPS or not low < following < high:
            following = centre if low < centre < high else 0.5 * low + 0.5 * high
            if not low < following < high:  # neighbours: float64 ends here
                return u
        before = abs(h)
        u = following
