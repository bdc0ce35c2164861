"""The token channel: what arrives, what is sent away, and that nothing waits for ever or is left open."""

import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Security

from dtoken.engine.dask import channel, worker
from dtoken.engine.dask.channel import GREETINGS, Listener, Mesh
from dtoken.engine.dask.greeting import HELLO, Encryption
from dtoken.errors import RunError
from tests.waiting import NEVER, until

SECRET = b"s" * 32


def encryption() -> Encryption:
    security: Any = Security.temporary()
    return Encryption(
        security.get_listen_args("worker")["ssl_context"], security.get_connection_args("worker")["ssl_context"]
    )


class End:
    """One host of a mesh with an array of tokens."""

    def __init__(self, me: int, listener: Listener, tokens: int, d: int) -> None:
        self.me, self.listener = me, listener
        self.tokens = np.zeros((tokens, d))
        self.arrived: list[tuple[int, int]] = []
        self.lost: list[int] = []
        self.changed = threading.Condition()

    def connect(self, addresses: list[Any], generation: int) -> Mesh:
        return Mesh(self.listener, self.me, addresses, generation, self.place, self.on_arrival, self.lost.append)

    def place(self, token: int, turn: int) -> list[memoryview]:
        return [memoryview(self.tokens[token]).cast("B")]

    def on_arrival(self, token: int, turn: int) -> None:
        with self.changed:
            self.arrived.append((token, turn))
            self.changed.notify_all()

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.arrived) >= count, NEVER)


@pytest.fixture(params=["tcp", "tls"])
def ends(request: pytest.FixtureRequest) -> Any:
    secure = encryption() if request.param == "tls" else None
    listeners = [Listener("127.0.0.1", SECRET, secure) for _ in range(3)]
    yield [End(me, listener, 4, 50_000) for me, listener in enumerate(listeners)]
    for listener in listeners:
        listener.close()


def meshes(ends: list[End], generation: int = 1) -> list[Mesh]:
    addresses = [end.listener.address for end in ends]
    with ThreadPoolExecutor(len(ends)) as pool:
        return list(pool.map(lambda end: end.connect(addresses, generation), ends))


def test_tokens_arrive_unchanged_between_all_pairs_while_both_send(ends: list[End]) -> None:
    connected = meshes(ends)
    rng = np.random.default_rng(0)
    for end in ends:
        end.tokens[end.me] = rng.standard_normal(50_000)

    def send(end: End) -> None:
        for turn in range(20):
            for peer in range(3):
                if peer != end.me:
                    connected[end.me].send(peer, end.me, turn)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(send, ends))
    for end in ends:
        end.wait(40)
        for peer in ends:
            np.testing.assert_array_equal(end.tokens[peer.me], peer.tokens[peer.me])
    assert not any(end.lost for end in ends)
    for mesh in connected:
        mesh.close()


def test_a_peer_that_goes_away_is_noticed(ends: list[End]) -> None:
    connected = meshes(ends)
    connected[1].close()
    until(lambda: ends[0].lost and ends[2].lost)
    assert ends[0].lost == [1]
    assert ends[2].lost == [1]
    for mesh in connected:
        mesh.close()


def test_ending_a_generation_wakes_up_who_waits_for_a_connection_and_the_next_one_works(
    ends: list[End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "CONNECT_SECONDS", 2 * NEVER)  # it is not time that ends the waiting
    addresses = [end.listener.address for end in ends]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ends[0].connect, addresses, 1)  # the others never come
        until(lambda: all((1, 0) in end.listener._waiting for end in ends[1:]))  # now it waits for theirs
        ends[0].listener.end(1)
        with pytest.raises(ConnectionError, match="given up"):
            waiting.result(NEVER)
    connected = meshes(ends, generation=2)
    connected[0].send(1, 0, 7)
    ends[1].wait(1)
    assert ends[1].arrived == [(0, 7)]
    for mesh in connected:
        mesh.close()


def test_an_old_generation_is_sent_away(ends: list[End]) -> None:
    listener = ends[0].listener
    listener.end(5)
    stale = ends[1].listener.connect(listener.address, 5, 1)
    with pytest.raises(ConnectionError):
        stale.receive(memoryview(bytearray(1)))
    stale.close()


def threads(prefix: str) -> list[str]:
    """Those that are still there."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


def test_threads_and_sockets_are_gone_afterwards(ends: list[End]) -> None:
    for generation in range(1, 4):
        for mesh in meshes(ends, generation):
            mesh.close()
    ports = [end.listener.address for end in ends]
    for end in ends:
        end.listener.close()
    until(lambda: not threads("dtoken-"))
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(port, NEVER)


def hello(secret: bytes) -> bytes:
    return HELLO.pack(secret, 1, 1, bytes(32))


def test_a_wrong_secret_is_dropped_without_a_word() -> None:
    listener = Listener("127.0.0.1", SECRET)
    with socket.create_connection(listener.address, NEVER) as stranger:
        stranger.sendall(hello(b"x" * 32))
        assert stranger.recv(1) == b""
    assert not listener._waiting
    listener.close()


def test_who_sends_does_not_wait_for_a_peer_that_is_slow(ends: list[End]) -> None:
    first, second, *_ = ends
    held = threading.Event()
    place = second.place
    second.place = lambda token, turn: [held.wait(NEVER), *place(token, turn)][1:]  # type: ignore[method-assign,misc]
    connected = meshes(ends)
    first.tokens[:] = np.arange(4)[:, None]
    for turn in range(400):  # 160 MB, more than any buffer of the system takes
        connected[0].send(1, turn % 4, turn)
    assert not second.arrived
    held.set()
    second.wait(400)
    assert [turn for _, turn in second.arrived] == list(range(400))
    np.testing.assert_array_equal(second.tokens, first.tokens)
    for mesh in connected:
        mesh.close()


def test_closing_does_not_wait_for_what_could_not_be_sent(ends: list[End]) -> None:
    held = threading.Event()
    ends[1].place = lambda token, turn: [held.wait(NEVER)][1:]  # type: ignore[method-assign,misc]
    connected = meshes(ends)
    for turn in range(400):
        connected[0].send(1, 0, turn)
    connected[0].close()
    assert not threads("dtoken-send")
    held.set()
    for mesh in connected[1:]:
        mesh.close()


def test_strangers_by_the_hundred_cost_few_threads_and_keep_no_peer_out(ends: list[End]) -> None:
    door = ends[0].listener
    strangers = [socket.create_connection(door.address, NEVER) for _ in range(3 * GREETINGS)]
    until(lambda: len(door._greeted) == GREETINGS)
    assert len(threads("dtoken-greet")) <= GREETINGS + 1  # one may be about to end
    connected = meshes(ends)
    connected[1].send(0, 2, 5)
    ends[0].wait(1)
    assert ends[0].arrived == [(2, 5)]
    for stranger in strangers:
        stranger.close()
    for mesh in connected:
        mesh.close()


def test_a_listener_survives_without_descriptors(ends: list[End], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = threading.Event()
    accept = socket.socket.accept

    def full(self: socket.socket) -> Any:
        if refused.is_set():
            return accept(self)
        accept(self)[0].close()
        refused.set()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", full)
    # the threads that accept are in the old function; one connection each brings them into the new one
    for end in ends:
        socket.create_connection(end.listener.address, NEVER).close()
    connected = meshes(ends)
    assert refused.is_set()
    for mesh in connected:
        mesh.close()


def test_a_greeting_has_a_limit_that_dribbling_does_not_extend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "CONNECT_SECONDS", 0.3)
    listener = Listener("127.0.0.1", SECRET)
    with socket.create_connection(listener.address, NEVER) as stranger:
        stranger.settimeout(0.1)
        gone = False
        for byte in hello(SECRET)[:-1]:  # in all far longer than the limit, each one well within it
            try:
                stranger.sendall(bytes([byte]))
                gone = stranger.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                gone = True
            break
        assert gone
    assert not listener._waiting
    listener.close()


@pytest.mark.parametrize("certificate", ["none", "of another authority", "plain TCP"])
def test_tls_lets_nobody_in_without_the_certificate_even_with_the_secret(certificate: str) -> None:
    listener = Listener("127.0.0.1", SECRET, encryption())
    with socket.create_connection(listener.address, NEVER) as plain:
        stranger: Any = plain
        answer = b""
        try:
            if certificate != "plain TCP":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                stranger = (encryption().client if certificate == "of another authority" else context).wrap_socket(
                    plain
                )
            stranger.sendall(hello(SECRET))
            answer = stranger.recv(1)
        except OSError:
            pass
        finally:
            stranger.close()
    assert answer == b"" or certificate == "plain TCP"  # a TLS server may tell a plain client in an alert
    until(lambda: not threads("dtoken-greet"))  # whoever came has been judged
    assert not listener._waiting
    listener.close()


def test_a_door_is_at_one_of_the_ports_that_were_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        busy, port = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        listener = Listener("127.0.0.1", SECRET, ports=[busy, port])
        assert listener.address.port == port
        with pytest.raises(
            RunError, match=rf"no port from {min(busy, port)} to .* is free on 127.0.0.1; .*cluster.ports"
        ):
            Listener("127.0.0.1", SECRET, ports=[busy, port])
        listener.close()


@pytest.mark.parametrize(
    ("given", "ports"), [("4000:4002", [4000, 4001, 4002]), ([4000, 4002], [4000, 4002]), (4000, [0]), (None, [0])]
)
def test_the_door_is_among_the_ports_of_a_worker_unless_it_has_one_for_itself_only(
    given: Any, ports: list[int]
) -> None:
    assert list(worker._ports(SimpleNamespace(_start_port=given))) == ports
