"""How much memory this process uses while a run goes on."""

import threading
import time
from types import TracebackType
from typing import Self

import psutil

EVERY = 0.1  # seconds between two samples, at first
MOST = 2000  # samples; when there are more, the smaller of every two is dropped and the interval doubled


class MemorySamples:
    """Takes samples in the background: seconds since the start, and resident bytes.

    Examples
    --------
    >>> with MemorySamples() as samples:
    ...     pass
    >>> samples.taken[0][1] > 1_000_000
    True
    """

    def __init__(self) -> None:
        self.taken: list[tuple[float, int]] = []
        self._process = psutil.Process()
        self._began, self._every = time.perf_counter(), EVERY
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="dtoken-memory", daemon=True)

    def _take(self) -> None:
        self.taken.append((time.perf_counter() - self._began, self._process.memory_info().rss))

    def _sample(self) -> None:
        while not self._over.wait(self._every):
            self._take()
            if len(self.taken) > MOST:
                pairs = zip(self.taken[::2], self.taken[1::2], strict=False)
                self.taken = [max(pair, key=lambda sample: sample[1]) for pair in pairs]
                self._every *= 2

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._take()
