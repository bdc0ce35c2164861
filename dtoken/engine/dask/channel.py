"""Connections between the hosts of one run: tokens go directly from worker to worker over blocking sockets.

Every pair of hosts has two connections, one for each direction: a TLS connection must not be read and written by two
threads at once. A thread per peer reads all the time, so that a send can never wait for a receive. A message is a fixed
header and the bytes of one token; they are received straight into the token's place. Where the cluster uses TLS, so do
these connections, with the cluster's own certificates; and a peer must know the secret of the run in any case.

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
from typing import NamedTuple

HEADER = struct.Struct("<qq")  # token, turn
HELLO = struct.Struct("<32sqq")  # secret, generation, who
CONNECT_SECONDS = 30.0  # a host that is lost is noticed earlier, and by others; a busy one needs its time
KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}  # a cut cable shows


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
            _receive(connection, memoryview(hello))
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
    """The connections of one host to all its peers, for one generation.

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
        self._place, self._arrived, self._lost = place, arrived, lost
        self._interrupted = False
        self._to: dict[int, socket.socket] = {}
        self._from: dict[int, socket.socket] = {}
        self._sending = {peer: threading.Lock() for peer in range(len(addresses))}  # one message after the other
        self._readers: list[threading.Thread] = []
        peers = [peer for peer in range(len(addresses)) if peer != me]
        try:
            for peer in peers:
                if listener.is_over(generation):
                    raise ConnectionError("the connections are given up")
                self._to[peer] = _ready(listener.connect(addresses[peer], generation, me))
            for peer in peers:
                self._from[peer] = _ready(listener.connection(generation, peer))
            for peer, connection in self._from.items():
                reader = threading.Thread(target=self._read, args=(peer, connection), daemon=True, name="dtoken-read")
                reader.start()
                self._readers.append(reader)
        except BaseException:
            self.close()
            raise

    def send(self, peer: int, token: int, turn: int) -> None:
        """Send a token; it must not change until this returns."""
        connection = self._to[peer]
        parts = [memoryview(HEADER.pack(token, turn)), *self._place(token, turn)]
        with self._sending[peer]:
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
        except Exception:  # whatever it is, nothing more comes from there, and somebody may wait for it
            if not self._interrupted:
                self._lost(peer)

    def interrupt(self) -> None:
        """Make all sends and receives fail, from any thread."""
        self._interrupted = True
        for connection in (*self._to.values(), *self._from.values()):
            with suppress(OSError):  # not ssl's own shutdown: a send after it would go out unencrypted
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections and wait for the readers: afterwards nothing is written into tokens any more."""
        self.interrupt()
        for reader in self._readers:
            reader.join()
        for connection in (*self._to.values(), *self._from.values()):
            connection.close()


def _ready(connection: socket.socket) -> socket.socket:
    """The connection without timeout, fast for small messages, and noticing a peer that has vanished."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


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
