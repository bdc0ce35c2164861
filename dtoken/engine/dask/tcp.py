"""One way of a token to another host: a pair of TCP connections, sealed where the cluster uses TLS.

Every pair of hosts has two connections, one for each direction. A thread per peer reads all the time, so that a send
can never wait for a receive. A message is a fixed header and the bytes of one token; they are received straight into
the token's place. Who sends a token does not wait for a slow network either: what the system does not take at once is
sent by a thread of the link, while the steps of other nodes go on.
"""

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence

from dtoken.engine.dask.wire import Wire

HEADER = struct.Struct("<qq")  # token, turn

Place = Callable[[int, int], Sequence[memoryview]]  # the bytes of (token, turn), to send from or to receive into
Arrived = Callable[[int, int], None]  # token, turn


class TcpLink:
    """The connections of one host to one peer; see `dtoken.engine.dask.channel.Link`.

    It reads from the moment that it is made; ``lost`` is called when nothing more comes or goes, unless it was
    interrupted.
    """

    def __init__(
        self, outgoing: Wire, incoming: Wire, place: Place, arrived: Arrived, lost: Callable[[], None]
    ) -> None:
        self._to, self._from = outgoing, incoming
        self._place, self._arrived, self._lost = place, arrived, lost
        self._interrupted = False
        self._unsent: deque[list[memoryview]] = deque()  # messages, the first of which may be on its way
        self._changed = threading.Condition()
        self._sender: threading.Thread | None = None
        self._reader = threading.Thread(target=self._read, daemon=True, name="dtoken-read")
        self._reader.start()

    def send(self, token: int, turn: int) -> None:
        """Send a token; its place must not change until it has arrived."""
        parts = [memoryview(HEADER.pack(token, turn)), *self._place(token, turn)]
        with self._changed:
            if self._interrupted:
                raise ConnectionError("the connection is given up")
            if not self._unsent and self._to.push(parts, wait=False):
                return
            self._unsent.append(parts)
            if self._sender is None:
                self._sender = threading.Thread(target=self._send, daemon=True, name="dtoken-send")
                self._sender.start()
            self._changed.notify_all()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent or self._interrupted)
                if self._interrupted:
                    return
                parts = self._unsent[0]  # it stays there: nothing may overtake it
            try:
                self._to.push(parts, wait=True)
            except OSError:
                self._give_up()
                return
            with self._changed:
                self._unsent.popleft()

    def _read(self) -> None:
        header = bytearray(HEADER.size)
        try:
            while True:
                self._from.receive(memoryview(header))
                token, turn = HEADER.unpack(header)
                for part in self._place(token, turn):
                    self._from.receive(part)
                self._arrived(token, turn)
        except Exception:  # whatever it is, nothing more comes from there, and somebody may wait for it
            self._give_up()

    def _give_up(self) -> None:
        if not self._interrupted:
            self._lost()

    def interrupt(self) -> None:
        """Make all sends and receives fail, from any thread."""
        self._interrupted = True
        self._to.interrupt()
        self._from.interrupt()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the connections and wait for the threads: afterwards no token is read or written any more."""
        self.interrupt()
        self._reader.join()
        if self._sender:
            self._sender.join()
        self._to.close()
        self._from.close()
