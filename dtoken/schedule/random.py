"""Random numbers that compiled code makes from a key and a counter: nothing is drawn in order, nothing is remembered.

A step that needs chance gets a key from the seed of the run and its own time ``t``, by which an event is known wherever
it happens: ``key = event_key(c.seed, t)``, then ``uniform(key, 0)``, ``normal(key, 1)`` and so on, each from another
number. So results do not depend on threads, hosts, budgets, or where a run was resumed. See docs/add-a-method.md.

The numbers are those of splitmix64 (Steele, Lea, Flood 2014), whose state is the key plus a multiple of the counter.
"""

import math

import numpy as np

from dtoken.compiled import compiled

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
ONE, HALF_WORD = np.uint64(1), np.uint64(32)
LONG, MIDDLE, SHORT, SPARE = np.uint64(31), np.uint64(30), np.uint64(27), np.uint64(11)
UNIT = 2.0**-53


@compiled
def bits(key: np.uint64, number: int) -> np.uint64:
    """64 random bits, number ``number`` of those that belong to the key; a key for something else, too.

    Examples
    --------
    >>> hex(bits(np.uint64(1234567), 0))  # the first number of splitmix64 from this seed
    '0x599ed017fb08fc85'
    """
    z = key + STEP * (np.uint64(number) + ONE)
    z = (z ^ (z >> MIDDLE)) * FIRST
    z = (z ^ (z >> SHORT)) * SECOND
    return np.uint64(z ^ (z >> LONG))


@compiled
def event_key(seed: np.uint64, t: float) -> np.uint64:
    """The key of the event at time ``t`` of a run with this seed."""
    return bits(bits(np.uint64(seed), 1), int(np.float64(t).view(np.int64)))


@compiled
def uniform(key: np.uint64, number: int) -> float:
    """Uniform in [0, 1)."""
    return float(bits(key, number) >> SPARE) * UNIT


@compiled
def below(key: np.uint64, number: int, size: int) -> int:
    """Uniform among 0, ..., size - 1, for sizes below 2**32."""
    return int(np.int64(((bits(key, number) >> HALF_WORD) * np.uint64(size)) >> HALF_WORD))


@compiled
def normal(key: np.uint64, number: int) -> float:
    """Standard normal, by the method of Box and Muller from two uniform numbers of its own."""
    own = bits(key, number)
    return math.sqrt(-2.0 * math.log(1.0 - uniform(own, 0))) * math.cos(2.0 * math.pi * uniform(own, 1))
