"""What goes over one connection, in one direction: bytes as they are or, where the cluster uses TLS, sealed records.

Python's TLS takes six times as long as bare TCP for a token of some hundred kB: its records hold 16 kB, and each costs
system calls of its own at both ends. So TLS is used for the greeting only (`dtoken.engine.dask.greeting`), from which
both ends have a key that is used for this one connection. Then messages travel in large records of AES-256-GCM, which
encrypts and authenticates in one pass. The number of a record is its nonce: a record that was changed, left out,
repeated or moved does not open, nor does one of another connection, which has another key. What does not open ends the
connection.
"""

import socket
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

KEY = 32  # bytes of a key
TAG = 16  # bytes by which a record is longer than what it holds
NONCE = 12  # bytes of the number of a record
RECORD = 3 << 16  # bytes that a record holds at most: it is opened while the next ones are on their way
TOGETHER = 1 << 19  # bytes that are sealed before they are sent: every time more wakes up the receiver once more
RECORDS_PER_KEY = 1 << 18  # 48 GiB, far from where AES-GCM weakens; then the next key is derived


class Wire:
    """A connection on which bytes travel as they are.

    One thread at a time may send and one may receive; ``interrupt`` may be called by any.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def push(self, parts: list[memoryview], wait: bool) -> bool:
        """Send ``parts``, which lose what has left; whether all has. Without ``wait``, only what the system takes now.

        The next message must not begin before all of this one has left.
        """
        return _push(self._connection, parts, 0 if wait else socket.MSG_DONTWAIT)

    def receive(self, into: memoryview) -> None:
        """Fill ``into`` with what comes; ConnectionError: nothing more does."""
        receive(self._connection, into)

    def interrupt(self) -> None:
        """Make all that is sent or received fail."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


class SealedWire(Wire):
    """A connection on which sealed records travel, from the one end that sends to the other.

    Each part of a message has records of its own, and nothing of a part is used before its record has opened: what is
    in the header decides where the rest is written.
    """

    def __init__(self, connection: socket.socket, key: bytes) -> None:
        super().__init__(connection)
        self._key, self._number = key, 0
        self._sealed = memoryview(bytearray(TOGETHER))  # records that are sent, or one that is received
        self._unsent: list[memoryview] = []  # what of it is on its way

    def push(self, parts: list[memoryview], wait: bool) -> bool:
        """Seal and send ``parts``."""
        while super().push(self._unsent, wait):
            if not parts:
                return True
            self._unsent.append(self._seal(parts))
        return False

    def _seal(self, parts: list[memoryview]) -> memoryview:
        """As many records of ``parts`` as there is room for; they lose what is sealed."""
        end = 0
        while parts and end + min(len(parts[0]), RECORD) + TAG <= len(self._sealed):
            piece, parts[0] = parts[0][:RECORD], parts[0][RECORD:]
            if not parts[0]:
                parts.pop(0)
            start, end = end, end + len(piece) + TAG
            self._cipher().encrypt_into(self._nonce(), piece, None, self._sealed[start:end])
        return self._sealed[:end]

    def receive(self, into: memoryview) -> None:
        """Fill ``into``, which is one part of a message, with what its records hold."""
        while len(into):
            piece, into = into[:RECORD], into[RECORD:]
            record = self._sealed[: len(piece) + TAG]
            receive(self._connection, record)
            cipher = self._cipher()
            try:
                cipher.decrypt_into(self._nonce(), record, None, piece)
            except InvalidTag:
                raise ConnectionError("a message was changed on its way") from None

    def _cipher(self) -> AESGCM:
        """With the key of the next record."""
        count, first = divmod(self._number, RECORDS_PER_KEY)
        if first == 0:
            info = b"dtoken records" + count.to_bytes(8, "little")
            self._current = AESGCM(HKDFExpand(SHA256(), KEY, info).derive(self._key))
        return self._current

    def _nonce(self) -> bytes:
        """The number of the next record; the one after it has another."""
        self._number += 1
        return self._number.to_bytes(NONCE, "little")


def receive(connection: socket.socket, into: memoryview) -> None:
    """Fill ``into`` with what comes; ConnectionError: nothing more does."""
    while len(into):
        count = connection.recv_into(into)
        if count == 0:
            raise ConnectionError("the peer is gone")
        into = into[count:]


def _push(connection: socket.socket, parts: list[memoryview], flags: int) -> bool:
    """Send header and arrays in as few system calls as possible."""
    while parts:
        try:
            sent = connection.sendmsg(parts, [], flags)
        except BlockingIOError:
            return False
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if sent:
            parts[0] = parts[0][sent:]
    return True
