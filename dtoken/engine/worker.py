"""What runs on a Dask worker: a plugin that holds the hosts of all runs that use this worker.

The driver calls the coroutines of this module with ``client.run``. They answer from the worker's event loop; the work
itself is done by one thread per run that is no task of Dask, so a run never takes a task's place.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from dtoken.algorithms.contract import Vector
from dtoken.engine.channel import Address, Encryption, Listener
from dtoken.engine.host import Assignment, Host, Stretch, Tally
from dtoken.engine.parts import Part, read_parts, write_part
from dtoken.engine.recorder import Measurement

T = TypeVar("T")


class _Seat:
    """One run on one worker."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.thread = ThreadPoolExecutor(1, "dtoken-host")
        self.host: Host | None = None
        self.cut: tuple[int, Part] | None = None  # number and copy of the last cut

    def close(self) -> None:
        if self.host:
            self.host.disconnect()
        self.listener.close()
        self.thread.shutdown(wait=False, cancel_futures=True)


class Hosts(WorkerPlugin):
    """The hosts on this worker, by run."""

    name = "dtoken-hosts"

    def __init__(self) -> None:
        self.seats: dict[str, _Seat] = {}

    def setup(self, worker: Worker) -> None:
        """Start empty: the driver assigns nodes."""
        self.seats = {}

    def teardown(self, worker: Worker) -> None:
        """Let the peers know at once that this worker leaves."""
        for seat in self.seats.values():
            seat.close()
        self.seats.clear()


def _hosts(worker: Worker) -> Hosts:
    plugin = worker.plugins.get(Hosts.name)
    if not isinstance(plugin, Hosts):
        raise RuntimeError("this worker is not set up for dtoken yet")
    return plugin


async def take_seat(run: str, secret: bytes, dask_worker: Worker) -> Address:
    """Open the door for the peers of a run and say where it is."""
    hosts = _hosts(dask_worker)
    if run not in hosts.seats:
        listener = Listener(_own_address(dask_worker), secret, _encryption(dask_worker))
        hosts.seats[run] = _Seat(listener)
    return hosts.seats[run].listener.address


def _own_address(worker: Worker) -> str:
    return str(worker.address).split("://")[1].rsplit(":", 1)[0].strip("[]")


def _encryption(worker: Worker) -> Encryption | None:
    """The cluster's own TLS, if it has it: tokens must not travel less protected than everything else."""
    if not str(worker.address).startswith("tls://"):
        return None
    security: Any = worker.security
    server = security.get_listen_args("worker")["ssl_context"]
    return Encryption(server, security.get_connection_args("worker")["ssl_context"])


async def host_nodes(assignment: Assignment, me: int, dask_worker: Worker) -> int | Exception:
    """Load the nodes that are placed here; the ones of an earlier assignment are forgotten."""
    seat = _hosts(dask_worker).seats[assignment.run]

    def load() -> int:
        if seat.host:
            seat.host.disconnect()
        if seat.host and np.array_equal(seat.host.assignment.placement, assignment.placement):
            return len(seat.host.nodes)
        seat.host, seat.cut = None, None  # the memory of the old one is free before the new one is loaded
        seat.host = Host(assignment, me, seat.listener)
        return len(seat.host.nodes)

    return await _in_thread(seat, load)


async def connect(run: str, addresses: Sequence[Address], generation: int, dask_worker: Worker) -> Exception | None:
    """Connect to the peers."""
    seat = _hosts(dask_worker).seats[run]
    return await _in_thread(seat, lambda: _host(seat).connect(addresses, generation))


async def abort(run: str, dask_worker: Worker) -> None:
    """Stop what this run does here, so that it can be started again."""
    seat = _hosts(dask_worker).seats.get(run)
    if seat and seat.host:
        await asyncio.get_running_loop().run_in_executor(None, seat.host.disconnect)


async def run_epoch(run: str, stretches: Sequence[Stretch], dask_worker: Worker) -> Tally | Exception:
    """Let the events of an epoch happen."""
    seat = _hosts(dask_worker).seats[run]
    return await _in_thread(seat, lambda: _host(seat).run(stretches))


async def measure(run: str, t: float, dask_worker: Worker) -> Measurement | Exception:
    """Measure the nodes that are hosted here."""
    seat = _hosts(dask_worker).seats[run]
    return await _in_thread(seat, lambda: _host(seat).measure(t))


async def save_part(run: str, cut: int, folder: Path, dask_worker: Worker) -> Exception | None:
    """Keep a copy of the state in memory and on disk."""
    seat = _hosts(dask_worker).seats[run]

    def save() -> None:
        host = _host(seat)
        seat.cut = (cut, host.part())
        write_part(folder / str(host.me), seat.cut[1])

    return await _in_thread(seat, save)


async def restore(run: str, cut: int, folder: Path | None, dask_worker: Worker) -> Exception | None:
    """Go back to a cut: from memory if it is the one kept here, else from disk; no folder: to the very start."""
    seat = _hosts(dask_worker).seats[run]

    def go_back() -> None:
        host = _host(seat)
        if folder is None:
            host.reset()
        elif seat.cut and seat.cut[0] == cut:
            host.restore([seat.cut[1]])
        else:
            host.restore(read_parts(folder))
            seat.cut = (cut, host.part())

    return await _in_thread(seat, go_back)


async def node_models(run: str, t: float, dask_worker: Worker) -> tuple[Vector, Vector] | Exception:
    """The models of the nodes that are hosted here, and all models that were reported last."""
    seat = _hosts(dask_worker).seats[run]
    return await _in_thread(seat, lambda: (_host(seat).models(t).nodes, _host(seat).reported))


async def leave(run: str, dask_worker: Worker) -> None:
    """Forget a run."""
    seat = _hosts(dask_worker).seats.pop(run, None)
    if seat:
        await asyncio.get_running_loop().run_in_executor(None, seat.close)


def _host(seat: _Seat) -> Host:
    if seat.host is None:
        raise RuntimeError("no nodes are hosted here")
    return seat.host


async def _in_thread(seat: _Seat, work: Callable[[], T]) -> T | Exception:
    """Do the work in the run's own thread; faults are answers, because Dask would log what is raised at length."""
    try:
        return await asyncio.get_running_loop().run_in_executor(seat.thread, work)
    except Exception as error:
        return error


async def ping(dask_worker: Any) -> bool:
    """Answer: this worker lives, and its plugin is there."""
    return Hosts.name in dask_worker.plugins
