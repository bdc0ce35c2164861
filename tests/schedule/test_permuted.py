"""Orders of samples: each once an epoch, all orders alike, and any place without the places before it."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dtoken.schedule.permuted import FEW, LEAST, TOGETHER, cut_bucket, order_key, permuted, slots
from dtoken.schedule.random import bits

UNLIKELY = 1e-4  # a p-value below this fails; keys are fixed, so a test that passes once always does
KEY = np.uint64(order_key(np.uint64(0)))


def key(number: int) -> np.uint64:
    return np.uint64(bits(KEY, number))


def order(number: int, size: int) -> list[int]:
    return [permuted(key(number), x, size) for x in range(size)]


@pytest.mark.parametrize("size", [*range(1, 12), FEW, FEW + 1, 35, 36, 37, 100, 997, 1024])
def test_is_a_permutation(size: int) -> None:
    for number in range(20):
        assert sorted(order(number, size)) == list(range(size))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_orders_of_few_are_equally_likely(size: int) -> None:
    found = Counter(tuple(order(number, size)) for number in range(6000))
    assert stats.chisquare([found[each] for each in permutations(range(size))]).pvalue > UNLIKELY


@pytest.mark.parametrize("size", [7, FEW, FEW + 1, 40, 100])
def test_every_place_is_as_likely_for_every_one_and_for_every_two(size: int) -> None:
    orders = np.array([order(number, size) for number in range(4000)])
    for x in (0, 1, size // 2, size - 1):
        assert stats.chisquare(np.bincount(orders[:, x], minlength=size)).pvalue > UNLIKELY
    for x, y in ((0, 1), (1, 2), (0, size - 1), (size // 3, size // 2)):  # where y is, seen from x
        apart = (orders[:, y] - orders[:, x]) % size
        assert stats.chisquare(np.bincount(apart, minlength=size)[1:]).pvalue > UNLIKELY


def test_neighbours_are_as_often_neighbours_again_as_chance_has_it() -> None:
    size = 60
    orders = np.array([order(number, size) for number in range(3000)])
    again = int(np.count_nonzero(np.abs(np.diff(orders, axis=1)) == 1))
    expected = 2 * (size - 1) / (size * (size - 1)) * (size - 1) * len(orders)
    assert abs(again - expected) <= 4 * np.sqrt(expected)


def buckets(epoch: Sequence[int], size: int, bucket: int) -> list[list[int]]:
    """The buckets of an epoch that come together, in their order; each is seen to be whole."""
    bucket = max(1, min(bucket, size // LEAST))
    found: list[list[int]] = []
    numbers: set[int] = set()
    lacking = 0
    for sample in epoch:
        number = sample // bucket
        if number not in numbers:
            numbers.add(number)
            lacking += min(bucket, size - number * bucket)
        lacking -= 1
        assert len(numbers) <= TOGETHER
        if lacking == 0 and (len(numbers) == TOGETHER or sum(map(len, found)) + len(numbers) == -(-size // bucket)):
            found.append(sorted(numbers))
            numbers = set()
    assert lacking == 0
    return found


@given(
    size=st.integers(1, 300),
    bucket=st.integers(1, 400),
    node=st.integers(0, 5),
    epoch=st.integers(0, 2**40),
    seed=st.integers(0, 2**64 - 1),
)
def test_an_epoch_has_every_sample_once_a_few_whole_buckets_at_a_time(
    size: int, bucket: int, node: int, epoch: int, seed: int
) -> None:
    found = slots(seed, node, size, bucket, epoch * size, size)
    assert sorted(found.tolist()) == list(range(size))
    in_order = [number for some in buckets(found.tolist(), size, bucket) for number in some]
    assert sorted(in_order) == list(range(-(-size // max(1, min(bucket, size // LEAST)))))


@given(size=st.integers(1, 100), bucket=st.integers(1, 120), used=st.integers(0, 500), count=st.integers(0, 200))
def test_any_place_is_found_without_the_places_before_it(size: int, bucket: int, used: int, count: int) -> None:
    whole = slots(0, 2, size, bucket, 0, used + count)
    assert slots(0, 2, size, bucket, used, count).tolist() == whole[used:].tolist()


def test_orders_of_epochs_nodes_and_seeds_differ() -> None:
    size, bucket = 320, 8
    orders = {
        str(buckets(slots(seed, node, size, bucket, epoch * size, size).tolist(), size, bucket))
        for seed in range(3)
        for node in range(4)
        for epoch in range(5)
    }
    assert len(orders) == 60


def test_a_short_bucket_comes_anywhere() -> None:
    """17 buckets, the last of one sample: with three others in one of four windows, or alone at the end."""
    size, places = 4 * 4 * TOGETHER + 1, []
    for epoch in range(3000):
        together = buckets(slots(0, 0, size, 4, size * epoch, size).tolist(), size, 4)
        places += [place for place, some in enumerate(together) if 4 * TOGETHER in some]
    assert stats.chisquare(np.bincount(places), 3000 * np.array([4, 4, 4, 4, 1]) / 17).pvalue > UNLIKELY


def test_buckets_take_turns_each_in_order_from_a_random_sample_on() -> None:
    bucket, epochs = 4, 800
    size = LEAST * bucket
    orders = slots(3, 1, size, bucket, 0, size * epochs).reshape(epochs, -1, bucket, TOGETHER)
    streams = orders.transpose(0, 1, 3, 2).reshape(-1, bucket)
    assert (streams // bucket == streams[:, :1] // bucket).all()
    assert (np.diff(streams % bucket, axis=1) % bucket == 1).all()
    for x in (0, 5, LEAST - 1):
        first = streams[streams[:, 0] // bucket == x, 0] % bucket
        assert stats.chisquare(np.bincount(first, minlength=bucket)).pvalue > UNLIKELY


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (31, 1), (32, 2), (100, 6), (511, 31), (512, 32), (10**6, 32)])
def test_a_bucket_is_at_most_a_sixteenth_of_its_node(size: int, rows: int) -> None:
    """A node that is all in one bucket would have the same order every epoch."""
    assert cut_bucket(size, 32) == rows
    few = slots(0, 0, size, 32, 0, min(size, 1000)).tolist()
    assert few == slots(0, 0, size, rows, 0, min(size, 1000)).tolist()
