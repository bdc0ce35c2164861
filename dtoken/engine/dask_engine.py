"""The Dask engine, seen from the driver: places nodes on workers, starts epochs, collects measurements, mends faults.

Tokens never come here. The driver says which events are to happen, and every worker draws them itself. When a worker is
lost, or does not answer, the others stop; the nodes are placed on the workers that there are now, all go back to the
last cut, and what happened since is repeated, to the same bits.
"""

import asyncio
import secrets
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from distributed import Client

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine import worker
from dtoken.engine.experiment import Experiment
from dtoken.engine.host import Assignment, Stretch, Tally
from dtoken.engine.placement import place
from dtoken.engine.recorder import Measurement
from dtoken.errors import InputError, RunError
from dtoken.schedule.events import Events
from dtoken.schedule.stream import Start


class WorkersLost(Exception):
    """Some workers did not do what they were asked to."""


@dataclass(frozen=True)
class DaskOptions:
    """How the engine deals with faults.

    Parameters
    ----------
    attempts
        How often the same stretch of events is tried before the run gives up.
    silence
        Seconds after which a worker that does not answer counts as lost.
    rejoin
        Seconds to wait for a lost worker's replacement before the others take over its nodes.
    start
        Seconds to wait for the first worker.
    """

    attempts: int = 10
    silence: float = 2.0
    rejoin: float = 5.0
    start: float = 300.0


@dataclass
class _Cut:
    """The last consistent cut, and what has happened since."""

    number: int = 0
    folder: Path | None = None  # where its parts are on disk; None: it is the very start
    since: list[Stretch] = field(default_factory=list)


class DaskEngine:
    """Runs an experiment on the workers of a Dask cluster."""

    def __init__(self, client: Client, experiment: Experiment, store: Path, options: DaskOptions | None = None) -> None:
        self._client: Any = client
        self._experiment, self._store = experiment, store
        self._options = options or DaskOptions()
        self._run, self._secret = uuid.uuid4().hex, secrets.token_bytes(32)
        self._generation = 0
        self._addresses: list[str] = []
        self._placement = np.zeros(experiment.n, np.int64)
        self._queue: list[Stretch] = []
        self._cut = _Cut()
        self.tallies: dict[str, Tally] = {}
        self.faults = 0
        client.register_plugin(worker.Hosts())
        client.wait_for_workers(1, timeout=self._options.start)
        self._persistently(lambda: None)

    def run(self, events: Events, start: Start, offset: int) -> None:
        """Note events that are to happen; ``settle`` makes them happen."""
        self._queue.append(Stretch(start, offset, events.size))

    def settle(self) -> None:
        """Let all noted events happen."""
        if not self._queue:
            return
        queue, self._queue = self._queue, []

        def epoch() -> None:
            tallies = self._call(worker.run_epoch, self._run, queue)
            self.tallies = dict(zip(self._addresses, tallies, strict=True))

        self._persistently(epoch)
        self._cut.since += queue

    def measure(self, t: float, theta_star: Vector) -> Measurement:
        """Measure the estimates at time ``t``."""
        parts: list[Measurement] = self._persistently(lambda: self._call(worker.measure, self._run, t))
        n = len(self._placement)
        values, spread = np.empty((n, parts[0].values.shape[1])), np.empty(n)
        for host, part in enumerate(parts):
            nodes = np.flatnonzero(self._placement == host)
            values[nodes], spread[nodes] = part.values, part.node_spread
        failure = next((part.failure for part in parts if part.failure), None)
        return parts[0]._replace(values=values, node_spread=spread, failure=failure)

    def models(self, t: float) -> Models:
        """The estimates at time ``t``; only here do models come to the driver."""

        def collect() -> list[tuple[Vector, Vector]]:
            self._call(worker.measure, self._run, t)
            collected: list[tuple[Vector, Vector]] = self._call(worker.node_models, self._run, t)
            return collected

        parts = self._persistently(collect)
        nodes = np.empty((len(self._placement), parts[0][0].shape[1]))
        for host, (models, _) in enumerate(parts):
            nodes[self._placement == host] = models
        return Models(nodes, np.array(parts[0][1]))

    def save(self, folder: Path, final: Path) -> None:
        """Make now the cut to which a fault leads back; its parts are written below ``folder``."""
        number = self._cut.number + 1

        def save() -> None:
            for leftover in folder.iterdir():  # of an attempt with other hosts
                shutil.rmtree(leftover)
            self._call(worker.save_part, self._run, number, folder)

        self._persistently(save)
        self._cut = _Cut(number, final)

    def load(self, folder: Path) -> None:
        """Go to a cut that was saved before, by whatever engine."""
        self._cut = _Cut(self._cut.number + 1, folder)
        self._persistently(lambda: self._call(worker.restore, self._run, self._cut.number, folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._client.sync(self._ask, self._addresses, worker.leave, (self._run,))

    def _persistently(self, work: Callable[[], Any]) -> Any:
        """Do ``work``; when workers are lost on the way, mend that and do it again."""
        for attempt in range(self._options.attempts):
            try:
                if attempt or self._generation == 0:
                    self._assemble(wait=attempt > 0)
                return work()
            except WorkersLost as error:
                last = error
                self.faults += 1
        raise RunError(
            f"the same stretch of events failed {self._options.attempts} times ({last}); the last checkpoint is kept"
        )

    def _assemble(self, wait: bool) -> None:
        """Place the nodes on the workers that there are, go back to the last cut and repeat what came after it."""
        if self._generation:
            self._client.sync(self._ask, self._addresses, worker.abort, (self._run,))
        self._generation += 1
        self._addresses = self._workers(len(self._addresses) if wait else 1)
        topology, work = self._experiment.walk.topology, self._experiment.problem.shards.node_nonzeros
        self._placement = place(topology, work, len(self._addresses))
        self._addresses = self._addresses[: int(self._placement.max()) + 1]
        doors = self._call(worker.take_seat, self._run, self._secret)
        assignment = self._assignment()
        self._call_each(worker.host_nodes, [(assignment, me) for me in range(len(self._addresses))])
        self._call(worker.connect, self._run, doors, self._generation)
        self._call(worker.restore, self._run, self._cut.number, self._cut.folder)
        if self._cut.since:
            self._call(worker.run_epoch, self._run, self._cut.since)

    def _assignment(self) -> Assignment:
        experiment = self._experiment
        return Assignment(
            run=self._run,
            store=self._store,
            loss=experiment.problem.loss.name,
            method=experiment.method,
            constants=experiment.constants,
            schedule=experiment.schedule,
            token_start=experiment.start.positions,
            placement=self._placement,
            theta_star=experiment.optimum.theta,
        )

    def _workers(self, wanted: int) -> list[str]:
        """The workers that answer, in the order of their names; waits a while for as many as there were."""
        deadline = time.monotonic() + self._options.rejoin
        while True:
            info = self._client.scheduler_info(n_workers=-1)["workers"]
            named = sorted(info, key=lambda address: str(info[address]["name"]))
            answers = self._client.sync(self._ask, named, worker.ping, ())
            living = [address for address, answer in zip(named, answers, strict=True) if answer is True]
            if living and (len(living) >= wanted or time.monotonic() > deadline):
                return living
            if not living and time.monotonic() > deadline + self._options.start:
                raise RunError("no worker of the cluster answers; the last checkpoint is kept")
            time.sleep(0.1)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return self._call_each(function, [arguments] * len(self._addresses))

    def _call_each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call ``function`` on every host, watching that all workers live; WorkersLost if any fails."""
        answers = self._client.sync(self._watched, function, arguments)
        lost = []
        for address, answer in zip(self._addresses, answers, strict=True):
            if isinstance(answer, RunError | InputError):
                raise answer  # not the worker's fault: a damaged shard is damaged everywhere
            if isinstance(answer, BaseException):
                lost.append(f"{address}: {answer or type(answer).__name__}")
        if lost:
            raise WorkersLost("; ".join(lost))
        return list(answers)

    async def _watched(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        calls = [
            asyncio.ensure_future(self._one(address, function, given))
            for address, given in zip(self._addresses, arguments, strict=True)
        ]
        while True:
            done, pending = await asyncio.wait(calls, timeout=self._options.silence / 4)
            failed = any(isinstance(call.result(), BaseException) for call in done)
            if not pending:
                return [call.result() for call in calls]
            answers = await self._ask(self._addresses, worker.ping, ())
            if failed or not all(answer is True for answer in answers):
                living = [a for a, answer in zip(self._addresses, answers, strict=True) if answer is True]
                await self._ask(living, worker.abort, (self._run,))  # or they would wait for the lost one for ever
                await asyncio.wait(calls, timeout=self._options.silence)
                for call in calls:
                    call.cancel()
                return [_result(call) for call in calls]

    async def _ask(
        self, addresses: Sequence[str], function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> list[Any]:
        """Ask workers something that is answered at once; silence counts as an exception."""
        questions = [self._one(address, function, arguments) for address in addresses]
        limited = [asyncio.wait_for(question, self._options.silence) for question in questions]
        return list(await asyncio.gather(*limited, return_exceptions=True))

    async def _one(self, address: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            answers = await self._client.run(function, *arguments, workers=[address], on_error="return")
        except Exception as error:
            return error
        return answers.get(address, ConnectionError("the worker is gone"))


def _result(call: "asyncio.Future[Any]") -> Any:
    if not call.done() or call.cancelled():
        return TimeoutError("no answer")
    return call.result()
