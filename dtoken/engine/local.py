"""The local engine: groups of nodes in threads of one process, tokens handed over in shared memory.

Threads share the arrays of all nodes and tokens; each runs the executor for its own group of nodes. The schedule fixes
the order of everything that touches a node or a token, so the bits do not depend on the number of threads.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Models, Origin, Vector
from dtoken.engine.events.draws import hosted_samples
from dtoken.engine.events.executor import WAITING, executor
from dtoken.engine.events.plan import Plan, Traffic, make_plan, one_host
from dtoken.engine.loop.parts import Part, PartFile, put_part, read_part, take_part
from dtoken.engine.loop.recorder import Measurement, measure_models
from dtoken.engine.placement import balanced_groups
from dtoken.engine.rows.memory import Room
from dtoken.engine.rows.node_rows import Hosting
from dtoken.engine.rows.pieces import Piece, Planned, Step, Stream, cut
from dtoken.engine.rows.row_cache import RowCache
from dtoken.problem.losses import Loss
from dtoken.problem.shards import Shards
from dtoken.schedule.events import Events
from dtoken.schedule.stream import Start

PATIENCE = 2000  # looks for a token before a thread lets others have the processor
T = TypeVar("T")


class LocalEngine:
    """Hosts all nodes of ``shards`` in this process and runs events on them with ``threads`` threads.

    They begin where the method says, or at the ``origin`` that an earlier run left.
    """

    def __init__(
        self,
        method: Method,
        c: Arrays,
        shards: Shards,
        loss: Loss,
        threads: int = 1,
        room: Room | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._method, self._c = method, c
        self._run = executor(method.local, method.visit, method.meet)
        self._hosting = Hosting(shards, range(shards.n), loss, method, room)
        self.rows = self._hosting.rows
        self.samples = hosted_samples(method, c, self.rows)
        self.nodes, self.tokens = self._hosting.start(c, origin)
        self._numbers, self._token_numbers = np.arange(shards.n), np.arange(len(self.tokens[0]))
        self._traffic = one_host(shards.n, len(self._token_numbers))
        threads = min(threads, shards.n)
        self._groups = balanced_groups(shards.node_nonzeros, threads)
        self._slots = [np.where(self._groups == group, self._numbers, -1) for group in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "dtoken-engine")

    def run(self, events: Events, start: Start | None = None, offset: int = 0) -> None:
        """Let ``events`` happen, soon; where they stand in the schedule does not matter here."""
        if (stream := self._hosting.stream) is not None:
            for piece in cut(events, self._numbers, self.samples, stream.cache, self._method, self._groups):
                if isinstance(piece, Step):
                    self._take_step(piece.node, stream)
                else:
                    stream.add(lambda piece=piece: self._planned(piece, stream.cache))  # type: ignore[misc]
            return
        ready = self._traffic.turns.copy()

        def run_group(slot: NDArray[np.int64], failed: Event) -> Traffic:
            plan, traffic = self._plan(slot, events)
            self._run_plan(plan, ready, failed)
            return traffic

        self._traffic = self._in_groups(run_group, self._slots)[0]

    def _planned(self, piece: Piece, cache: RowCache) -> Planned:
        ready = self._traffic.turns.copy()
        plans, traffics = zip(*[self._plan(slot, piece.events) for slot in self._slots], strict=True)
        self._traffic = traffics[0]

        def work() -> None:
            self._in_groups(lambda plan, failed: self._run_plan(plan, ready, failed), plans)

        return Planned(piece.needed(cache, self._method), work)

    def _take_step(self, i: int, stream: Stream) -> None:
        scratch = np.empty(self.rows.d)

        def work(phase: Callable[..., None], first: int, stop: int) -> None:
            phase(self._c, self.rows, self.nodes, i, first, stop, scratch)

        for phase in self._method.phases:
            stream.over_node(i, partial(work, phase))

    def _in_groups(self, work: Callable[[Any, Event], T], groups: Sequence[Any]) -> list[T]:
        failed = Event()

        def run_group(group: Any) -> T:
            try:
                return work(group, failed)
            except BaseException:
                failed.set()  # or the other threads would wait for ever
                raise

        try:
            return self._map(run_group, groups)
        except BaseException:
            failed.set()  # also when this thread was interrupted, which may keep a group from ever starting
            raise

    def _plan(self, slot: NDArray[np.int64], events: Events) -> tuple[Plan, Traffic]:
        traffic = self._traffic._replace(where=self._traffic.where.copy(), turns=self._traffic.turns.copy())
        return make_plan(events, slot, self.samples, self.rows.first, len(traffic.turns), traffic), traffic

    def _run_plan(self, plan: Plan, ready: NDArray[np.int64], failed: Event) -> None:
        cursor = np.concatenate([[0], plan.first[:-1]])
        arguments = (plan, self._c, self.rows, self.nodes, self.tokens, ready, cursor, PATIENCE)
        while self._run(*arguments) == WAITING and not failed.is_set():
            time.sleep(0)  # another thread has the token and may need this processor

    def settle(self) -> None:
        """Wait until all events have happened."""
        if self._hosting.stream is not None:
            self._hosting.stream.finish()

    def start_seconds(self) -> float:
        """Seconds that the initial state took."""
        return self._hosting.start_seconds

    def margins(self) -> Vector | None:
        """The margins of all rows."""
        found = self._method.margins(self._c, self.nodes)
        return None if found is None else np.ascontiguousarray(found)

    def models(self, t: float) -> Models:
        """The estimates at time ``t``, as copies."""
        found = self._method.models(self._c, self.nodes, self.tokens, t)
        return found._replace(nodes=found.nodes.copy(), tokens=found.tokens.copy())  # may be the states themselves

    def measure(self, t: float, theta_star: Vector) -> Measurement:
        """Measure the estimates at time ``t``."""
        in_parallel = self._map if len(self._slots) > 1 else None
        return measure_models(lambda models: self._hosting.values(models, in_parallel), self.models(t), theta_star)

    def part(self, *, copy: bool = True) -> Part:
        """A copy of the state, or the state itself."""
        numbers, tokens = self._numbers, self._token_numbers
        return take_part(numbers, self.rows.first, self.nodes, tokens, self.tokens, self._traffic, copy=copy)

    def restore(self, parts: Sequence[Part]) -> None:
        """Go back to a state that was copied before, by whatever hosts."""
        if self._hosting.stream is not None:
            self._hosting.stream.forget()
        for part in parts:
            put_part(part, self._numbers, self.rows.first, self.nodes, self.tokens)
        self._traffic = self._traffic._replace(where=parts[0].where.copy(), turns=parts[0].turns.copy())

    def save(self, folder: Path, cut: str) -> Part:
        """The state itself, to be written before anything happens."""
        return self.part(copy=False)

    def load(self, parts: Sequence[PartFile]) -> None:
        """Go back to a state that was saved before, by whatever engine."""
        self.restore([read_part(part) for part in parts])

    def _map(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        if len(self._slots) == 1:  # handing over to another thread would take longer than many a step
            return list(map(function, items))
        return list(self._pool.map(function, items))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._hosting.close()
