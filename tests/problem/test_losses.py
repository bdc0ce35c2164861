import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from dtoken.errors import InputError
from dtoken.problem.losses import (
    LOGISTIC,
    LOSSES,
    SMOOTH_HINGE,
    SQUARED,
    derivative,
    get_loss,
    prox_root,
    second,
    value,
)

EPS = 2.0**-52
CODES = [loss.code for loss in LOSSES.values()]
labels = st.sampled_from([-1.0, 1.0])
margins = st.one_of(
    st.floats(-50, 50),
    st.floats(-1e300, 1e300),
    st.builds(lambda e, s: s * 10.0**e, st.floats(-300, 0), labels),
)


def exact_derivative(code, u, y):
    """phi' in the surrounding decimal precision."""
    z = Decimal(y) * u
    if code == SQUARED:
        return u - Decimal(y)
    if code == SMOOTH_HINGE:
        return -Decimal(y) * min(Decimal(1), max(Decimal(0), 1 - z))
    e = (-min(abs(z), Decimal(10**6))).exp()
    return -Decimal(y) * (e if z > 0 else 1) / (1 + e)


def exact_value(code, t, y):
    z = Decimal(y) * Decimal(t)
    if code == SQUARED:
        return (Decimal(t) - Decimal(y)) ** 2 / 2
    if code == SMOOTH_HINGE:
        return (1 - z) ** 2 / 2 if 0 < z < 1 else max(Decimal(0), Decimal("0.5") - z) * (z <= 0)
    tail = (1 + (-min(abs(z), Decimal(10**6))).exp()).ln()
    return tail + max(-z, Decimal(0))


@pytest.mark.parametrize("code", CODES)
@settings(deadline=None)  # the first call compiles
@given(t=margins, y=labels)
def test_value_and_derivative_equal_a_computation_with_100_digits(code, t, y):
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 100, 10**7, -(10**7)
        expected = exact_value(code, t, y), exact_derivative(code, Decimal(t), y)
    got = value(code, t, y), derivative(code, t, y)
    for ours, theirs in zip(got, expected, strict=True):
        # exp(-x) loses |x| ulps of relative accuracy at most, which matters only in the tail
        assert ours == pytest.approx(float(theirs), rel=1e-13, abs=1e-307) or abs(theirs) > Decimal("1.7e308")


@pytest.mark.parametrize("code", CODES)
@settings(deadline=None)
@given(t=st.floats(-30, 30), y=labels)
def test_second_is_the_derivative_of_the_derivative_and_below_the_bound(code, t, y):
    step = 1e-5
    if code == SMOOTH_HINGE and min(abs(y * t), abs(y * t - 1)) < 2 * step:
        return  # a kink
    difference = (derivative(code, t + step, y) - derivative(code, t - step, y)) / (2 * step)
    assert second(code, t, y) == pytest.approx(difference, abs=1e-9)
    bound = next(loss.curvature for loss in LOSSES.values() if loss.code == code)
    assert 0.0 <= second(code, t, y) <= bound * (1 + 4 * EPS)


def test_smooth_hinge_is_continuous_at_its_kinks():
    for t in (0.0, 1.0):
        below, above = np.nextafter(t, -9), np.nextafter(t, 9)
        assert value(SMOOTH_HINGE, below, 1.0) == pytest.approx(value(SMOOTH_HINGE, above, 1.0), abs=1e-15)
        assert derivative(SMOOTH_HINGE, below, 1.0) == pytest.approx(derivative(SMOOTH_HINGE, above, 1.0), abs=1e-15)


def test_saturated_logits_give_the_limits():
    assert value(LOGISTIC, 1e300, 1.0) == 0.0
    assert value(LOGISTIC, 1e300, -1.0) == 1e300
    assert derivative(LOGISTIC, 1e300, -1.0) == 1.0
    assert derivative(LOGISTIC, -1e300, -1.0) == 0.0
    assert derivative(LOGISTIC, 700.0, 1.0) == pytest.approx(-math.exp(-700), rel=1e-12)


def test_unknown_loss_names_the_allowed_ones():
    with pytest.raises(InputError, match=r"problem.loss=hinge .*smooth_hinge\? .*logistic, squared, smooth_hinge"):
        get_loss("hinge")
    with pytest.raises(InputError, match="use one of logistic, squared, smooth_hinge"):
        get_loss("xyz")


def exact_root(code, y, w, t0, beta, g):
    """Bisection of h in 60 digits, and the slope of h there."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**7, -(10**7)
        w, t0, beta, g = (Decimal(x) for x in (w, t0, beta, g))
        reach = abs(beta) * (abs(g) + w * (1 + abs(Decimal(y)) + abs(t0))) + abs(t0) + 1
        low, high = t0 - 2000 * reach, t0 + 2000 * reach  # slopes of h are at least 1e-3
        for _ in range(2000):
            middle = (low + high) / 2
            h = (middle - t0) + beta * (w * exact_derivative(code, middle, y) - g)
            low, high = (low, middle) if h > 0 else (middle, high)
            if high - low <= abs(middle) * Decimal("1e-25"):
                break
        return float(middle)


@st.composite
def equations(draw, code, sign):
    curvature = {LOGISTIC: 0.25, SQUARED: 1.0, SMOOTH_HINGE: 1.0}[code]
    w = 1.0 / draw(st.integers(1, 100_000))
    y = draw(labels)
    large, down = st.floats(-30, 30), st.floats(1e-12, 0.999)  # down: h has slopes down to 1e-3
    beta = 10.0 ** draw(large) / w if sign > 0 else -draw(down) / (w * curvature)
    g = -w * y * draw(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-30, 1 - 1e-15, 1.0])))
    t0 = draw(st.one_of(st.floats(-10, 10), st.floats(-1e6, 1e6), st.sampled_from([0.0, 700.0, -700.0])))
    start = draw(st.one_of(st.just(t0), st.floats(-1e6, 1e6)))
    return y, w, t0, beta, g, start


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("code", CODES)
def test_prox_root_equals_bisection_with_60_digits(code, sign):
    @settings(deadline=None)
    @given(equations(code, sign))
    def check(equation):
        y, w, t0, beta, g, start = equation
        root = exact_root(code, y, w, t0, beta, g)
        u = prox_root(code, y, w, t0, beta, g, start)
        # the rounding errors of h in float64, divided by its slope, and those of u itself
        force = w * abs(derivative(code, root, y)) * (1 + abs(root)) if code == LOGISTIC else w * (abs(root) + 1)
        noise = abs(root) + abs(t0) + abs(beta) * (force + abs(g))
        slope = 1 + beta * w * second(code, root, y)
        if code == SMOOTH_HINGE and min(abs(y * root), abs(y * root - 1)) < 1e-6:
            slope = min(1.0, 1.0 + beta * w)  # at a kink either slope may be met
        assert abs(u - root) <= 16 * EPS * (noise / slope + abs(root))

    check()


@pytest.mark.parametrize("code", CODES)
def test_prox_root_agrees_with_brentq_in_the_usual_range(code):
    rng = np.random.default_rng(1)
    for _ in range(300):
        y, w = float(rng.choice([-1, 1])), 1 / rng.integers(1, 1000)
        t0, beta = 3 * rng.standard_normal(), rng.uniform(-0.9, 20) / w
        g = -y * w * rng.random()

        def h(u, y=y, w=w, t0=t0, beta=beta, g=g):
            return (u - t0) + beta * (w * derivative(code, u, y) - g)

        reach = 10 + abs(t0) + 10 * abs(beta) * w * (abs(t0) + 1)
        expected = brentq(h, t0 - reach, t0 + reach, xtol=1e-14, rtol=1e-15)
        assert prox_root(code, y, w, t0, beta, g, t0) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_prox_root_stays_at_a_fixed_point():
    # at the optimum g = w phi'(t0): the increment must be rounding noise, or runs never settle
    for code in CODES:
        w, y, t0 = 1e-4, 1.0, 0.3
        g = w * derivative(code, t0, y)
        assert prox_root(code, y, w, t0, 1e5, g, t0) == t0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_prox_root_ends_whatever_it_is_given(bad):
    for code in CODES:
        for position in range(5):
            arguments = [0.01, 0.3, 2.0, 0.005, 0.3]
            arguments[position] = bad
            prox_root(code, 1.0, *arguments)
