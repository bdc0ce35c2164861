"""A world in one thread: processes and their threads are greenlets, and its clock jumps from one event to the next.

What the real program waits for with threads, locks and sockets, it waits for here by switching to the loop, which is
asyncio's own with a clock that nobody has to wait for. All chance comes from one generator, so a seed fixes everything.
"""

import asyncio
import contextvars
import hashlib
import random
import traceback
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

QUICK, HICCUP = 0.0002, 0.02  # seconds until a thread runs that may: mostly, and when the system has other work
HICCUPS = 0.02  # share of them
MOST_STEPS = 400_000  # of the loop in one trial: far beyond what any needs


class Violation(AssertionError):
    """Something happened that must never happen."""


class Stuck(Violation):
    """Nothing will ever happen again, or things happen without end."""


class Loop(asyncio.BaseEventLoop):
    """Asyncio's loop in virtual time, with a second, faster list of what is to happen when."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.steps = 0.0, 0
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self.alarm: tuple[int, Callable[[], object]] | None = None  # after so many steps

    def time(self) -> float:
        return self.now

    def at(self, when: float, work: Callable[[], object]) -> None:
        """Do something then; of equal times, what was said first comes first."""
        self._count += 1
        heappush(self._coming, (when, self._count, work))

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stuck(f"no end after {MOST_STEPS} steps")
        if self.alarm and self.steps >= self.alarm[0]:
            (_, strike), self.alarm = self.alarm, None
            strike()
        if ready:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            return
        timers: Any = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0]._cancelled:
            heappop(timers)._scheduled = False
        if timers and (not self._coming or timers[0]._when < self._coming[0][0]):
            handle = heappop(timers)
            handle._scheduled = False
            self.now = max(self.now, handle._when)
            handle._run()
        elif self._coming:
            when, _, work = heappop(self._coming)
            self.now = max(self.now, when)
            work()
        else:
            raise Stuck("everybody waits, and nothing will happen")

    def _write_to_self(self) -> None:
        pass

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)


PROCESS: contextvars.ContextVar["Process"] = contextvars.ContextVar("process")


class Process:
    """A process of the world: what dies at once, and cannot clean up."""

    def __init__(self, world: "World", name: str, machine: str) -> None:
        self.world, self.name, self.machine = world, name, machine
        self.pid = world.number()
        self.alive, self.paused = True, False
        self.held: list[Callable[[], object]] = []  # what it has to do when it is not paused any more
        self.threads: dict[Thread, None] = {}
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.sockets: dict[Any, None] = {}  # open ones
        self.files: dict[int, Any] = {}  # descriptors of files and of memory
        self.at_death: list[Callable[[], object]] = []
        self.generations: dict[bytes, int] = {}  # the newest for which it has greeted others, by run
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return self.name

    def soon(self, work: Callable[[], object], delay: float = 0.0) -> None:
        """Let this process do something, unless it is dead then; when it is paused, later."""
        loop = self.world.loop
        loop.at(loop.now + delay, lambda: self._do(work))

    def _do(self, work: Callable[[], object]) -> None:
        if not self.alive:
            return
        if self.paused:
            self.held.append(work)
            return
        self.world.acting = self
        work()
        self.world.acting = None

    def resume(self) -> None:
        """Go on after a pause."""
        self.paused = False
        held, self.held = self.held, []
        for work in held:
            self.soon(work)

    def start_task(self, coroutine: Any) -> "asyncio.Task[Any]":
        """Run a coroutine in the event loop of this process."""
        task = self.world.loop.create_task(coroutine, context=self.context)
        self.tasks[task] = None
        task.add_done_callback(lambda task: self.tasks.pop(task, None))
        return task

    def kill(self) -> None:
        """End at once: nothing of it runs any more, not even what would clean up."""
        if self.alive:
            self.world.note(f"{self} is dead")
            self.alive = False
            for task in list(self.tasks):
                task.cancel()
            for ending in [*self.at_death]:
                ending()


class Thread(greenlet):
    """A thread of a process."""

    def __init__(self, process: Process, work: Callable[[], object], name: str) -> None:
        super().__init__(self._work, process.world.hub)
        self.process, self.name, self._target = process, name, work
        self.ticket = 0  # of its latest wait
        self.over = False
        self.watchers: list[tuple[Thread, int]] = []
        process.threads[self] = None
        process.world.threads.append(self)

    def _work(self) -> None:
        try:
            self._target()
        except GreenletExit:
            pass
        except BaseException:
            if self.process.alive and not self.process.world.closing:
                self.process.world.violate(f"thread {self.name} of {self.process} ended:\n{traceback.format_exc()}")
        self.over = True
        self.process.threads.pop(self, None)
        for watcher in self.watchers:
            self.process.world.wake(*watcher)


class World:
    """Everything that happens, in order."""

    def __init__(self, seed: int, keep_trace: bool = False) -> None:
        self.rng = random.Random(seed)
        self.loop = Loop()
        self.loop.set_exception_handler(self._complain)
        self.hub = getcurrent()
        self.threads: list[Thread] = []
        self.closing = False
        self.acting: Process | None = None  # whose work is done now, outside of threads and tasks
        self.violation: str | None = None
        self._number = 1000
        self._digest = hashlib.blake2b(digest_size=16)
        self.trace: list[str] | None = [] if keep_trace else None
        self.stopped = self.loop.create_future()

    def number(self) -> int:
        """One that was not used before."""
        self._number += 1
        return self._number

    @property
    def now(self) -> float:
        return self.loop.now

    def later(self, delay: float, work: Callable[..., object], *args: Any) -> None:
        """Let something happen."""
        self.loop.at(self.loop.now + delay, lambda: work(*args))

    def note(self, what: str) -> None:
        """Something happened."""
        line = f"{self.now:.6f} {what}"
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def fingerprint(self) -> str:
        """Of all that happened."""
        return self._digest.hexdigest()

    def violate(self, what: str) -> None:
        """Something is wrong: the trial is over."""
        self.note(f"VIOLATION {what}")
        if self.violation is None and not self.closing:
            self.violation = what
            if not self.stopped.done():
                self.stopped.set_result(None)

    def _complain(self, loop: Any, context: dict[str, Any]) -> None:
        if not self.closing:
            error = context.get("exception")
            told = "".join(traceback.format_exception(error)) if error else ""
            self.violate(f"{context.get('message')} {told}")

    def current(self) -> Process:
        """The process that does this."""
        thread = getcurrent()
        return thread.process if isinstance(thread, Thread) else self.acting or PROCESS.get()

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def lag(self) -> float:
        """Seconds until a thread runs that may."""
        return self.rng.random() * (HICCUP if self.rng.random() < HICCUPS else QUICK)

    def spawn(self, process: Process, work: Callable[[], object], name: str) -> Thread:
        """Start a thread."""
        thread = Thread(process, work, name)
        process.soon(thread.switch, self.lag())
        return thread

    def ticket(self) -> tuple[Thread, int]:
        """For who wants to wake up this thread, from the wait that comes next."""
        thread = getcurrent()
        if not isinstance(thread, Thread):
            raise RuntimeError("an event loop must not wait")
        return thread, thread.ticket + 1

    def wait(self, timeout: float | None = None) -> bool:
        """Let this thread wait until it is woken up; whether it was in time."""
        if self.closing:
            raise GreenletExit
        thread, ticket = self.ticket()
        thread.ticket = ticket
        if timeout is not None:
            thread.process.soon(lambda: self._run(thread, ticket, False), max(timeout, 0.0))
        woken = self.hub.switch()
        if self.closing:
            raise GreenletExit
        return bool(woken)

    def wake(self, thread: Thread, ticket: int) -> None:
        """Let a thread go on that waits."""
        if thread.process.alive and not thread.over:
            thread.process.soon(lambda: self._run(thread, ticket, True), self.lag())

    def _run(self, thread: Thread, ticket: int, woken: bool) -> None:
        if thread.ticket == ticket and not thread.over:
            thread.ticket += 1
            thread.switch(woken)

    def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def give_way(self, share: float = 0.1) -> None:
        """A moment at which another thread may come first."""
        if not self.closing and isinstance(getcurrent(), Thread) and self.chance(share):
            self.wait(self.lag())

    def run(self, until: Any) -> None:
        """Let things happen until a future is done, or something is wrong."""

        async def either() -> None:
            await asyncio.wait([until, self.stopped], return_when=asyncio.FIRST_COMPLETED)

        self.loop.run_until_complete(either())

    def close(self) -> None:
        """End all that is left, so that Python can forget it."""
        self.closing = True
        for _ in range(3):
            for thread in [thread for thread in self.threads if not thread.over]:
                if thread:  # it has begun
                    thread.throw(GreenletExit)
                thread.over = True
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop._ready.clear()  # type: ignore[attr-defined]
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


_worlds: list[World] = []


def world() -> World:
    """The one that there is now."""
    return _worlds[-1]


def enter(made: World) -> None:
    _worlds.append(made)


def leave() -> None:
    _worlds.pop()
