"""Numbers from keys: known values, the laws that they promise, and no key that gives what another one gives."""

import numpy as np
from scipy import stats

from dtoken.schedule.random import below, bits, event_key, normal, uniform

UNLIKELY = 1e-4  # a p-value below this fails; keys are fixed, so a test that passes once always does


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator as its authors wrote it down, in whole numbers."""
    mask, found = 2**64 - 1, []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return found


def test_numbers_are_those_of_splitmix64() -> None:
    assert splitmix64(1234567, 2) == [6457827717110365317, 3203168211198807973]  # published
    for seed in (0, 1234567, 2**63 + 5, 2**64 - 1):
        assert [int(bits(np.uint64(seed), number)) for number in range(5)] == splitmix64(seed, 5)


def test_laws() -> None:
    key = np.uint64(7)
    assert stats.kstest([uniform(key, k) for k in range(5000)], "uniform").pvalue > UNLIKELY
    assert stats.kstest([normal(key, k) for k in range(5000)], "norm").pvalue > UNLIKELY
    counts = np.bincount([below(key, k, 7) for k in range(7000)], minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > UNLIKELY


def test_every_event_of_every_seed_has_a_key_of_its_own() -> None:
    times = [*np.arange(1.0, 200.0), 0.5, 1e-300, np.nextafter(1.0, 2.0), 2.0**52]
    keys = {int(event_key(np.uint64(seed), t)) for seed in (0, 1, 2, 2**64 - 1) for t in times}
    assert len(keys) == 4 * len(times)
    assert int(event_key(np.uint64(3), 5.0)) == int(event_key(np.uint64(3), 5.0))


def test_neighbouring_keys_are_not_alike() -> None:
    """Numbers of one event against those of the next: no correlation."""
    a, b = ([uniform(np.uint64(event_key(np.uint64(0), float(t + s))), 0) for t in range(4000)] for s in (0, 1))
    assert stats.pearsonr(a, b).pvalue > UNLIKELY
