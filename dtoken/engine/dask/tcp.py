"""One way of a token to another host: a pair of TCP connections, with the cluster's TLS where it has it.

Every pair of hosts has two connections, one for each direction: a TLS connection must not be read and written by two
threads at once. A thread per peer reads all the time, so that a send can never wait for a receive. A message is a fixed
header and the bytes of one token; they are received straight into the token's place.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

HEADER = struct.Struct("<qq")  # token, turn
KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}  # a cut cable shows

Place = Callable[[int, int], Sequence[memoryview]]  # the bytes of (token, turn), to send from or to receive into
Arrived = Callable[[int, int], None]  # token, turn


class TcpLink:
    """The connections of one host to one peer; see `dtoken.engine.dask.channel.Link`.

    It reads from the moment that it is made; ``lost`` is called when nothing more comes, unless it was interrupted.
    """

    def __init__(
        self, outgoing: socket.socket, incoming: socket.socket, place: Place, arrived: Arrived, lost: Callable[[], None]
    ) -> None:
        self._to, self._from = _ready(outgoing), _ready(incoming)
        self._place, self._arrived, self._lost = place, arrived, lost
        self._interrupted = False
        self._sending = threading.Lock()  # one message after the other
        self._reader = threading.Thread(target=self._read, daemon=True, name="dtoken-read")
        self._reader.start()

    def send(self, token: int, turn: int) -> None:
        """Send a token; it must not change until this returns."""
        parts = [memoryview(HEADER.pack(token, turn)), *self._place(token, turn)]
        with self._sending:
            if isinstance(self._to, ssl.SSLSocket):
                for part in parts:
                    self._to.sendall(part)
            else:
                _send_all(self._to, parts)

    def _read(self) -> None:
        header = bytearray(HEADER.size)
        try:
            while True:
                receive(self._from, memoryview(header))
                token, turn = HEADER.unpack(header)
                for part in self._place(token, turn):
                    receive(self._from, part)
                self._arrived(token, turn)
        except Exception:  # whatever it is, nothing more comes from there, and somebody may wait for it
            if not self._interrupted:
                self._lost()

    def interrupt(self) -> None:
        """Make all sends and receives fail, from any thread."""
        self._interrupted = True
        for connection in (self._to, self._from):
            with suppress(OSError):  # not ssl's own shutdown: a send after it would go out unencrypted
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connections and wait for the reader: afterwards nothing is written into tokens any more."""
        self.interrupt()
        self._reader.join()
        for connection in (self._to, self._from):
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


def receive(connection: socket.socket, into: memoryview) -> None:
    """Fill ``into`` with what comes."""
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
