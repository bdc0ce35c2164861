"""When a run has come to an accuracy, against plain loops over the records."""

import math

import numpy as np
import pytest

from dtoken.engine.loop.accuracy import Crossing, crossing, settled


def by_hand(values: list[float], accuracy: float) -> Crossing:
    """Backwards for as long as values are below; forwards to the first that comes after one above."""
    stays = len(values)
    while stays > 0 and values[stays - 1] <= accuracy:
        stays -= 1
    reached, was_above = None, False
    for at, value in enumerate(values):
        if reached is None and value <= accuracy and (was_above or stays == 0):
            reached = at
        was_above = was_above or not value <= accuracy
    return Crossing(reached, None if stays == len(values) else stays)


@pytest.mark.parametrize("seed", range(20))
def test_a_noisy_curve(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = (10.0 ** (-np.arange(40) / 15) * rng.lognormal(0, 0.8, 40)).tolist()
    for accuracy in (3.0, 1.0, 0.3, 0.1, 0.03, 0.01):
        found = crossing(values, accuracy)
        assert found == by_hand(values, accuracy)
        for patience in (1, 2, 3, 7):
            below = found.stays_below is not None and len(values) - found.stays_below >= patience
            assert settled(values, accuracy, patience) == below


def test_a_start_below_by_chance_that_rises_has_not_reached_it() -> None:
    assert crossing([0.05, 606.0, 30.0, 2.0], 0.1) == (None, None)
    assert crossing([0.05, 606.0, 30.0, 0.02, 0.3, 0.01], 0.1) == (3, 5)


def test_a_run_that_is_below_from_start_to_end_was_there_at_its_start() -> None:
    assert crossing([0.05, 0.07, 0.01], 0.1) == (0, 0)


def test_what_is_no_number_is_not_below() -> None:
    assert crossing([1.0, 0.01, math.nan, 0.01], 0.1) == (1, 3)
    assert not settled([0.01, math.nan], 0.1, 1)


def test_nothing_measured_nothing_reached() -> None:
    assert crossing([], 0.1) == (None, None)
    assert not settled([], 0.1, 1)
