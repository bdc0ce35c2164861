"""How a thread waits for a token at no cost, and how others wake it up, in this process or another one.

Every thread has a number in an array that all share who hand tokens to each other: AWAKE, or ASLEEP until a token
comes, or ELSEWHERE if it shares no memory with those who read this, so that tokens must be sent to it. Who makes a
token ready looks at that number afterwards; who goes to sleep says so first, and then looks once more for a token. So
one of both always sees what the other did.

Linux lets a thread sleep as long as a number in memory is what it was (futex), also for another process to change it.
Where there is no such thing, it looks again now and then.
"""

import ctypes
import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.engine.events.primitives import fence, load_acquire, pause, store_release
from dtoken.engine.processors import own_processors

AWAKE, ASLEEP, ELSEWHERE = range(3)
NAP_SECONDS = 0.0002  # from one look to the next, where threads cannot be woken up
WAIT, WAKE = 0, 1  # operations of futex
EVERYBODY = 2**31 - 1
FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221}  # number of the system call
LOOKS = 2000  # about as long as it takes to fall asleep and to be woken up, some times over
TIMED_LOOKS = 2000
FEW_LOOKS = 20  # where threads take the processor from each other

Numbers = NDArray[np.int64]


@compiled
def must_tell(sleeps: Any, thread: int) -> bool:
    """Whether a thread (-1: none) to which a token goes, which was made ready, would not notice."""
    if thread < 0:
        return False
    fence()
    return bool(load_acquire(sleeps, thread) != AWAKE)


@compiled
def _announce(sleeps: Any, thread: int) -> None:
    store_release(sleeps, thread, ASLEEP)
    fence()


@compiled
def looks(ready: Any, k: int, turn: int, most: int) -> int:
    """Look for a token until it is there, at most so often; return how often it was not."""
    for count in range(most):
        if load_acquire(ready, k) == turn:
            return count
        pause()
    return most


def patience(near: NDArray[np.bool_]) -> int:
    """Looks for a token before a thread sleeps; ``near`` are the threads of the run that share memory with it.

    A token that comes as a message is received by a thread that needs a processor itself: who looks for long only keeps
    it from that.
    """
    return LOOKS if near.all() and len(near) <= own_processors() else FEW_LOOKS


@cache
def look_seconds() -> float:
    """Seconds that one look takes."""
    never = np.zeros(1, np.int64)
    looks(never, 0, 1, 1)  # compiles
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        looks(never, 0, 1, TIMED_LOOKS)
        taken.append(time.perf_counter() - began)
    return min(taken) / TIMED_LOOKS


def sleep(sleeps: Numbers, thread: int, enough: Callable[[], bool]) -> None:
    """Let ``thread``, which is the calling one, sleep until it is woken up and there is nothing to wait for any more.

    ``enough`` says whether that is so; a token that it can use has come, for instance.
    """
    try:
        while True:
            _announce(sleeps, thread)
            if enough():
                return
            _wait(sleeps, thread)
    finally:
        sleeps[thread] = AWAKE


def wake(sleeps: Numbers, thread: int) -> None:
    """Wake up a thread that may sleep; it looks then whether there is still something to wait for."""
    sleeps[thread] = AWAKE
    if (call := _system_call()) is not None:
        call(FUTEX[platform.machine()], _address(sleeps, thread), WAKE, EVERYBODY, None, None, 0)


def _wait(sleeps: Numbers, thread: int) -> None:
    if (call := _system_call()) is None:
        time.sleep(NAP_SECONDS)
    else:
        call(FUTEX[platform.machine()], _address(sleeps, thread), WAIT, ASLEEP, None, None, 0)


def _address(sleeps: Numbers, thread: int) -> int:
    """Of the lower half of the thread's number, which these machines have first."""
    return sleeps.ctypes.data + sleeps.itemsize * thread


@cache
def _system_call() -> Any:
    if sys.platform != "linux" or platform.machine() not in FUTEX:
        return None
    call = ctypes.CDLL(None).syscall
    number, pointer = ctypes.c_long, ctypes.c_void_p
    call.argtypes = [number, pointer, ctypes.c_int, ctypes.c_uint32, pointer, pointer, ctypes.c_uint32]
    call.restype = number
    return call
