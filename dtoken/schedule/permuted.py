"""Samples without replacement: every node goes through its samples in a fresh random order each epoch, in buckets.

A bucket are consecutive samples. The buckets of a node come in random order, four at a time, which take turns: a sample
of the first, one of the second, and so on, each bucket in order from a random one of its samples on, and around. So
reading is in a few long streams, and the order is as good as one of single samples. It would not be if samples had the
same neighbours in every epoch: where they have much in common, methods with momentum then take several times the passes
(docs/algorithms.md). Where the samples of a node do not fill the last bucket, that one is shorter, and comes anywhere
among the others.

The order is a function of (seed, node, epoch) that is computed at any place without the places before it. So the sample
of a step is a function of the seed, the node, and how many samples the node has used before: ``window_at``. Few buckets
are put in order by a shuffle, all orders being equally likely; many by rounds that each add to one coordinate of
(bucket // b, bucket % b) a random function of the other, and leave no pattern.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.schedule.events import Events
from dtoken.schedule.random import below, bits

FEW = 32  # buckets up to which orders are shuffles, which take as many numbers as there are buckets
ROUNDS = 5  # of both coordinates
TOGETHER = 4  # buckets that take turns
LEAST = 16  # buckets that a node has at least, or one for each sample: fewer would have the same company every time


class Order(NamedTuple):
    """How large the nodes and their buckets are."""

    sizes: NDArray[np.int64]  # (n,) samples of each node that are not empty
    bucket: int  # samples of a bucket; one that is larger than a 16th of a node is cut to that


@compiled
def order_key(seed: np.uint64) -> np.uint64:
    """The key of all orders of a run."""
    return bits(seed, 0)


def in_order(events: Events, order: Order | None, seed: int, used: NDArray[np.int64]) -> NDArray[np.int64]:
    """Let events that draw a sample use the next one of their node; return how many each node has used then.

    Parameters
    ----------
    events
        Independent draws; these are replaced by numbers that stand for the samples in order.
    order
        None: draws stay independent.
    seed
        Of the run.
    used
        (n,) samples that each node has used before; (0,): none.
    """
    if order is None:
        return used
    counted = used.copy() if len(used) else np.zeros(len(order.sizes), np.int64)
    _put_in_order(events.node, events.draw, order, np.uint64(seed), counted)
    return counted


@compiled
def _put_in_order(
    node: NDArray[np.int32], draw: NDArray[np.float64], order: Order, seed: np.uint64, used: NDArray[np.int64]
) -> None:
    key = order_key(seed)
    place, count, room = np.full(len(used), -1, np.int32), 0, 0  # of the nodes that draw: few of a million do
    for event in range(len(node)):
        i = node[event]
        if draw[event] >= 0.0 and place[i] < 0:
            place[i] = count
            count += 1
            room = max(room, window_room(order.sizes[i], order.bucket))
    windows = np.empty((count, room), np.int64)
    at, end = np.zeros(count, np.int64), np.zeros(count, np.int64)  # of each in its window
    for event in range(len(node)):
        if draw[event] >= 0.0:
            i = node[event]
            p = place[i]
            if at[p] == end[p]:
                at[p], end[p] = window_at(key, i, order.sizes[i], order.bucket, used[i], windows[p])
            draw[event] = (windows[p, at[p]] + 0.5) / order.sizes[i]
            at[p] += 1
            used[i] += 1


@compiled
def window_room(size: int, bucket: int) -> int:
    """The most samples that a window has."""
    return min(TOGETHER * cut_bucket(size, bucket), size)


@compiled
def cut_bucket(size: int, bucket: int) -> int:
    """Samples of a bucket of a node that has so many."""
    return max(1, min(bucket, size // LEAST))


@compiled
def window_at(key: np.uint64, node: int, size: int, bucket: int, used: int, out: NDArray[np.int64]) -> tuple[int, int]:
    """Write the samples of the buckets that a node is at, in their order; return its place there, and their number.

    Parameters
    ----------
    key
        Of the run: ``order_key``.
    node
        Its number in the whole graph.
    size, bucket
        Samples of the node, and of a bucket.
    used
        Samples that the node has used before.
    out
        Has ``window_room`` places.
    """
    epoch = used // size
    place = used - epoch * size
    own = bits(bits(key, node), epoch)
    bucket = cut_bucket(size, bucket)
    full = size // bucket
    rest = size - full * bucket
    short = below(own, -1, full + 1) if rest > 0 else full  # where in the order the short bucket comes
    number = place // bucket  # of the bucket at this place
    if place >= short * bucket:
        number = short if place < short * bucket + rest else (place - rest) // bucket + 1
    first = number - number % TOGETHER
    start = first * bucket - (bucket - rest if first > short else 0)
    together = min(TOGETHER, full + (rest > 0) - first)
    starts, drawn = bits(bits(own, -2), first), np.empty((TOGETHER, 3), np.int64)
    for turn in range(together):
        each = first + turn
        is_short = rest > 0 and each == short
        length = rest if is_short else bucket
        begin = full * bucket if is_short else permuted(own, each - (each > short), full) * bucket
        drawn[turn, 0], drawn[turn, 1], drawn[turn, 2] = begin, length, below(starts, turn, length)
    count = 0
    for k in range(bucket):
        for turn in range(together):
            begin, length, shift = drawn[turn]
            if k < length:
                out[count] = begin + k + shift - (length if k + shift >= length else 0)
                count += 1
    return place - start, count


def slots(seed: int, node: int, size: int, bucket: int, used: int, count: int) -> NDArray[np.int64]:
    """The next ``count`` samples of a node that has used so many, counted among its samples that are not empty.

    Examples
    --------
    >>> epoch = slots(0, node=3, size=10, bucket=4, used=0, count=10)
    >>> sorted(epoch.tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    found = np.empty(count, np.int64)
    fill(np.uint64(seed), node, size, bucket, used, found)
    return found


@compiled
def fill(seed: np.uint64, node: int, size: int, bucket: int, used: int, out: NDArray[np.int64]) -> None:
    """Write the next samples of a node that has used so many."""
    window = np.empty(window_room(size, bucket), np.int64)
    done = 0
    while done < len(out):
        at, end = window_at(order_key(seed), node, size, bucket, used + done, window)
        end = min(end, at + len(out) - done)
        for sample in window[at:end]:
            out[done] = sample
            done += 1


@compiled
def permuted(key: np.uint64, x: int, size: int) -> int:
    """Where the order of this key has x, for x from 0 to before ``size``."""
    if size <= FEW:
        for k in range(size - 1, 0, -1):  # the transpositions of a shuffle
            j = below(key, k, k + 1)
            if x == k:
                x = j
            elif x == j:
                x = k
        return x
    a = math.ceil(math.sqrt(size))
    b = (size + a - 1) // a
    while True:  # of a * b places, those that are none of ours are passed over
        high = x // b
        low = x - high * b
        for turn in range(ROUNDS):
            high += below(key, 2 * (ROUNDS * low + turn), a)
            high -= a if high >= a else 0
            low += below(key, 2 * (ROUNDS * high + turn) + 1, b)
            low -= b if low >= b else 0
        x = high * b + low
        if x < size:
            return x
