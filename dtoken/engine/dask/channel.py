"""Connections between the hosts of one run: tokens go directly from worker to worker, each peer by a link of its own.

Where the cluster uses TLS, so do these connections, with the cluster's own certificates; and a peer must know the
secret of the run in any case.

Connections belong to a generation. When a host is lost, the generation ends everywhere: ``Listener.end`` wakes up all
that waits in it, and whoever comes too late with an old one is sent away.
"""

import errno
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from dtoken.engine.dask.greeting import Encryption, Guest, dressed, introduce, welcome
from dtoken.engine.dask.tcp import Arrived, Place, TcpLink
from dtoken.engine.dask.wire import Wire
from dtoken.errors import RunError

CONNECT_SECONDS = 30.0  # a host that is lost is noticed earlier, and by others; a busy one needs its time
GREETINGS = 64  # at a time: strangers may knock by the thousand, and cost so many threads and descriptors at most
TRIES, PAUSE = 10, 0.05  # greetings that may be cut off because of that, and seconds before the next one


class Address(NamedTuple):
    """Where a host listens."""

    host: str
    port: int


class Link(Protocol):
    """The way to one peer, for one generation."""

    def send(self, token: int, turn: int) -> None:
        """Send a token, which comes back only after it has arrived; OSError: the peer is gone. From any thread."""

    def interrupt(self) -> None:
        """Make all sends and receives fail, from any thread."""

    def close(self) -> None:
        """End it: afterwards nothing is written into tokens any more."""


class Listener:
    """The door of a host: accepts the connections of its peers for one generation after another."""

    def __init__(
        self, host: str, secret: bytes, encryption: Encryption | None = None, ports: Sequence[int] = (0,)
    ) -> None:
        self._socket = _opened(host, ports)
        self.secret, self._encryption = secret, encryption
        self._waiting: dict[Guest, Wire] = {}
        self._greeted: dict[int, socket.socket] = {}  # those that are being greeted, the longest first
        self._changed = threading.Condition()
        self._ended = -1  # this generation and those before it are over
        self._closed = False
        self.address = Address(host, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="dtoken-listen").start()

    def _accept(self) -> None:
        number = 0
        while not self._closed:
            number += 1
            try:
                connection = dressed(self._socket.accept()[0], self._encryption, server=True)
                self._make_room()
                self._greeted[number] = connection
                threading.Thread(target=self._greet, args=(number,), daemon=True, name="dtoken-greet").start()
            except (OSError, RuntimeError):  # closed; or too many open files or threads, which may pass
                if refused := self._greeted.pop(number, None):
                    refused.close()
                time.sleep(PAUSE)

    def _make_room(self) -> None:
        """See to it that few are greeted at a time: who has not said the right thing for longest must go."""
        with self._changed:
            if len(self._greeted) >= GREETINGS:
                _hang_up(next(iter(self._greeted.values())))
                self._changed.wait_for(lambda: len(self._greeted) < GREETINGS)

    def _greet(self, number: int) -> None:
        """Let a peer in that knows the secret; anything else is dropped without a word."""
        guest, wire = None, None
        with suppress(Exception):  # whatever a stranger says
            guest, wire = welcome(self._greeted[number], self.secret, CONNECT_SECONDS)
        with self._changed:
            del self._greeted[number]
            if guest and wire:
                unused = wire if self.is_over(guest.generation) else self._waiting.pop(guest, None)
                if unused is not wire:
                    self._waiting[guest] = wire
                if unused:
                    unused.close()
            self._changed.notify_all()

    def connection(self, generation: int, who: int) -> Wire:
        """The connection that peer ``who`` opened for ``generation``."""
        guest = Guest(generation, who)
        with self._changed:
            self._changed.wait_for(lambda: guest in self._waiting or self.is_over(generation), CONNECT_SECONDS)
            if self.is_over(generation):
                raise ConnectionError("the connections are given up")
            if guest not in self._waiting:
                raise ConnectionError(f"host {who} did not connect within {CONNECT_SECONDS:.0f} s")
            return self._waiting.pop(guest)

    def connect(self, address: Address, generation: int, who: int) -> Wire:
        """Open a connection to a peer, as ``who``."""
        for tries in range(TRIES, 0, -1):
            connection = dressed(socket.create_connection(address, CONNECT_SECONDS), self._encryption, server=False)
            try:
                return introduce(connection, self.secret, Guest(generation, who), CONNECT_SECONDS)
            except OSError:
                if tries == 1 or self.is_over(generation):
                    raise
                time.sleep(PAUSE)
        raise AssertionError("unreachable")

    def is_over(self, generation: int) -> bool:
        """Whether nobody may connect for ``generation`` any more."""
        return self._closed or generation <= self._ended

    def end(self, generation: int) -> None:
        """Give up ``generation`` and all before it: who waits for a connection of theirs stops waiting."""
        with self._changed:
            self._ended = max(self._ended, generation)
            for guest in [guest for guest in self._waiting if guest.generation <= generation]:
                self._waiting.pop(guest).close()
            self._changed.notify_all()

    def close(self) -> None:
        """Accept nobody any more."""
        self._closed = True
        with self._changed:
            for wire in self._waiting.values():
                wire.close()
            self._waiting.clear()
            for connection in self._greeted.values():
                _hang_up(connection)
            self._changed.notify_all()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # closing alone does not wake up a thread that accepts
        self._socket.close()


def _opened(host: str, ports: Sequence[int]) -> socket.socket:
    """A socket that listens at the first of these ports that is free; 0 is any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise RunError(
        f"no port from {min(ports)} to {max(ports)} is free on {host}; give the workers more (cluster.ports)"
    )


def _hang_up(connection: socket.socket) -> None:
    """Let whoever reads or writes there fail."""
    with suppress(OSError):  # not ssl's own shutdown, which would speak to the other end
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Mesh:
    """The links of one host to all its peers, for one generation.

    ``send`` may be called by several threads, ``interrupt`` by any; the other methods belong to the one of the host.
    """

    def __init__(
        self,
        listener: Listener,
        me: int,
        addresses: Sequence[Address],
        generation: int,
        place: Place,
        arrived: Arrived,
        lost: Callable[[int], None],
    ) -> None:
        self._links: dict[int, Link] = {}
        peers = [peer for peer in range(len(addresses)) if peer != me]
        opened: dict[int, Wire] = {}
        try:
            for peer in peers:
                if listener.is_over(generation):
                    raise ConnectionError("the connections are given up")
                opened[peer] = listener.connect(addresses[peer], generation, me)
            for peer in peers:
                incoming = listener.connection(generation, peer)
                self._links[peer] = TcpLink(opened.pop(peer), incoming, place, arrived, partial(lost, peer))
        except BaseException:
            for connection in opened.values():
                connection.close()
            self.close()
            raise

    def send(self, peer: int, token: int, turn: int) -> None:
        """Send a token to a peer."""
        self._links[peer].send(token, turn)

    def interrupt(self) -> None:
        """Make all sends and receives fail, from any thread."""
        for link in list(self._links.values()):
            link.interrupt()

    def close(self) -> None:
        """End all links: afterwards nothing is written into tokens any more."""
        self.interrupt()
        for link in self._links.values():
            link.close()
