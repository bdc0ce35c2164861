"""Sockets of the world: bytes take their time, connections break, and between two peers nothing keeps the order."""

import errno
import socket
from collections import deque
from types import SimpleNamespace
from typing import Any

from dtoken.engine.dask.greeting import HELLO, WELCOME
from tests.simulation.world import Process, Thread, Violation, world

KEPT_ALIVE = 11.0  # seconds after which a silent peer is noticed, if the socket asks for it: see greeting.KEEP_ALIVE


class Network:
    """All connections, and how fast they are."""

    def __init__(self) -> None:
        self.listeners: dict[int, SimSocket] = {}
        self.connections: list[tuple[SimSocket, SimSocket]] = []  # those of hosts, both ends
        self.slow_until, self.slowness = 0.0, 1.0
        self.messages = 0

    def delay(self) -> float:
        """Seconds that bytes need."""
        rng = world().rng
        base = rng.random() * (0.001 if rng.random() < 0.95 else 0.05)
        return base * (self.slowness if world().now < self.slow_until else 1.0)

    def living(self) -> list[tuple["SimSocket", "SimSocket"]]:
        self.connections = [pair for pair in self.connections if not (pair[0].down and pair[1].down)]
        return self.connections


class SimSocket:
    """One end of a connection, or a door."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self.process = network, process
        self.peer: SimSocket | None = None
        self.timeout: float | None = None
        self.arrived = bytearray()
        self.in_flight = 0  # bytes on their way to this end
        self.not_before = 0.0  # what comes later arrives later
        self.capacity = world().rng.choice((40, 150, 1000, 100_000))
        self.ended = False  # the peer sends no more
        self.broken: OSError | None = None
        self.down = False  # this end was shut down or closed
        self.closed = False
        self.stalled = False  # the cable is cut
        self.kept_alive = False
        self.heard = 0  # bytes that were read
        self.said = bytearray()  # the first bytes that were sent
        self.run = b""  # the secret of the run for which it is
        self.generation: int | None = None
        self.backlog: deque[SimSocket] | None = None
        self._readers: list[tuple[Thread, int]] = []
        self._writers: list[tuple[Thread, int]] = []
        self.port = world().number()
        process.sockets[self] = None
        process.at_death.append(self._orphaned)

    # -- what the program calls -----------------------------------------------------------------------------

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if option == socket.SO_KEEPALIVE and level == socket.SOL_SOCKET:
            self.kept_alive = bool(value)

    def getsockname(self) -> tuple[str, int]:
        return self.process.machine, self.port

    def accept(self) -> tuple["SimSocket", Any]:
        assert self.backlog is not None
        while not self.backlog:
            if self.down:
                raise OSError(errno.EINVAL, "shut down")
            self._wait(self._readers, None)
        return self.backlog.popleft(), None

    def recv(self, count: int) -> bytes:
        found = bytearray(count)
        return bytes(found[: self.recv_into(memoryview(found))])

    def recv_into(self, into: memoryview) -> int:
        until = None if self.timeout is None else world().now + self.timeout
        while True:
            if self.closed:
                raise OSError(errno.EBADF, "closed")
            if self.arrived:  # what has come can be read, also after the end
                return self._take(into)
            if self.down:
                return 0
            if self.broken:
                raise self.broken
            if self.ended:
                return 0
            if until is not None and world().now >= until:
                raise TimeoutError("timed out")
            self._wait(self._readers, until)

    def _take(self, into: memoryview) -> int:
        count = min(len(into), len(self.arrived))
        if count > 1 and world().chance(0.05):
            count = world().rng.randint(1, count)
        into[:count] = self.arrived[:count]
        del self.arrived[:count]
        self.heard += count
        newest = self.process.generations.get(self.run, -1)
        if self.heard > self._greeting and self.generation is not None and self.generation < newest:
            raise_violation(f"{self.process} is in generation {newest}, and read of generation {self.generation}")
        if self.peer:
            self.peer._wake(self.peer._writers)
        return count

    @property
    def _greeting(self) -> int:
        return max(HELLO.size, WELCOME.size)

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._send(left, wait=True) :]

    def sendmsg(self, parts: list[memoryview], ancillary: Any = (), flags: int = 0) -> int:
        return self._send(memoryview(b"".join(parts)), wait=not flags & socket.MSG_DONTWAIT)

    def _send(self, data: memoryview, wait: bool) -> int:
        until = None if self.timeout is None else world().now + self.timeout
        while True:
            if self.closed:
                raise OSError(errno.EBADF, "closed")
            if self.broken:
                raise self.broken
            if self.down or self.peer is None:
                raise BrokenPipeError(errno.EPIPE, "nobody reads")
            room = self.peer.capacity - len(self.peer.arrived) - self.peer.in_flight
            if room > 0:
                break
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "no room")
            if until is not None and world().now >= until:
                raise TimeoutError("timed out")
            self._wait(self._writers, until)
        sent = bytes(data[:room])
        self._network.messages += 1
        if len(self.said) < HELLO.size:
            self._overhear(sent)
        self.peer._deliver(sent)
        return len(sent)

    def _overhear(self, sent: bytes) -> None:
        """The first bytes say for which generation a connection is."""
        self.said += sent
        if len(self.said) >= HELLO.size and self.generation is None and self.peer and self.initiated:
            self.run, self.generation = HELLO.unpack(self.said[: HELLO.size])[:2]
            self.peer.run, self.peer.generation = self.run, self.generation
            newest = self.process.generations.get(self.run, -1)
            self.process.generations[self.run] = max(newest, self.generation)

    initiated = False

    def shutdown(self, how: int) -> None:
        if self.closed:
            raise OSError(errno.EBADF, "closed")
        if self.backlog is None and (self.peer is None or self.broken):
            raise OSError(errno.ENOTCONN, "not connected")
        self._down()

    def close(self) -> None:
        """As Linux does it: who waits in this socket is not woken up, unless it was shut down."""
        self.closed = True
        self.process.sockets.pop(self, None)
        if not self.down:
            self.down = True
            self._tell_peer()
        if self.backlog is not None:
            self._network.listeners.pop(self.port, None)
            for waiting in self.backlog:
                waiting.close()

    # -- what the world does --------------------------------------------------------------------------------

    def _wait(self, waiting: list[tuple[Thread, int]], until: float | None) -> None:
        waiting.append(world().ticket())
        world().wait(None if until is None else until - world().now)

    def _wake(self, waiting: list[tuple[Thread, int]]) -> None:
        for each in waiting:
            world().wake(*each)
        waiting.clear()

    def _wake_all(self) -> None:
        self._wake(self._readers)
        self._wake(self._writers)

    def _down(self) -> None:
        self.down = True
        self._wake_all()
        self._tell_peer()

    def _tell_peer(self) -> None:
        if self.peer is not None and not self.stalled:
            self.peer._later(self.peer._end)

    def _later(self, work: Any) -> None:
        """After everything that is on its way."""
        self.not_before = max(self.not_before, world().now + self._network.delay())
        world().loop.at(self.not_before, work)

    def _deliver(self, data: bytes) -> None:
        self.in_flight += len(data)
        if not self.stalled:
            self._later(lambda: self._arrive(data))

    def _arrive(self, data: bytes) -> None:
        self.in_flight -= len(data)
        if self.process.alive and not self.down:
            self.arrived += data
            self._wake(self._readers)
        elif self.peer is not None:
            self.peer.breaks(ConnectionResetError(errno.ECONNRESET, "connection reset"))

    def _end(self) -> None:
        self.ended = True
        self._wake_all()

    def _orphaned(self) -> None:
        """The process is dead: the system closes what it had open."""
        self.down = self.closed = True
        self.process.sockets.pop(self, None)
        self._tell_peer()
        if self.backlog is not None:
            self._network.listeners.pop(self.port, None)
            for waiting in self.backlog:
                waiting._orphaned()

    def breaks(self, error: OSError) -> None:
        """Nothing comes or goes any more."""
        if self.broken is None:
            self.broken = error
            self._wake_all()

    def stall(self) -> None:
        """Cut the cable: nothing is lost and nothing arrives, until the system gives up."""
        for end in (self, self.peer):
            if end is not None:
                end.stalled = True
                if end.kept_alive:
                    gone = TimeoutError(errno.ETIMEDOUT, "the peer has vanished")
                    world().later(KEPT_ALIVE, end.breaks, gone)


def raise_violation(what: str) -> None:
    world().violate(what)
    raise Violation(what)


def socket_module(network: Network) -> SimpleNamespace:
    """In place of ``socket``."""

    def create_server(address: tuple[str, int], family: int = 0, backlog: int = 128) -> SimSocket:
        made = SimSocket(network, world().current())
        made.backlog = deque()
        network.listeners[made.port] = made
        return made

    def create_connection(address: tuple[str, int], timeout: float) -> SimSocket:
        world().sleep(network.delay())
        door = network.listeners.get(address[1])
        if door is None or door.down:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        mine, theirs = connected(network, world().current(), door.process)
        mine.settimeout(timeout)
        door.backlog.append(theirs)  # type: ignore[union-attr]
        door._wake(door._readers)
        return mine

    return SimpleNamespace(
        create_server=create_server,
        create_connection=create_connection,
        socket=SimSocket,
        **{name: getattr(socket, name) for name in dir(socket) if name.isupper()},
    )


def connected(network: Network, one: Process, other: Process) -> tuple[SimSocket, SimSocket]:
    """Both ends of a new connection, which ``one`` opens."""
    mine, theirs = SimSocket(network, one), SimSocket(network, other)
    mine.peer, theirs.peer, mine.initiated = theirs, mine, True
    network.connections.append((mine, theirs))
    return mine, theirs
