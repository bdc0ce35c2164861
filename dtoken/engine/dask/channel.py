"""Connections between the hosts of one run: tokens go directly from worker to worker, each peer by a link of its own.

Where the cluster uses TLS, so do these connections, with the cluster's own certificates; and a peer must know the
secret of the run in any case.

Connections belong to a generation. When a host is lost, the generation ends everywhere: ``Listener.end`` wakes up all
that waits in it, and whoever comes too late with an old one is sent away.
"""

import hmac
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from dtoken.engine.dask.tcp import Arrived, Place, TcpLink, receive

HELLO = struct.Struct("<32sqq")  # secret, generation, who
CONNECT_SECONDS = 30.0  # a host that is lost is noticed earlier, and by others; a busy one needs its time


class Address(NamedTuple):
    """Where a host listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Encryption:
    """TLS contexts of the cluster, one for each side of a connection."""

    server: ssl.SSLContext
    client: ssl.SSLContext


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

    def __init__(self, host: str, secret: bytes, encryption: Encryption | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=128)
        self._secret, self._encryption = secret, encryption
        self._waiting: dict[tuple[int, int], socket.socket] = {}
        self._changed = threading.Condition()
        self._ended = -1  # this generation and those before it are over
        self._closed = False
        self.address = Address(host, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="dtoken-listen").start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(0.05)  # closed; or too many open files, which may pass
                continue
            threading.Thread(target=self._greet, args=(connection,), daemon=True, name="dtoken-greet").start()

    def _greet(self, connection: socket.socket) -> None:
        """Let a peer in that knows the secret; anything else is dropped without a word."""
        try:
            connection.settimeout(CONNECT_SECONDS)
            if self._encryption:
                connection = self._encryption.server.wrap_socket(connection, server_side=True)
            hello = bytearray(HELLO.size)
            receive(connection, memoryview(hello))
            secret, generation, who = HELLO.unpack(hello)
            if not hmac.compare_digest(secret, self._secret):
                raise ConnectionError("wrong secret")
        except OSError:  # what TLS raises is one, too
            connection.close()
            return
        with self._changed:
            if self._closed or generation <= self._ended:
                connection.close()
                return
            if earlier := self._waiting.pop((generation, who), None):
                earlier.close()
            self._waiting[generation, who] = connection
            self._changed.notify_all()

    def connection(self, generation: int, who: int) -> socket.socket:
        """The connection that peer ``who`` opened for ``generation``."""
        with self._changed:
            self._changed.wait_for(
                lambda: (generation, who) in self._waiting or self.is_over(generation), CONNECT_SECONDS
            )
            if self.is_over(generation):
                raise ConnectionError("the connections are given up")
            if (generation, who) not in self._waiting:
                raise ConnectionError(f"host {who} did not connect within {CONNECT_SECONDS:.0f} s")
            return self._waiting.pop((generation, who))

    def connect(self, address: Address, generation: int, who: int) -> socket.socket:
        """Open a connection to a peer, as ``who``."""
        connection = socket.create_connection(address, CONNECT_SECONDS)
        try:
            if self._encryption:
                connection = self._encryption.client.wrap_socket(connection)
            connection.sendall(HELLO.pack(self._secret, generation, who))
        except BaseException:
            connection.close()
            raise
        return connection

    def is_over(self, generation: int) -> bool:
        """Whether nobody may connect for ``generation`` any more."""
        return self._closed or generation <= self._ended

    def end(self, generation: int) -> None:
        """Give up ``generation`` and all before it: who waits for a connection of theirs stops waiting."""
        with self._changed:
            self._ended = max(self._ended, generation)
            for key in [key for key in self._waiting if key[0] <= generation]:
                self._waiting.pop(key).close()
            self._changed.notify_all()

    def close(self) -> None:
        """Accept nobody any more."""
        self._closed = True
        with self._changed:
            for connection in self._waiting.values():
                connection.close()
            self._waiting.clear()
            self._changed.notify_all()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # closing alone does not wake up a thread that accepts
        self._socket.close()


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
        opened: dict[int, socket.socket] = {}
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
