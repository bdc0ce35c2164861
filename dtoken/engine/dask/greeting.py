"""How two hosts of a run get to know each other on a new connection.

Who opens the connection says the secret of the run, a generation and which host it is; the other one answers, or hangs
up without a word. Where the cluster uses TLS, all of this is inside TLS with the cluster's own certificates, which both
must have. Each end also adds a random number; both numbers and the secret of the run make the key of the connection
(HKDF), so the key is as secret as TLS is, belongs to this connection alone, and neither end can choose it. Then TLS is
taken off, properly (`ssl.SSLSocket.unwrap`), and the connection goes on with sealed records.
"""

import hmac
import secrets
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dtoken.engine.dask.wire import KEY, SealedWire, Wire

HELLO = struct.Struct("<32sqq32s")  # secret, generation, who, random number
WELCOME = struct.Struct("<32s")  # random number
KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}  # a cut cable shows


@dataclass(frozen=True)
class Encryption:
    """TLS contexts of the cluster, one for each side of a connection."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Guest(NamedTuple):
    """Who came, for which generation."""

    generation: int
    who: int


def dressed(connection: socket.socket, encryption: Encryption | None, server: bool) -> socket.socket:
    """One end of a connection, with TLS where it is used; nothing has been said yet."""
    if encryption is None:
        return connection
    context = encryption.server if server else encryption.client
    return context.wrap_socket(connection, server_side=server, do_handshake_on_connect=False)


def introduce(connection: socket.socket, secret: bytes, guest: Guest, seconds: float) -> Wire:
    """Greet the host at the other end, as ``guest``; OSError: it does not want to know us, and all is closed."""
    with _limited(connection, seconds) as until:
        own = secrets.token_bytes(KEY)
        connection.sendall(HELLO.pack(secret, *guest, own))
        (other,) = WELCOME.unpack(_receive(connection, WELCOME.size, until))
        return _wire(connection, secret, guest, own + other, until)


def welcome(connection: socket.socket, secret: bytes, seconds: float) -> tuple[Guest, Wire]:
    """Find out who is there; OSError: nobody who may come in, or who said so in time, and all is closed."""
    with _limited(connection, seconds) as until:
        said, generation, who, other = HELLO.unpack(_receive(connection, HELLO.size, until))
        if not hmac.compare_digest(said, secret):
            raise ConnectionError("wrong secret")
        own, guest = secrets.token_bytes(KEY), Guest(generation, who)
        connection.sendall(WELCOME.pack(own))
        return guest, _wire(connection, secret, guest, other + own, until)


@contextmanager
def _limited(connection: socket.socket, seconds: float) -> Iterator[float]:
    """Until when there is time for the whole greeting, which begins with the handshake of TLS."""
    until = time.monotonic() + seconds
    try:
        connection.settimeout(seconds)
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
            _limit(connection, until)
        yield until
    except BaseException:
        connection.close()
        raise


def _receive(connection: socket.socket, count: int, until: float) -> bytes:
    """So many bytes, in time: to send one of them now and then does not help."""
    found = b""
    while len(found) < count:
        _limit(connection, until)
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionError("the peer is gone")
        found += more
    return found


def _limit(connection: socket.socket, until: float) -> None:
    connection.settimeout(max(0.001, until - time.monotonic()))


def _wire(connection: socket.socket, secret: bytes, guest: Guest, randoms: bytes, until: float) -> Wire:
    """The connection for tokens, sealed if it was encrypted until here."""
    if not isinstance(connection, ssl.SSLSocket):
        return Wire(_ready(connection))
    _limit(connection, until)
    connection.unwrap()
    plain = socket.socket(fileno=connection.detach())  # an SSLSocket does not send several parts at once
    key = HKDF(SHA256(), KEY, salt=secret, info=b"dtoken connection" + struct.pack("<qq", *guest)).derive(randoms)
    return SealedWire(_ready(plain), key)


def _ready(connection: socket.socket) -> socket.socket:
    """The connection without timeout, fast for small messages, and noticing a peer that has vanished."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
