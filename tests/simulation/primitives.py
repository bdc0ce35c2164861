"""What the program takes from threading, concurrent.futures and time, in a world of one thread."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.simulation.world import Thread, world


class SimThread:
    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...] = (), daemon: bool = True, name: str = ""):
        self._work, self._name = (lambda: target(*args)), name
        self._thread: Thread | None = None

    def start(self) -> None:
        here = world()
        self._thread = here.spawn(here.current(), self._work, self._name)

    def join(self) -> None:
        assert self._thread is not None
        while not self._thread.over:
            self._thread.watchers.append(world().ticket())
            world().wait()


class SimCondition:
    """No lock is needed: a thread gives way before it would take it, and while it waits."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Thread, int]] = []

    def __enter__(self) -> "SimCondition":
        world().give_way()
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        ticket = world().ticket()
        self._waiting.append(ticket)
        woken = world().wait(timeout)
        if not woken and ticket in self._waiting:
            self._waiting.remove(ticket)
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        until = None if timeout is None else world().now + timeout
        while not (found := predicate()):
            left = None if until is None else until - world().now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            world().wake(*each)


class SimEvent:
    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set


class SimFuture(Future[Any]):
    """A result that a thread of this world can wait for."""

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            ticket = world().ticket()
            self.add_done_callback(lambda _, ticket=ticket: world().wake(*ticket))  # type: ignore[misc]
            world().wait()
        return super().result(0)


class SimExecutor:
    """Threads that work off a queue; they exist while there is work."""

    def __init__(self, max_workers: int = 1, thread_name_prefix: str = "") -> None:
        self._most, self._name = max_workers, thread_name_prefix
        self._queue: deque[tuple[SimFuture, Callable[[], Any]]] = deque()
        self._running, self._shut = 0, False
        self._process = world().current()

    def submit(self, work: Callable[..., Any], *args: Any) -> SimFuture:
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = SimFuture()
        self._queue.append((future, lambda: work(*args)))
        if self._running < self._most:
            self._running += 1
            world().spawn(self._process, self._drain, self._name)
        return future

    def _drain(self) -> None:
        while self._queue:
            future, work = self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._running -= 1

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        futures = [self.submit(function, item) for item in items]
        return [future.result() for future in futures]

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        self._shut = True
        if cancel_futures:
            while self._queue:
                self._queue.popleft()[0].cancel()
        while wait and self._running and not world().closing:
            world().sleep(0.001)

    def __enter__(self) -> "SimExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class SimTimer:
    """Tornado's PeriodicCallback."""

    def __init__(self, work: Callable[[], object], milliseconds: float) -> None:
        self._work, self._seconds, self._going = work, milliseconds / 1000, False
        self._process = world().current()

    def start(self) -> None:
        self._going = True
        self._process.soon(self._tick, self._seconds)

    def stop(self) -> None:
        self._going = False

    def _tick(self) -> None:
        if self._going and not world().closing:
            self._work()
            self._process.soon(self._tick, self._seconds)


def _now() -> float:
    return world().now


THREADING = SimpleNamespace(
    Thread=SimThread,
    Condition=SimCondition,
    Event=SimEvent,
    current_thread=lambda: None,
    main_thread=lambda: THREADING,  # no thread here gets signals
)
TIME = SimpleNamespace(monotonic=_now, perf_counter=_now, time=_now, sleep=lambda seconds: world().sleep(seconds))
