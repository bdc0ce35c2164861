"""A Dask cluster of the world: a scheduler that hears of deaths late, workers, and calls that take their time."""

import asyncio
import pickle
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from distributed.comm.core import CommClosedError

from tests.simulation.network import Network
from tests.simulation.world import Process, World, world


class SimWorker:
    """A worker of Dask, as far as dtoken looks at it."""

    def __init__(self, process: Process, name: int, threads: int) -> None:
        self.process, self.name = process, name
        self.address = f"tcp://10.0.0.{1 + int(process.machine[-1])}:{process.pid}"
        self.state = SimpleNamespace(nthreads=threads)
        self.memory_manager = SimpleNamespace(memory_limit=None)
        self.status = "running"
        self.plugin: Any = None
        self.calls: dict[asyncio.Future[Any], None] = {}  # that wait for an answer

    @property
    def seats(self) -> dict[str, Any]:
        """What dtoken keeps on it."""
        return self.plugin.seats if self.plugin else {}


class Cluster:
    """The scheduler's view, and the nanny that replaces workers."""

    def __init__(self, here: World, network: Network, names: int, machines: int, threads: int) -> None:
        self.world, self.network = here, network
        self._machines, self._threads = machines, threads
        self.workers: list[SimWorker] = []  # all that ever were
        self.known: dict[str, SimWorker] = {}  # by address, as the scheduler believes
        self.plugin: bytes | None = None
        self.late_until, self.lateness = 0.0, 0.0
        for name in range(names):
            self.start(name)

    def start(self, name: int) -> SimWorker:
        """A new process for a name."""
        process = Process(self.world, f"worker {name}.{len(self.workers)}", f"machine {name % self._machines}")
        made = SimWorker(process, name, self._threads)
        self.workers.append(made)
        self.known[made.address] = made
        process.at_death.append(lambda: self._died(made))
        if self.plugin is not None:
            process.soon(lambda: self._set_up(made), self.network.delay())
        return made

    @property
    def living(self) -> list[SimWorker]:
        return [each for each in self.workers if each.process.alive]

    def _set_up(self, made: SimWorker) -> None:
        if made.plugin is None and self.plugin is not None:
            made.plugin = pickle.loads(self.plugin)
            made.plugin.setup(made)

    def _died(self, dead: SimWorker) -> None:
        for answer in list(dead.calls):
            self.world.later(self.network.delay(), _answer, answer, CommClosedError("the worker is gone"))
        dead.calls.clear()
        self.world.later(self.world.rng.random() * 0.3, self.known.pop, dead.address, None)

    def replace(self, dead: SimWorker, seconds: float) -> None:
        """Start another process for the name of a dead one."""
        self.world.later(seconds, self.start, dead.name)

    async def leave(self, leaving: SimWorker) -> None:
        """What a worker does that gets SIGTERM."""
        leaving.status = "closing_gracefully"
        if leaving.plugin is not None:
            await leaving.plugin.hand_over()
            self.known.pop(leaving.address, None)
            await leaving.plugin.teardown(leaving)
        leaving.process.soon(leaving.process.kill, self.world.lag())

    def delay(self) -> float:
        """Seconds that a call needs to its worker, or its answer back; some are late, whatever came after them."""
        rng = self.world.rng
        late = rng.random() * self.lateness if self.world.now < self.late_until and rng.random() < 0.2 else 0.0
        return self.network.delay() + late


def _answer(future: "asyncio.Future[Any]", answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


class SimClient:
    """A client of Dask, in the process of a driver."""

    asynchronous = False

    def __init__(self, cluster: Cluster, process: Process, watcher: Any) -> None:
        self._cluster, self._process, self._watcher = cluster, process, watcher

    def register_plugin(self, plugin: Any) -> None:
        self._cluster.plugin = pickle.dumps(plugin)
        world().sleep(self._cluster.delay())
        for each in self._cluster.living:
            each.process.soon(lambda each=each: self._cluster._set_up(each))  # type: ignore[misc]
        world().sleep(self._cluster.delay())

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        world().sleep(self._cluster.delay())
        return {"workers": {a: {"name": w.name, "status": w.status} for a, w in self._cluster.known.items()}}

    def sync(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a coroutine in the event loop of this process, and wait for it."""
        task = self._process.start_task(function(*arguments))
        while not task.done():
            ticket = world().ticket()
            task.add_done_callback(lambda _, ticket=ticket: world().wake(*ticket))  # type: ignore[misc]
            world().wait()
        return task.result()

    async def run(self, function: Any, *arguments: Any, workers: Sequence[str], on_error: str) -> dict[str, Any]:
        """Call a function on a worker; what was sent is sent, also when nobody waits for the answer any more."""
        (address,) = workers
        self._watcher.asked_for(function)
        sent = pickle.dumps(arguments)
        answer: asyncio.Future[Any] = world().loop.create_future()
        world().later(self._cluster.delay(), self._arrive, address, function, sent, answer)
        return {address: await answer}

    def _arrive(self, address: str, function: Any, sent: bytes, answer: "asyncio.Future[Any]") -> None:
        found = next((each for each in self._cluster.living if each.address == address), None)
        if found is None:
            error = CommClosedError("the worker is gone")
            world().later(self._cluster.delay(), _answer, answer, error)
            return
        found.calls[answer] = None
        found.process.soon(lambda: found.process.start_task(self._called(found, function, sent, answer)))

    async def _called(self, found: SimWorker, function: Any, sent: bytes, answer: "asyncio.Future[Any]") -> None:
        world().note(f"{found.process}: {function.__name__}")
        try:
            result = await function(*pickle.loads(sent), dask_worker=found)
        except Exception as error:
            result = error
        self._watcher.answered(found)
        back = pickle.dumps(result)
        if found.process.alive:
            found.process.soon(lambda: self._reply(found, answer, back), self._cluster.delay())

    def _reply(self, found: SimWorker, answer: "asyncio.Future[Any]", back: bytes) -> None:
        found.calls.pop(answer, None)
        _answer(answer, pickle.loads(back))
