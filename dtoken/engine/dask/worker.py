"""What runs on a Dask worker: a plugin that holds the hosts of all runs that use this worker.

The driver calls the coroutines of this module with ``client.run``. They answer from the worker's event loop; the work
itself is done by one thread per run that is no task of Dask, so a run never takes a task's place. What goes wrong is an
answer, too: Dask would log what is raised at length, and losses are nothing special here.
"""

import asyncio
import functools
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from distributed import Worker
from distributed.comm.addressing import get_address_host
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import parse_ports
from tornado.ioloop import PeriodicCallback

from dtoken.algorithms.contract import Origin, Vector
from dtoken.compiled import package_digest
from dtoken.engine.dask.assignment import Assignment, Stretch
from dtoken.engine.dask.channel import Address, Listener
from dtoken.engine.dask.greeting import Encryption
from dtoken.engine.dask.host import Host
from dtoken.engine.dask.shared import Offer, machine
from dtoken.engine.loop.parts import Part, PartFile, read_part, write_part
from dtoken.engine.loop.recorder import Measurement
from dtoken.engine.loop.sampling import Integers, Sample
from dtoken.engine.placement import Placement
from dtoken.engine.rows.memory import LIMIT_SHARE
from dtoken.engine.runner import Tally
from dtoken.errors import InputError, RunError
from dtoken.schedule.samples import Samples
from hydra_dask.allocator import give_back, keep_memory

LEASE_SECONDS = 900.0  # a run whose driver was not heard of for so long is forgotten
CUT_SECONDS = 5.0  # for the driver of a run to begin to write what a worker holds that leaves
ALL_GENERATIONS = 2**62

P = ParamSpec("P")
T = TypeVar("T")


class Door(NamedTuple):
    """Where a worker is, as its peers see it."""

    address: Address
    machine: str  # workers with the same can share memory; empty: it can with nobody
    threads: int  # that Dask gives it


class _Seat:
    """One run on one worker."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.thread = ThreadPoolExecutor(1, "dtoken-host")
        self.host: Host | None = None
        self.cut: tuple[int, Part] | None = None  # number and copy of the last cut
        self.saves = False  # it is being written
        self.heard = time.monotonic()

    def close(self) -> None:
        """Stop what goes on here; the memory is free as soon as that has stopped."""
        self.listener.close()
        if host := self.host:
            host.interrupt(ALL_GENERATIONS)
        self.thread.submit(self.release)
        self.thread.shutdown(wait=False)

    def release(self) -> None:
        """Let go of the host, in the thread to which it belongs."""
        if self.host:
            self.host.close()
        self.host, self.cut = None, None
        give_back()


class Seats(WorkerPlugin):
    """The hosts on this worker, by run."""

    name = "dtoken-hosts"
    idempotent = True  # a second run on the cluster must not take the first one's hosts away

    def __init__(self) -> None:
        self.seats: dict[str, _Seat] = {}
        self.leaves = False  # the worker has been told to

    def setup(self, worker: Worker) -> None:
        """Start empty: the driver assigns nodes."""
        self.seats, self.leaves = {}, False
        SEATS[worker] = self
        keep_memory()
        self._lease = PeriodicCallback(self._forget_orphans, 10_000)
        self._lease.start()

    async def hand_over(self) -> None:
        """Go on until the drivers have what their runs hold here: they hear of it from the next epoch, take a cut, and
        place the nodes on other workers."""
        self.leaves, deadline = True, time.monotonic() + CUT_SECONDS
        while any(seat.saves or time.monotonic() < deadline for seat in self.seats.values()):
            await asyncio.sleep(0.02)

    async def teardown(self, worker: Worker) -> None:
        """The worker leaves in good order; peers that have not taken leave know at once that it is gone."""
        await self.hand_over()
        self._lease.stop()
        for seat in self.seats.values():
            seat.close()
        self.seats.clear()

    def _forget_orphans(self) -> None:
        for run, seat in list(self.seats.items()):
            if time.monotonic() - seat.heard > LEASE_SECONDS:
                self.seats.pop(run).close()


SEATS: WeakKeyDictionary[Worker, Seats] = WeakKeyDictionary()  # a worker that closes forgets its plugins first


class Ran(NamedTuple):
    """What a host has to say after an epoch."""

    tally: Tally
    leaves: bool  # its worker was told to


def answering(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T | Exception]]:
    """Let a coroutine return what it would raise: an OSError where the next time may go well, others for the rest."""

    @functools.wraps(work)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> T | Exception:
        try:
            return await work(*args, **kwargs)
        except (OSError, RunError, InputError) as error:
            return error
        except MemoryError:
            return RunError("a worker has not enough memory for its nodes; use more workers, or workers with more")
        except Exception as error:  # a mistake; its own kind may be unknown elsewhere, or not survive the way
            failure = RuntimeError(f"{type(error).__name__}: {error}")
            failure.add_note(traceback.format_exc())
            return failure

    return answer


def _seat(worker: Worker, run: str) -> _Seat:
    plugin = SEATS.get(worker)
    if plugin is None or run not in plugin.seats:
        raise ConnectionError("this worker knows nothing of the run")
    plugin.seats[run].heard = time.monotonic()
    return plugin.seats[run]


def _host(seat: _Seat) -> Host:
    if seat.host is None:
        raise ConnectionError("no nodes are hosted here")
    return seat.host


async def _in_thread(seat: _Seat, work: Callable[[], T]) -> T:
    """Do the work in the run's own thread."""
    try:
        return await asyncio.get_running_loop().run_in_executor(seat.thread, work)
    except RuntimeError as error:
        if "after shutdown" in str(error):
            raise ConnectionError("this worker leaves the run") from error
        raise


def code() -> tuple[str, str]:
    """What must be the same everywhere for equal bits: version, and a hash of all that is compiled."""
    return version("dtoken"), package_digest()


@answering
async def take_seat(run: str, secret: bytes, wanted: tuple[str, str], dask_worker: Worker) -> Door:
    """Open the door for the peers of a run and say where it is."""
    if code() != wanted:
        raise InputError(
            f"worker {dask_worker.address} has another dtoken ({code()[0]}) than this process ({wanted[0]}); "
            "install the same one everywhere, and start the workers again"
        )
    plugin = SEATS.get(dask_worker)
    if plugin is None:
        raise ConnectionError("this worker is not set up for dtoken yet")
    if run not in plugin.seats:
        host = get_address_host(dask_worker.address)
        plugin.seats[run] = _Seat(Listener(host, secret, _encryption(dask_worker), _ports(dask_worker)))
    return Door(_seat(dask_worker, run).listener.address, machine(), dask_worker.state.nthreads)


def _ports(worker: Worker) -> Sequence[int]:
    """The ports that a worker was given to choose from, for a firewall's sake; any, if it has one for itself only."""
    found = parse_ports(getattr(worker, "_start_port", None))
    return [port or 0 for port in found] if len(found) > 1 else (0,)


def _encryption(worker: Worker) -> Encryption | None:
    """The cluster's own TLS, if it has it: tokens must not travel less protected than everything else."""
    if not str(worker.address).startswith("tls://"):
        return None
    security: Any = worker.security
    server = security.get_listen_args("worker")["ssl_context"]
    return Encryption(server, security.get_connection_args("worker")["ssl_context"])


@answering
async def host_nodes(assignment: Assignment, me: int, origin: Origin | None, dask_worker: Worker) -> bool:
    """Load the nodes that are placed here; the ones of an earlier assignment are forgotten.

    ``origin`` is where they begin, if they go on from an earlier run. True: their rows do not all fit into memory.
    """
    seat = _seat(dask_worker, assignment.run)
    memory = assignment.memory or _share(dask_worker)

    def load() -> bool:
        before = seat.host
        if before and before.me == me and _same(before.assignment.placement, assignment.placement):
            before.disconnect()
            return before.runner.streams
        del before
        seat.release()  # the memory of the old one is free before the new one is loaded
        seat.host = Host(assignment, me, seat.listener, memory, origin)
        return seat.host.runner.streams

    return await _in_thread(seat, load)


def _same(a: Placement, b: Placement) -> bool:
    return np.array_equal(a.thread, b.thread) and np.array_equal(a.host, b.host)


def _share(worker: Worker) -> int | None:
    """Of a worker's memory limit, what Dask lets its tasks use before it writes results to disk."""
    limit = getattr(worker.memory_manager, "memory_limit", None)
    return int(LIMIT_SHARE * limit) if limit else None


@answering
async def offer_memory(run: str, leads: bool, dask_worker: Worker) -> Offer | str | None:
    """Make memory that others of this machine can share, or say why not; nothing, if this host is not the one to."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).offer()) if leads else None


@answering
async def attach_memory(run: str, offer: Offer | str | None, dask_worker: Worker) -> str | None:
    """Share the memory that another worker offers, or say why not."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).attach(offer)) if isinstance(offer, Offer) else offer


@answering
async def prove_memory(run: str, hosts: Sequence[int], dask_worker: Worker) -> list[int]:
    """Which of ``hosts`` share the memory that this one has offered."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).proved(hosts))


@answering
async def connect(
    run: str, addresses: Sequence[Address], generation: int, near: Sequence[int], dask_worker: Worker
) -> None:
    """Connect to the peers; tokens are shared with those that are ``near``."""
    seat = _seat(dask_worker, run)
    await _in_thread(seat, lambda: _host(seat).connect(addresses, generation, near))


@answering
async def abort(run: str, generation: int, dask_worker: Worker) -> None:
    """Make everything fail that this run does here in ``generation``, so that it can be started again."""
    seat = _seat(dask_worker, run)
    seat.listener.end(generation)
    if host := seat.host:
        host.interrupt(generation)


@answering
async def run_epoch(run: str, stretches: Sequence[Stretch], dask_worker: Worker) -> Ran:
    """Let the events of an epoch happen."""
    seat = _seat(dask_worker, run)
    tally = await _in_thread(seat, lambda: _host(seat).run(stretches))
    return Ran(tally, SEATS[dask_worker].leaves)


@answering
async def adopt(assignment: Assignment, dask_worker: Worker) -> None:
    """Go to the very start of a run with other constants."""
    seat = _seat(dask_worker, assignment.run)
    await _in_thread(seat, lambda: _host(seat).adopt(assignment))


@answering
async def measure(
    run: str, t: float, sample: Sample | None, living: Integers | None, dask_worker: Worker
) -> Measurement:
    """Measure the nodes that are hosted here."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).measure(t, sample, living))


@answering
async def probe(run: str, peer: int | None, asks: bool, trips: int, burst: int, dask_worker: Worker) -> list[float]:
    """Time messages to ``peer``; None: take no part."""
    seat = _seat(dask_worker, run)
    return [] if peer is None else await _in_thread(seat, lambda: _host(seat).probe(peer, asks, trips, burst))


@answering
async def samples(run: str, dask_worker: Worker) -> Samples:
    """What the nodes that are hosted here draw from."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).runner.samples())


@answering
async def save_part(run: str, cut: int, file: PartFile, dask_worker: Worker) -> None:
    """Keep a copy of the state in memory and on disk."""
    seat = _seat(dask_worker, run)

    def save() -> None:
        seat.cut = (cut, _host(seat).runner.part())
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_part(file, seat.cut[1])

    seat.saves = True
    try:
        await _in_thread(seat, save)
    finally:
        seat.saves = False


@answering
async def restore(run: str, cut: int, parts: Sequence[PartFile], dask_worker: Worker) -> None:
    """Go back to a cut: from memory if it is the one kept here, else from disk; no parts: to the very start."""
    seat = _seat(dask_worker, run)

    def go_back() -> None:
        host = _host(seat)
        if not parts:
            host.reset()
        elif seat.cut and seat.cut[0] == cut:
            host.restore([seat.cut[1]])
        else:
            host.restore(read_part(part) for part in parts)  # one after the other in memory
            seat.cut = (cut, host.runner.part())

    await _in_thread(seat, go_back)


@answering
async def node_models(run: str, t: float, with_reported: bool, dask_worker: Worker) -> tuple[Vector, Vector | None]:
    """The models of the nodes that are hosted here, and from one host all models that were reported last."""
    seat = _seat(dask_worker, run)
    return await _in_thread(
        seat, lambda: (_host(seat).runner.models(t).nodes, _host(seat).reported if with_reported else None)
    )


@answering
async def margins(run: str, dask_worker: Worker) -> Vector | None:
    """The margins of the rows that are hosted here."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).runner.margins())


@answering
async def start_seconds(run: str, dask_worker: Worker) -> float:
    """Seconds that the initial state of the nodes that are hosted here took."""
    seat = _seat(dask_worker, run)
    return await _in_thread(seat, lambda: _host(seat).runner.start_seconds())


@answering
async def leave(run: str, dask_worker: Worker) -> None:
    """Forget a run."""
    plugin = SEATS.get(dask_worker)
    if plugin is not None and run in plugin.seats:
        plugin.seats.pop(run).close()


async def ping(run: str, dask_worker: Any) -> bool:
    """Answer: this worker lives, and its plugin is there; its seat, if it has one, is still needed."""
    plugin = SEATS.get(dask_worker)
    if plugin is not None and run in plugin.seats:
        plugin.seats[run].heard = time.monotonic()
    return plugin is not None


async def stays(run: str, dask_worker: Any) -> bool:
    """Answer: this worker lives, and may host nodes from now on."""
    return await ping(run, dask_worker) and not SEATS[dask_worker].leaves
