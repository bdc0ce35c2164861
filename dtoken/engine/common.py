"""What threads have in common that hand tokens to each other, in one process or in several of one machine."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays
from dtoken.compiled import compiled
from dtoken.engine.events.primitives import store_release

LINE = 64  # bytes that go from processor to processor together: arrays begin at a multiple


class Common(NamedTuple):
    """The tokens, and the numbers by which they change hands."""

    tokens: Arrays
    ready: NDArray[np.int64]  # (K,) turns of each token that is here, -1: it is not
    sleeps: NDArray[np.int64]  # (threads,) whether each thread sleeps: see `dtoken.engine.events.sleeping`
    bells: NDArray[np.int64]  # (2,) trips of a message whose way is timed, to and fro
    message: NDArray[np.int64]  # of the size of a token


def own_common(tokens: Arrays, count: int, threads: int) -> Common:
    """So many tokens and threads of one process."""
    size = sum(array[:1].nbytes for array in tokens)
    return Common(tokens, *(np.zeros(length, np.int64) for length in (count, threads, 2, -(-size // 8))))


def lay_out(like: Common, memory: memoryview) -> Common:
    """The same arrays in ``memory``; their numbers are not copied."""
    made, offset = [], 0
    for array in _arrays(like):
        made.append(np.ndarray(array.shape, array.dtype, memory, offset))
        offset += _whole_lines(array.nbytes)
    tokens = len(like.tokens)
    return Common(type(like.tokens)(*made[:tokens]), *made[tokens:])


def allocate(like: Common) -> Common:
    """The same arrays in memory of this process."""
    return lay_out(like, np.empty(common_bytes(like), np.uint8).data)


def common_bytes(like: Common) -> int:
    """How much memory that takes."""
    return sum(_whole_lines(array.nbytes) for array in _arrays(like))


@compiled
def ring(bells: Any, bell: int, trip: int, message: Any) -> None:
    """Write to each line of the message, and say that this was its trip number ``trip``."""
    for entry in range(0, len(message), LINE // 8):
        message[entry] += 1
    store_release(bells, bell, trip)


def _arrays(common: Common) -> list[NDArray[Any]]:
    return [*common.tokens, *common[1:]]


def _whole_lines(size: int) -> int:
    return -(-size // LINE) * LINE
