"""What is checked of a loss of one's own: is it the function that methods and theory take it for?"""

import math
from typing import Any

import numpy as np

from dtoken.errors import InputError
from dtoken.problem.losses import Loss, derivative, own_loss, prox_root, second, value

MARGINS = np.concatenate([np.linspace(-30, 30, 601) + 0.0123, [-1e4, -1e3, 1e3, 1e4]])
STEP = 1e-5
CLOSE = 1e-4  # of difference quotients
WEIGHT = 0.1


class LossFailed(AssertionError):
    """What is wrong with a loss, in a sentence."""


def check_loss(kind: type[Any], labels: tuple[float, ...] = ()) -> None:
    """Check a loss of your own, and raise ``LossFailed`` with the first thing that is wrong.

    Its derivatives are compared with difference quotients; phi'' must lie between 0 and ``curvature`` everywhere, which
    makes the loss convex and as smooth as step sizes assume; and the prox, a scalar equation that dtoken solves with
    ``derivative`` and ``second``, must have its root.

    Parameters
    ----------
    kind
        The class of the loss.
    labels
        Labels to check it with; by default -1 and +1, or some numbers from ``least_label`` on.

    Examples
    --------
    >>> from dtoken.problem.examples.huber import Huber
    >>> check_loss(Huber)
    >>> class Wrong(Huber):
    ...     curvature = 0.5
    >>> check_loss(Wrong)
    Traceback (most recent call last):
        ...
    dtoken.testing.loss.LossFailed: Wrong: phi'' is 1 at t=-3.9877, y=-3, more than curvature=0.5
    """
    try:
        loss = own_loss(kind, kind.__name__)
    except InputError as error:
        raise LossFailed(str(error)) from None
    for y in labels or _labels(loss):
        for t in MARGINS:
            _check_point(loss, float(t), y)
        _check_roots(loss, y)


def _labels(loss: Loss) -> tuple[float, ...]:
    if loss.classification:
        return -1.0, 1.0
    return tuple(y for y in (-3.0, 0.0, 0.5, 1.0, 7.0) if loss.least_label is None or y >= loss.least_label)


def _check_point(loss: Loss, t: float, y: float) -> None:
    where = f"at t={t:.6g}, y={y:g}"
    phi, slope, bend = (float(function(loss.code, t, y)) for function in (value, derivative, second))
    for name, number in (("value", phi), ("derivative", slope), ("second", bend)):
        if not math.isfinite(number):
            raise LossFailed(f"{loss.name}: {name} is {number} {where}; it must be a number for every margin")
    if bend < 0:
        raise LossFailed(f"{loss.name}: phi'' is {bend:g} {where}; the loss is not convex")
    if bend > loss.curvature * (1 + 1e-12):
        raise LossFailed(f"{loss.name}: phi'' is {bend:g} {where}, more than curvature={loss.curvature:g}")
    step = STEP * max(1.0, abs(t))
    ahead, behind = t + step, t - step
    wide = loss.curvature * step  # how much the derivative may change over a step
    quotient = (value(loss.code, ahead, y) - value(loss.code, behind, y)) / (ahead - behind)
    noise = 1e-15 * abs(phi) / step
    if abs(quotient - slope) > CLOSE * abs(slope) + 2 * wide + noise:
        raise LossFailed(f"{loss.name}: derivative is {slope:g} {where}, but value grows at {quotient:g}")
    before, after = derivative(loss.code, behind, y), derivative(loss.code, ahead, y)
    if not -CLOSE * wide <= after - before + 1e-15 * abs(slope):
        raise LossFailed(f"{loss.name}: derivative falls {where}; the loss is not convex")
    if after - before > (1 + CLOSE) * 2 * wide + 1e-15 * abs(slope):
        raise LossFailed(f"{loss.name}: derivative grows faster than curvature={loss.curvature:g} {where}")
    bends = [second(loss.code, each, y) for each in (behind, ahead)]
    if max(*bends, bend) - min(*bends, bend) > CLOSE * loss.curvature:
        return  # a kink
    quotient = (after - before) / (ahead - behind)
    if abs(quotient - bend) > CLOSE * loss.curvature + 1e-15 * abs(slope) / step:
        raise LossFailed(f"{loss.name}: second is {bend:g} {where}, but derivative grows at {quotient:g}")


def _check_roots(loss: Loss, y: float) -> None:
    """(u - t0) + beta (w phi'(u) - g) = 0, for strengths as methods have them."""
    for beta in (0.01, 1.0, 100.0, -0.5 / (WEIGHT * loss.curvature)):
        for t0 in (-20.0, -1.0, 0.3, 2.0, 20.0):
            u = prox_root(loss.code, y, WEIGHT, t0, beta, 0.05, t0)
            force = WEIGHT * derivative(loss.code, u, y)
            left = abs((u - t0) + beta * (force - 0.05))
            size = abs(u) + abs(t0) + abs(beta) * (abs(force) + 0.05 + WEIGHT * loss.curvature * abs(u))
            if not left <= 1e-13 * size:
                raise LossFailed(f"{loss.name}: the prox equation has no root near t={u:g}, y={y:g} (left {left:g})")
