"""The local engine: groups of nodes in threads of one process, tokens handed over in shared memory.

Threads share the arrays of all nodes and tokens; each runs the executor for its own group of nodes. The schedule fixes
the order of everything that touches a node or a token, so the bits do not depend on the number of threads.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Models, Vector
from dtoken.engine.executor import WAITING, executor
from dtoken.engine.plan import make_plan
from dtoken.engine.recorder import Measurement, measure_models
from dtoken.problem.hosted import HostedRows, host
from dtoken.problem.losses import Loss
from dtoken.problem.shards import Shards
from dtoken.schedule.events import Events
from dtoken.schedule.samples import Samples, no_samples, uniform_samples, weighted_samples

PATIENCE = 2000  # looks for a token before a thread lets others have the processor
T = TypeVar("T")


class LocalEngine:
    """Hosts all nodes of ``shards`` in this process and runs events on them with ``threads`` threads."""

    def __init__(self, method: Method, c: Arrays, shards: Shards, loss: Loss, threads: int = 1) -> None:
        self._method, self._c = method, c
        self._run = executor(method.local, method.visit, method.meet)
        self.rows = host(shards, range(shards.n), loss)
        self.samples = hosted_samples(method, c, self.rows)
        self.nodes, self.tokens = method.start(c, self.rows)
        groups = balanced_groups(shards.node_nonzeros, threads)
        self._slots = [np.where(groups == group, np.arange(shards.n), -1) for group in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "dtoken-engine")

    def run(self, events: Events) -> None:
        """Let ``events`` happen."""
        ready = np.zeros(len(self.tokens[0]), np.int64)
        failed = Event()

        def run_group(slot: NDArray[np.int64]) -> None:
            try:
                self._run_group(slot, events, ready, failed)
            except BaseException:
                failed.set()  # or the other threads would wait for ever
                raise

        try:
            self._map(run_group, self._slots)
        except BaseException:
            failed.set()  # also when this thread was interrupted, which may keep a group from ever starting
            raise

    def _run_group(self, slot: NDArray[np.int64], events: Events, ready: NDArray[np.int64], failed: Event) -> None:
        plan = make_plan(events, slot, self.samples, self.rows.first, len(ready))
        cursor = np.concatenate([[0], plan.first[:-1]])
        arguments = (plan, self._c, self.rows, self.nodes, self.tokens, ready, cursor, PATIENCE)
        while self._run(*arguments) == WAITING and not failed.is_set():
            time.sleep(0)  # another thread has the token and may need this processor

    def models(self, t: float) -> Models:
        """The estimates at time ``t``, as copies."""
        found = self._method.models(self._c, self.nodes, self.tokens, t)
        return found._replace(nodes=found.nodes.copy(), tokens=found.tokens.copy())  # may be the states themselves

    def measure(self, t: float, theta_star: Vector) -> Measurement:
        """Measure the estimates at time ``t``."""
        return measure_models(self.rows, self.models(t), theta_star, self._map)

    def state(self) -> dict[str, NDArray[Any]]:
        """All arrays that a run consists of, by name."""
        named = [("nodes", self.nodes), ("tokens", self.tokens)]
        return {f"{kind}/{field}": array for kind, state in named for field, array in state._asdict().items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that was copied before."""
        for name, array in self.state().items():
            array[...] = state[name]

    def _map(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        return list(self._pool.map(function, items))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)


def hosted_samples(method: Method, c: Arrays, rows: HostedRows) -> Samples:
    """What the hosted nodes draw from: never an empty row."""
    hosted = len(rows.w)
    if not method.draws_samples:
        return no_samples(hosted)
    counted, weights = [], []
    for i in range(hosted):
        q = rows.q[rows.first[i] : rows.first[i + 1]]
        counted.append(np.flatnonzero(q > 0).astype(np.int32))
        weights.append(method.weights(c, rows.c * rows.w[i] * q[counted[-1]]))
    drawn = [w for w in weights if w is not None]
    return weighted_samples(counted, drawn) if drawn else uniform_samples(counted)


def balanced_groups(work: Sequence[int], groups: int) -> NDArray[np.int64]:
    """Group of each node: consecutive nodes together, about the same work in each group.

    Examples
    --------
    >>> balanced_groups([1, 1, 2, 4], 2).tolist()
    [0, 0, 0, 1]
    """
    ends = np.cumsum(np.asarray(work, np.float64) + 1e-9)
    middles = ends - np.diff(ends, prepend=0.0) / 2
    found: NDArray[np.int64] = np.minimum((middles / ends[-1] * groups).astype(np.int64), groups - 1)
    return found
