"""Where the real program meets the world: the names in its modules that stand for something else in a simulation.

Nothing but these is replaced: driver, crew, workers, hosts, channels, handing over, the loop and checkpoints are the
code that users run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from dtoken.engine import handover, runner
from dtoken.engine.dask import assignment, channel, crew, driver, greeting, host, shared, tcp, wire, worker
from dtoken.engine.events import sleeping
from dtoken.engine.loop import checkpoint, interruption, keeping, run
from dtoken.engine.rows import node_rows
from dtoken.schedule import rounds, stream
from hydra_dask import durable
from tests.simulation.disk import Disk
from tests.simulation.memory import Futex, Memory
from tests.simulation.network import Network, raise_violation, socket_module
from tests.simulation.primitives import THREADING, TIME, SimEvent, SimExecutor, SimTimer
from tests.simulation.world import world

SEGMENT = 64  # steps of a segment, so that runs of some hundred events have several
TIMED = (channel, greeting, host, worker, crew, driver, keeping, handover, runner, sleeping, node_rows, durable)


def _random_bytes(count: int) -> bytes:
    return world().rng.randbytes(count)


SECRETS = SimpleNamespace(token_bytes=_random_bytes)
UUID = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=_random_bytes(16).hex()))


def segments() -> list[tuple[Any, str, Any]]:
    """Short segments, for the undisturbed run, too."""
    return [(stream, "SEGMENT_STEPS", SEGMENT), (rounds, "SEGMENT_STEPS", SEGMENT)]


def ports(
    network: Network, memory: Memory, disk: Disk, store: Any, asked_to_stop: Callable[[], bool]
) -> list[tuple[Any, str, Any]]:
    """Module, name, and what it stands for."""
    sockets, futex, files = socket_module(network), Futex(), disk.modules()
    return [
        *segments(),
        *((module, "time", TIME) for module in TIMED),
        *((module, "threading", THREADING) for module in (channel, host, tcp, interruption)),
        *((module, "ThreadPoolExecutor", SimExecutor) for module in (assignment, worker, runner, run)),
        *((module, "socket", sockets) for module in (channel, greeting, wire)),
        *((module, "secrets", SECRETS) for module in (driver, greeting, shared)),
        *((module, "uuid", UUID) for module in (driver, checkpoint)),
        *((shared, name, module) for name, module in memory.modules().items()),
        (durable, "os", files),
        (runner, "Event", SimEvent),
        (sleeping, "_system_call", lambda: futex),
        (sleeping, "look_seconds", lambda: 0.0),
        (runner, "look_seconds", lambda: 0.0),
        (handover, "patience", lambda near: 1),
        (worker, "PeriodicCallback", SimTimer),
        (worker, "machine", lambda: world().current().machine),
        (worker, "give_back", lambda: None),
        (worker, "keep_memory", lambda: None),
        (host, "open_store", lambda location, scratch: store),
        (host, "looks", _looks),
        (interruption, "asked_to_stop", asked_to_stop),
        (host.Host, "_on_token", _checked(host.Host._on_token)),
    ]


def _checked(original: Callable[..., None]) -> Callable[..., None]:
    """Compiled code does not look at its indices: a token that does not exist must not get there."""

    def on_token(self: Any, k: int, turn: int) -> None:
        if not 0 <= k < max(len(self.reported), len(self.runner.handover.common.ready)):
            raise_violation(f"token {k} arrived, which does not exist")
        original(self, k, turn)

    return on_token


def _looks(ready: Any, k: int, turn: int, most: int) -> int:
    """Look for a message; another process must run meanwhile."""
    if ready[k] == turn:
        return 0
    world().sleep(0.0005)
    return most


@contextmanager
def replaced(names: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Let names of modules stand for something else."""
    before = [(module, name, getattr(module, name)) for module, name, _ in names]
    try:
        for module, name, stand_in in names:
            setattr(module, name, stand_in)
        yield
    finally:
        for module, name, original in reversed(before):
            setattr(module, name, original)
