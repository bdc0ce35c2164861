"""Every number has the bits of Python's float()."""

import random
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dtoken.data.decimal import HARD, MALFORMED, OK, parse_decimal


def parse(text: str) -> tuple[float, int]:
    content = np.frombuffer(b"#" + text.encode() + b"7", np.uint8)  # neighbours that must not be read
    return parse_decimal(content, 1, len(content) - 1)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def check(text: str) -> int:
    value, status = parse(text)
    assert status != MALFORMED
    if status == OK:
        assert bits(value) == bits(float(text)), text
    return status


digits = st.text("0123456789", min_size=1, max_size=40)
numbers = st.builds(
    lambda sign, whole, point, fraction, exponent: sign + whole + point + fraction + exponent,
    st.sampled_from(["", "-", "+"]),
    digits,
    st.just("."),
    st.one_of(st.just(""), digits),
    st.one_of(st.just(""), st.integers(-400, 400).map(lambda e: f"e{e}"), st.sampled_from(["E+7", "e-007"])),
)


@given(numbers)
@example("0.0")
@example("-0.0")
@example("-0e5")
@example("9007199254740993")  # 2**53 + 1, half-way
@example("9007199254740993.0000000000000000000000000001")
@example("1e23")
@example("8.5e22")
@example("1.7976931348623157e308")
@example("1.7976931348623159e308")  # infinite
@example("2.2250738585072011e-308")  # the largest subnormal, nearly
@example("5e-324")
@example("2e-324")
@example("9999999999999999999")
@example("18446744073709551615")
@example("18446744073709551616")
@example("123456789012345678901234567890")
def test_any_number(text: str) -> None:
    check(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_shortest_text_of_any_float(value: float) -> None:
    for text in (repr(value), f"{value:.17g}", f"{value:.25e}", f"{value:.3g}"):
        check(text)


@given(st.floats(min_value=1e-290, max_value=1e290), st.sampled_from([-1, 0, 1]), st.integers(1, 30))
def test_exactly_half_way_between_two_floats_and_just_beside(value: float, side: int, zeros: int) -> None:
    middle = (Decimal(value) + Decimal(float(np.nextafter(value, np.inf)))) / 2
    text = f"{middle:.800e}".replace("E", "e")
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa.rstrip("0")
    assert Decimal(f"{mantissa}e{exponent}") == middle or len(mantissa) > 750
    if side > 0:
        mantissa += "0" * zeros + "1"
    elif side < 0:
        mantissa = mantissa[:-1] + str(int(mantissa[-1]) - 1) + "9" * zeros
    check(f"{mantissa}e{exponent}")


def test_numbers_that_programs_write_are_decided_without_python() -> None:
    generator = random.Random(5)
    hard = 0
    for _ in range(20_000):
        value = generator.gauss(0, 1) * 10 ** generator.uniform(-3, 3)
        wide = generator.lognormvariate(0, 100)
        for text in (f"{value:.6f}", f"{value:.18e}", f"{wide:.6g}", f"{wide:.17g}", repr(wide)):
            hard += check(text) == HARD
    assert hard < 300  # of 100,000: some large multiples of 1/2, 1/4, ...


@pytest.mark.parametrize("value", [1.5, 0.125, 3.0, 81598990906868992.0])
def test_exact_numbers_with_many_zeros_are_decided_without_python(value: float) -> None:
    for text in (f"{value:.6f}", f"{value:.18e}", f"{value:.25f}"):
        assert check(text) == OK


@pytest.mark.parametrize("text", ["4.9e-324", "1e-320", "1e400", "-1e999", "2.2250738585072014e-309"])
def test_what_the_fast_ways_cannot_decide_is_left_to_python(text: str) -> None:
    assert parse(text)[1] == HARD


def test_exponents_and_digits_of_any_length() -> None:
    zeros = "0" * 100_000
    assert parse(f"0.{zeros}1e1000003")[1] == HARD  # infinite, not 0.1
    assert parse(f"1e{'9' * 50}")[1] == HARD
    assert parse(f"0e{'9' * 50}") == (0.0, OK)
    assert parse(f"{zeros}1.5") == (1.5, OK)
    assert parse(f"1.5{zeros}") == (1.5, OK)
    assert parse(f"1e-{'0' * 500}3") == (0.001, OK)


@given(st.text("0123456789+-.eE_xnaif ", max_size=8))
@example("")
@example("+")
@example(".")
@example("1e")
@example("1e+")
@example("1.5.2")
@example("0x10")
@example("1_000")
@example("nan")
@example("inf")
@example("--1")
def test_malformed_exactly_where_float_refuses(text: str) -> None:
    try:
        float(text)
        accepted = text == text.strip() and "_" not in text and text.strip("+-") not in ("nan", "inf")
    except ValueError:
        accepted = False
    assert (parse(text)[1] != MALFORMED) == accepted
