"""Sealed connections: who does not have the run's credentials can neither read, nor change, nor replay a token."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from distributed import Security

from dtoken.engine.dask import wire
from dtoken.engine.dask.greeting import Encryption, Guest, dressed, introduce, welcome
from dtoken.engine.dask.wire import RECORD, TAG, SealedWire, Wire
from tests.waiting import NEVER

SECRET = b"s" * 32
GUEST = Guest(7, 1)


@pytest.fixture(scope="module")
def encryption() -> Encryption:
    security: Any = Security.temporary()
    return Encryption(
        security.get_listen_args("worker")["ssl_context"], security.get_connection_args("worker")["ssl_context"]
    )


class Tapped(NamedTuple):
    """A connection between two hosts that goes through the hands of somebody in the middle."""

    sender: Wire
    receiver: Wire
    near: socket.socket  # the middle's end towards the sender
    far: socket.socket  # towards the receiver
    greeting: bytes  # all that was said before

    def sent(self, count: int) -> bytes:
        """The next bytes that the sender sent; the receiver does not get them by itself."""
        found = b""
        while len(found) < count:
            found += self.near.recv(count - len(found))
        return found

    def close(self) -> None:
        for end in (self.sender, self.receiver, self.near, self.far):
            end.close()


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def copy(source: socket.socket, target: socket.socket, greeted: threading.Event, heard: list[bytes]) -> None:
    source.settimeout(0.02)
    while not greeted.is_set():
        with suppress(TimeoutError):
            heard.append(source.recv(65536))
            target.sendall(heard[-1])
    source.settimeout(NEVER)


def tapped(encryption: Encryption | None, secret: bytes = SECRET, guest: Guest = GUEST) -> Tapped:
    """Two hosts that have greeted each other while somebody in the middle copied all that they said."""
    (sender, near), (far, receiver) = pair(), pair()
    heard: list[bytes] = []
    greeted = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        copies = [pool.submit(copy, *ends, greeted, heard) for ends in ((near, far), (far, near))]
        arrives = pool.submit(welcome, dressed(receiver, encryption, True), secret, NEVER)
        leaves = pool.submit(introduce, dressed(sender, encryption, False), secret, guest, NEVER)
        wires = leaves.result(NEVER), arrives.result(NEVER)[1]
        greeted.set()
        for each in copies:
            each.result(NEVER)
    return Tapped(*wires, near, far, b"".join(heard))


@pytest.fixture
def line(encryption: Encryption) -> Iterator[Tapped]:
    found = tapped(encryption)
    yield found
    found.close()


HEADER = b"token 3, turn 12"
TOKEN = np.random.default_rng(0).bytes(2 * RECORD + 5000)  # three records
SIZES = [len(HEADER) + TAG, RECORD + TAG, RECORD + TAG, len(TOKEN) - 2 * RECORD + TAG]


def message() -> list[memoryview]:
    return [memoryview(HEADER), memoryview(TOKEN)]


def records(line: Tapped) -> list[bytes]:
    """Those of one message, in the hands of somebody in the middle."""
    assert line.sender.push(message(), wait=True)
    return [line.sent(size) for size in SIZES]


def received(line: Tapped) -> bytes:
    header, token = bytearray(len(HEADER)), bytearray(len(TOKEN))
    line.receiver.receive(memoryview(header))
    line.receiver.receive(memoryview(token))
    return bytes(header + token)


def test_what_is_passed_on_unchanged_arrives(line: Tapped) -> None:
    for _ in range(2):
        line.far.sendall(b"".join(records(line)))
        assert received(line) == HEADER + TOKEN


def test_nothing_can_be_read_on_the_way(line: Tapped) -> None:
    seen = line.greeting + b"".join(records(line)) + b"".join(records(line))
    for known in (HEADER, SECRET, *(TOKEN[at : at + 16] for at in range(0, len(TOKEN), 4096))):
        assert known not in seen
    first, second = seen[-2 * sum(SIZES) : -sum(SIZES)], seen[-sum(SIZES) :]
    assert all(first[at : at + 16] not in second for at in range(0, len(first), 4096))  # equal tokens do not look so


def test_without_encryption_the_same_look_finds_all_of_it() -> None:
    line = tapped(None)
    assert SECRET in line.greeting
    line.sender.push(message(), wait=True)
    assert line.sent(len(HEADER) + len(TOKEN)) == HEADER + TOKEN
    line.close()


def test_a_change_of_any_record_is_noticed_before_it_is_used(encryption: Encryption) -> None:
    for changed in range(len(SIZES)):
        for at in (0, SIZES[changed] // 2, -TAG - 1, -1):
            line = tapped(encryption)
            found = [bytearray(record) for record in records(line)]
            found[changed][at] ^= 1
            line.far.sendall(b"".join(found))
            with pytest.raises(ConnectionError, match="changed on its way"):
                received(line)
            line.close()


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 0, 1, 2, 3], [0, 2, 1, 3], [0, 1, 1, 3], [4, 5, 6, 7], [0, 1, 6, 3]])
def test_records_cannot_be_repeated_moved_or_left_out(line: Tapped, order: list[int]) -> None:
    known = records(line) + records(line)
    line.far.sendall(b"".join(known[number] for number in order))
    with pytest.raises(ConnectionError, match="changed on its way"):
        received(line) + received(line)


def test_a_message_that_is_cut_off_does_not_arrive(line: Tapped) -> None:
    line.far.sendall(b"".join(records(line))[:-1])
    line.far.close()
    with pytest.raises(ConnectionError, match="gone"):
        received(line)


@pytest.mark.parametrize("other", ["generation", "host", "run", "nothing"])
def test_a_recorded_token_is_worth_nothing_on_another_connection(encryption: Encryption, other: str) -> None:
    guest = Guest(7 + (other == "generation"), 1 + (other == "host"))
    secret = b"t" * 32 if other == "run" else SECRET
    before, now = tapped(encryption), tapped(encryption, secret, guest)
    now.far.sendall(b"".join(records(before)))
    with pytest.raises(ConnectionError, match="changed on its way"):
        received(now)
    before.close()
    now.close()


def test_a_recorded_greeting_lets_nobody_in(encryption: Encryption) -> None:
    line = tapped(encryption)
    attacker, door = pair()
    attacker.sendall(line.greeting)
    with pytest.raises(OSError):  # noqa: PT011 - TLS has many words for it
        welcome(dressed(door, encryption, True), SECRET, NEVER)
    attacker.close()
    line.close()


def test_keys_are_renewed_and_differ(line: Tapped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "RECORDS_PER_KEY", 3)
    made: list[bytes] = []
    monkeypatch.setattr(wire, "AESGCM", lambda key: made.append(key) or AESGCM(key))
    for _ in range(3):  # twelve records
        line.far.sendall(b"".join(records(line)))
        assert received(line) == HEADER + TOKEN
    assert len(made) == 8
    assert len(set(made)) == 4


def test_what_does_not_leave_at_once_leaves_later(line: Tapped) -> None:
    assert isinstance(line.sender, SealedWire)
    big = memoryview(bytearray(64 << 20))
    rest = [memoryview(HEADER), big]
    assert not line.sender.push(rest, wait=False)  # nobody reads yet
    assert rest
    with ThreadPoolExecutor(2) as pool:
        sending = pool.submit(line.sender.push, rest, True)
        passing = pool.submit(lambda: line.far.sendall(line.sent(len(HEADER) + TAG)))
        header = bytearray(len(HEADER))
        line.receiver.receive(memoryview(header))
        passing.result(NEVER)
        assert header == HEADER
        line.sent(len(big) + TAG * -(-len(big) // RECORD))
        assert sending.result(NEVER)
