"""Decimal text to float64, correctly rounded: the same bits as Python's ``float()``, in compiled code.

Three ways, tried in this order:

1. Clinger's fast path: a significand below 2**53 and a power of ten up to 10**22 are both exact, so one
   multiplication or division rounds once.
2. The Eisel-Lemire algorithm (D. Lemire, *Number parsing at a gigabyte per second*, 2021): multiply the
   significand by a 128-bit approximation of the power of ten and look whether the discarded bits decide the
   rounding.
3. Whatever is left (about one number in 10**18, subnormals, significands of more than 19 digits that fall
   near a rounding boundary) is reported as ``HARD``: the caller hands that text to ``float()``.
"""

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled

OK, HARD, MALFORMED = 0, 1, 2

_MIN_EXPONENT, _MAX_EXPONENT = -342, 308  # outside, a 19-digit significand gives 0 or infinity
_POWER_LIMIT = 10**12  # a written exponent beyond it is not read to its end: no text has so many digits
_EXACT_POWERS: NDArray[np.float64] = np.array([float(f"1e{e}") for e in range(23)])


def _power_table() -> NDArray[np.uint64]:
    """The leading 128 bits, rounded down, of every power of ten, as (high, low) pairs."""
    table = np.empty((_MAX_EXPONENT - _MIN_EXPONENT + 1, 2), np.uint64)
    for row, e in enumerate(range(_MIN_EXPONENT, _MAX_EXPONENT + 1)):
        if e >= 0:
            top = (10**e << 128) >> (10**e).bit_length()
        else:
            top = (1 << (127 + (10**-e).bit_length())) // 10**-e
        table[row] = top >> 64, top & (2**64 - 1)
    return table


_POWERS: NDArray[np.uint64] = _power_table()

# numba promotes uint64 with int64 to float64, so every constant of the integer arithmetic is a uint64.
_U = np.uint64
_0, _1, _2, _3, _9, _32, _52, _53, _63 = (_U(k) for k in (0, 1, 2, 3, 9, 32, 52, 53, 63))
_LOW32, _LOW9, _LOW52, _ALL = _U(2**32 - 1), _U(0x1FF), _U(2**52 - 1), _U(2**64 - 1)
_LIMIT, _EXACT = _U(10**18), _U(2**53)
_DIGIT_ZERO, _TEN = _U(48), _U(10)


@compiled
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 128-bit product of two 64-bit integers, as (high, low)."""
    a1, a0, b1, b0 = a >> _32, a & _LOW32, b >> _32, b & _LOW32
    low = a0 * b0
    middle = a1 * b0 + (low >> _32)
    other = a0 * b1 + (middle & _LOW32)
    return a1 * b1 + (middle >> _32) + (other >> _32), (other << _32) | (low & _LOW32)


@compiled
def _eisel_lemire(significand: np.uint64, exponent: int) -> tuple[bool, np.uint64]:
    """The bits of significand * 10**exponent, or False where 128 bits do not decide the rounding."""
    if exponent < _MIN_EXPONENT or exponent > _MAX_EXPONENT:
        return False, _0
    shift = 0
    while significand & (_1 << _63) == _0:
        significand <<= _1
        shift += 1
    high, low = _multiply(significand, _POWERS[exponent - _MIN_EXPONENT, 0])
    if high & _LOW9 == _LOW9 and low + significand < significand:
        carry, lowest = _multiply(significand, _POWERS[exponent - _MIN_EXPONENT, 1])
        merged = low + carry
        if merged < low:
            high += _1
        low = merged
        if high & _LOW9 == _LOW9 and low == _ALL and lowest + significand < significand:
            return False, _0
    top = high >> _63
    mantissa = high >> (top + _9)
    # 217706 / 2**16 approximates log2(10) well enough for every exponent of the table
    binary = ((217706 * exponent) >> 16) + 64 + 1023 - shift - 1 + np.int64(top)
    if low == _0 and high & _LOW9 == _0 and mantissa & _3 == _1:
        return False, _0  # half-way between two floats
    mantissa += mantissa & _1
    mantissa >>= _1
    if mantissa >> _53 != _0:
        mantissa >>= _1
        binary += 1
    if binary < 1 or binary > 2046:
        return False, _0  # subnormal or infinite
    return True, (_U(binary) << _52) | (mantissa & _LOW52)


@compiled
def _scaled(significand: np.uint64, exponent: int) -> tuple[bool, float]:
    """significand * 10**exponent, rounded once, or False where neither fast way decides."""
    if significand <= _EXACT and -22 <= exponent <= 22:
        exact = float(significand)
        return True, (exact / _EXACT_POWERS[-exponent] if exponent < 0 else exact * _EXACT_POWERS[exponent])
    decided, bits = _eisel_lemire(significand, exponent)
    return decided, np.uint64(bits).view(np.float64)


@compiled
def parse_decimal(text: NDArray[np.uint8], start: int, stop: int) -> tuple[float, int]:
    """The number that ``text[start:stop]`` spells, and one of OK, HARD, MALFORMED.

    Accepted: an optional sign, digits with an optional point, an optional exponent. Not accepted: ``nan``,
    ``inf``, hexadecimal, underscores.
    """
    position = start
    negative = False
    if position < stop and (text[position] == 43 or text[position] == 45):
        negative = text[position] == 45
        position += 1
    significand = _0
    exponent = 0
    digits = 0
    dropped = False
    seen_point = False
    while position < stop:
        byte = text[position]
        if 48 <= byte <= 57:
            digits += 1
            if significand < _LIMIT:
                significand = significand * _TEN + (_U(byte) - _DIGIT_ZERO)
                if seen_point:
                    exponent -= 1
            else:  # 19 digits are kept; the value of the others is only in the exponent
                dropped = dropped or byte != 48
                if not seen_point:
                    exponent += 1
        elif byte == 46 and not seen_point:
            seen_point = True
        else:
            break
        position += 1
    if digits == 0:
        return 0.0, MALFORMED
    if position < stop:
        if text[position] != 101 and text[position] != 69:
            return 0.0, MALFORMED
        position += 1
        minus = False
        if position < stop and (text[position] == 43 or text[position] == 45):
            minus = text[position] == 45
            position += 1
        if position == stop:
            return 0.0, MALFORMED
        power = 0
        while position < stop:
            byte = text[position]
            if byte < 48 or byte > 57:
                return 0.0, MALFORMED
            if power < _POWER_LIMIT:
                power = power * 10 + int(np.int64(byte)) - 48
            position += 1
        exponent += -power if minus else power
    if significand == _0:
        return (-0.0 if negative else 0.0), OK
    decided, value = _scaled(significand, exponent)
    if dropped:  # the true value lies between this significand and the next
        also, next_value = _scaled(significand + _1, exponent)
        decided = decided and also and value == next_value
    elif not decided:  # 1.500000000000000000e+00 and the like: exact, but 128 bits of 10**-18 do not show it
        while significand % _TEN == _0:
            significand //= _TEN
            exponent += 1
        decided, value = _scaled(significand, exponent)
    if not decided:
        return 0.0, HARD
    return (-value if negative else value), OK
