"""Ranges of consecutive things, against plain loops and numpy's own sums."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtoken.data.ranges import joined, range_sums


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 60), st.none() | st.integers(0, 40))
def test_joined_as_a_plain_loop_has_it(weights: list[int], limit: int, alone: int | None) -> None:
    ranges: list[list[int]] = []
    for number, weight in enumerate(weights):
        large = weight >= (limit + 1 if alone is None else alone)
        last = ranges[-1] if ranges else None
        closed = last is not None and weights[last[0]] >= (limit + 1 if alone is None else alone)
        if last is None or large or closed or sum(weights[k] for k in last) + weight > limit:
            ranges.append([number])
        else:
            last.append(number)
    assert joined(np.array(weights), limit, alone).tolist() == [members[0] for members in ranges]


def test_sums_have_the_bits_of_numpy() -> None:
    rng = np.random.default_rng(0)
    sizes = [*range(300), 1000, 1023, 1024, 1025, 5000, 100_003]
    first = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.standard_normal(first[-1]) * 10.0 ** rng.integers(-8, 8, first[-1])
    expected = [values[a:b].sum() for a, b in pairwise(first)]
    assert range_sums(values, first).tolist() == expected
