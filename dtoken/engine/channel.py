"""Connections between the hosts of one run: tokens go directly from worker to worker over blocking sockets.

Every pair of hosts has one connection. A thread per peer reads it all the time, so that a send can never wait for a
receive. A message is a fixed header and the bytes of one token; they are received straight into the token's place.
Where the cluster uses TLS, so do these connections, with the cluster's own certificates; and a peer must know the
secret of the run in any case.
"""

import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

HEADER = struct.Struct("<qq")  # token, turn
HELLO = struct.Struct("<32sqq")  # secret, generation, who
CONNECT_SECONDS = 5.0


class Address(NamedTuple):
    """Where a host listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Encryption:
    """TLS contexts of the cluster, one for each side of a connection."""

    server: ssl.SSLContext
    client: ssl.SSLContext


Place = Callable[[int, int], Sequence[memoryview]]  # the bytes of (token, turn), to send from or to receive into
Arrived = Callable[[int, int], None]  # token, turn


class Listener:
    """The door of a host: accepts the connections of its peers for one generation after another."""

    def __init__(self, host: str, secret: bytes, encryption: Encryption | None) -> None:
        self._socket = socket.create_server((host, 0), backlog=64)
        self._secret, self._encryption = secret, encryption
        self._waiting: dict[tuple[int, int], socket.socket] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.address = Address(host, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="dtoken-listen").start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(connection,), daemon=True, name="dtoken-greet").start()

    def _greet(self, connection: socket.socket) -> None:
        """Let a peer in that knows the secret; anything else is dropped without a word."""
        try:
            connection.settimeout(CONNECT_SECONDS)
            if self._encryption:
                connection = self._encryption.server.wrap_socket(connection, server_side=True)
            hello = bytearray(HELLO.size)
            _receive(connection, memoryview(hello))
            secret, generation, who = HELLO.unpack(hello)
            if not hmac.compare_digest(secret, self._secret):
                raise ConnectionError("wrong secret")
        except (OSError, ssl.SSLError):
            connection.close()
            return
        with self._changed:
            self._waiting[generation, who] = connection
            self._changed.notify_all()

    def connection(self, generation: int, who: int) -> socket.socket:
        """The connection that peer ``who`` opened for ``generation``."""
        with self._changed:
            if not self._changed.wait_for(lambda: (generation, who) in self._waiting or self._closed, CONNECT_SECONDS):
                raise ConnectionError(f"host {who} did not connect within {CONNECT_SECONDS:.0f} s")
            if self._closed:
                raise ConnectionError("closed")
            return self._waiting.pop((generation, who))

    def connect(self, address: Address, generation: int, who: int) -> socket.socket:
        """Open a connection to a peer, as ``who``."""
        connection = socket.create_connection(address, CONNECT_SECONDS)
        if self._encryption:
            connection = self._encryption.client.wrap_socket(connection)
        connection.sendall(HELLO.pack(self._secret, generation, who))
        return connection

    def close(self) -> None:
        """Accept nobody any more."""
        self._closed = True
        with self._changed:
            for connection in self._waiting.values():
                connection.close()
            self._waiting.clear()
            self._changed.notify_all()
        self._socket.close()


class Mesh:
    """The connections of one host to all its peers, for one generation."""

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
        self._place, self._arrived, self._lost = place, arrived, lost
        self._closed = False
        self._connections: dict[int, socket.socket] = {}
        for peer, address in enumerate(addresses):
            if peer < me:
                self._connections[peer] = listener.connect(address, generation, me)
        for peer in range(me + 1, len(addresses)):
            self._connections[peer] = listener.connection(generation, peer)
        self._readers = []
        for peer, connection in self._connections.items():
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = threading.Thread(target=self._read, args=(peer, connection), daemon=True, name="dtoken-receive")
            self._readers.append(reader)
            reader.start()

    def send(self, peer: int, token: int, turn: int) -> None:
        """Send a token; it must not change until this returns."""
        connection = self._connections[peer]
        parts = [memoryview(HEADER.pack(token, turn)), *self._place(token, turn)]
        if isinstance(connection, ssl.SSLSocket):
            for part in parts:
                connection.sendall(part)
        else:
            _send_all(connection, parts)

    def _read(self, peer: int, connection: socket.socket) -> None:
        header = bytearray(HEADER.size)
        try:
            while True:
                _receive(connection, memoryview(header))
                token, turn = HEADER.unpack(header)
                for part in self._place(token, turn):
                    _receive(connection, part)
                self._arrived(token, turn)
        except (OSError, ValueError):
            if not self._closed:
                self._lost(peer)

    def close(self) -> None:
        """End all connections and wait for the readers: afterwards nothing is written into tokens any more."""
        self._closed = True
        for connection in self._connections.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join()


def _receive(connection: socket.socket, into: memoryview) -> None:
    while len(into):
        count = connection.recv_into(into)
        if count == 0:
            raise ConnectionError("the peer is gone")
        into = into[count:]


def _send_all(connection: socket.socket, parts: list[memoryview]) -> None:
    """Send header and arrays in as few system calls as possible."""
    while parts:
        sent = connection.sendmsg(parts)
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if sent:
            parts[0] = parts[0][sent:]
