"""The local engine: groups of nodes in threads of one process, tokens handed over in shared memory.

Threads share the arrays of all nodes and tokens; each runs the executor for its own group of nodes. The schedule fixes
the order of everything that touches a node or a token, so the bits do not depend on the number of threads.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Method
from dtoken.engine.executor import WAITING, executor
from dtoken.engine.plan import make_plan
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.events import Events
from dtoken.schedule.samples import Samples

PATIENCE = 20_000  # looks for a token before a thread lets others have the processor


class LocalEngine:
    """Runs events on the nodes of ``rows`` with ``threads`` threads."""

    def __init__(self, method: Method, c: Any, rows: HostedRows, samples: Samples, threads: int = 1) -> None:
        self._run = executor(method.local, method.visit, method.meet)
        self._c, self._rows, self._samples = c, rows, samples
        self.nodes, self.tokens = method.start(c, rows)
        self._token_count = method.tokens
        groups = balanced_groups(np.diff(rows.start[rows.first]), threads)
        self._slots = [np.where(groups == group, np.arange(len(groups)), -1) for group in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "dtoken-engine")

    def run(self, events: Events) -> None:
        """Let ``events`` happen."""
        ready = np.zeros(self._token_count, np.int64)
        stop = Event()
        parts = [self._pool.submit(self._run_group, slot, events, ready, stop) for slot in self._slots]
        try:
            for part in parts:
                part.result()
        finally:
            stop.set()

    def _run_group(self, slot: NDArray[np.int64], events: Events, ready: NDArray[np.int64], stop: Event) -> None:
        plan = make_plan(events, slot, self._samples, self._rows.first, self._token_count)
        cursor = np.concatenate([[0], plan.first[:-1]])
        arguments = (plan, self._c, self._rows, self.nodes, self.tokens, ready, cursor, PATIENCE)
        while self._run(*arguments) == WAITING and not stop.is_set():
            time.sleep(0)  # another thread has the token and may need this processor

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)


def balanced_groups(work: Sequence[int] | NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Group of each node: consecutive nodes together, about the same work in each group.

    Examples
    --------
    >>> balanced_groups([1, 1, 2, 4], 2).tolist()
    [0, 0, 0, 1]
    """
    ends = np.cumsum(np.asarray(work, np.float64) + 1e-9)
    middles = ends - np.diff(ends, prepend=0.0) / 2
    return np.minimum((middles / ends[-1] * groups).astype(np.int64), groups - 1)
