"""Parameter checks of the topology builders: one sentence that names the key, its value and the remedy."""

import math
from collections.abc import Sequence
from typing import Any

from dtoken.errors import InputError


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an integer in [low, high].

    Examples
    --------
    >>> whole("graph.degree", 4, 1)
    4
    """
    bounds = f">= {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not _is_whole(value) or value < low or (high is not None and value > high):
        raise InputError(f"{name}={value!r} must be an integer {bounds}")
    return int(value)


def real(name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a number in (low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
        raise InputError(f"{name}={value!r} must be a number above {low:g} and at most {high:g}")
    return float(value)


def enough(kind: str, n: int, least: int) -> None:
    """Refuse fewer nodes than the topology needs."""
    if n < least:
        raise InputError(f"nodes={n} but graph={kind} needs at least {least}; use nodes>={least} or graph=complete")


def lattice(kind: str, n: int, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the sides of a lattice with n nodes: those given, or the most square rectangle."""
    if shape is not None:
        sides = tuple(whole("each side of graph.shape", side, 1) for side in shape)
        if math.prod(sides) != n:
            raise InputError(
                f"graph.shape={list(sides)} has {math.prod(sides)} nodes but nodes={n}; "
                f"use nodes={math.prod(sides)} or another shape"
            )
        return sides
    rows = _rows(n)
    if rows == 1 and n > 3:
        raise InputError(
            f"nodes={n} is prime, so graph={kind} has no rectangle for it; "
            f"use nodes={n - 1} or nodes={n + 1}, or graph.shape=[1,{n}]"
        )
    return rows, n // rows


def _rows(n: int) -> int:
    return next(rows for rows in range(math.isqrt(n), 0, -1) if n % rows == 0)


def _is_whole(value: Any) -> bool:
    try:
        return bool(int(value) == value)
    except (TypeError, ValueError, OverflowError):
        return False
