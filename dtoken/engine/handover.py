"""How the threads of a host hand tokens over: to each other, to other hosts of this machine, to hosts elsewhere.

Threads that have tokens in common notice by themselves that one is ready, unless they sleep; to all others tokens are
sent by a courier.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays
from dtoken.engine.common import allocate, lay_out, own_common
from dtoken.engine.events.executor import NOBODY, publish, ready_visit
from dtoken.engine.events.plan import Plan
from dtoken.engine.events.sleeping import AWAKE, ELSEWHERE, must_tell, patience, sleep, wake


class Courier(Protocol):
    """How tokens go to hosts that share no memory with this one; called by the threads of a runner."""

    def send(self, k: int, host: int, turn: int) -> None:
        """Send token k, which has been part of ``turn`` visits and meets."""

    def failed(self) -> bool:
        """Whether tokens may never come: the next call of ``check`` says why."""

    def check(self) -> None:
        """Raise what went wrong, if anything did."""


class NoCourier:
    """There is one host: tokens are handed over by its threads."""

    def send(self, k: int, host: int, turn: int) -> None:
        """Never called."""
        raise AssertionError(f"token {k} has nowhere to go")

    def failed(self) -> bool:
        """Nothing can."""
        return False

    def check(self) -> None:
        """Nothing can go wrong."""


class Hops(NamedTuple):
    """How many tokens came from another node, by the way that they took."""

    thread: int  # of the same thread
    threads: int  # of another thread of this process
    shared: int  # of another process, through memory that both share
    network: int  # from elsewhere, as a message


class Handover:
    """The tokens that a host can reach, and the ways on which they come and go.

    Parameters
    ----------
    tokens
        Their states.
    count
        How many tokens there are.
    host, me
        The host of each thread of the run, and the one at which this is.
    courier
        For tokens that go elsewhere.
    """

    def __init__(self, tokens: Arrays, count: int, host: NDArray[np.int64], me: int, courier: Courier) -> None:
        self._host, self._courier = host, courier
        self._here = host == me
        self.threads: list[int] = np.flatnonzero(self._here).tolist()
        self.common = own_common(tokens, count, len(host))
        self._shared = False
        self.share()

    def share(self, memory: memoryview | None = None, hosts: Sequence[int] = ()) -> None:
        """Have tokens in common with other ``hosts``, in ``memory`` that they all share, or with nobody.

        It has `common_bytes` bytes. What is in it must be put there afterwards, by all of them.
        """
        if memory is not None:
            self.common = lay_out(self.common, memory)
        elif self._shared:
            self.common = allocate(self.common)
        self._shared = memory is not None
        self.near = self._here | np.isin(self._host, hosts)  # threads with which tokens are in common
        self.common.sleeps[:] = np.where(self.near, AWAKE, ELSEWHERE)
        self.common.bells[:] = 0
        self.patience = patience(self.near)

    def put(self, tokens: Arrays) -> None:
        """Give all tokens these states."""
        for place, token in zip(self.common.tokens, tokens, strict=True):
            place[...] = token

    def place(self, thread: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        """Note at which thread each token is after so many turns; all who have it in common note the same."""
        self.common.ready[:] = np.where(self.near[thread], turns, -1)

    def hops(self, thread: int, came: NDArray[np.int64]) -> Hops:
        """The ways of tokens that came to ``thread``, from how many came from each."""
        here, near, own = (int(came[which].sum()) for which in (self._here, self.near, thread))
        return Hops(own, here - own, near - here, int(came.sum()) - near)

    def wait(self, thread: int, plan: Plan, cursor: NDArray[np.int64], gives_up: Callable[[], bool]) -> None:
        """Let ``thread``, which is at ``cursor`` of its plan, sleep until a token has come with which it can go on."""
        ready, failed = self.common.ready, self._courier.failed
        sleep(
            self.common.sleeps,
            thread,
            lambda: ready_visit(plan, cursor, ready) != NOBODY or gives_up() or failed(),
        )
        self._courier.check()

    def wake(self) -> None:
        """Wake up all threads of this host, to see that there is nothing to wait for any more."""
        for thread in self.threads:
            wake(self.common.sleeps, thread)

    def arrived(self, k: int, turn: int) -> None:
        """Token k has come from elsewhere, and is in its place."""
        publish(self.common.ready, k, turn)
        for thread in self.threads:
            if must_tell(self.common.sleeps, thread):
                wake(self.common.sleeps, thread)

    def pass_on(self, k: int, thread: int, turn: int) -> float:
        """Tell a thread that token k goes there, if it must be told: send it there, or wake it up; seconds it took."""
        ready, sleeps = self.common.ready, self.common.sleeps
        if not must_tell(sleeps, thread):
            return 0.0
        began = time.perf_counter()
        if self.near[thread]:
            wake(sleeps, thread)
        else:
            ready[k] = -1
            self._courier.send(k, int(self._host[thread]), turn)
        return time.perf_counter() - began
