"""Bugs on purpose, as somebody might make them: what a simulation is worth shows in how many of them it finds.

Each is a function that says which names of the program to replace, and by what; its docstring is the mistake.
"""

from collections.abc import Callable
from typing import Any

from dtoken.engine.dask import channel, crew, driver, greeting, host, tcp, worker
from dtoken.engine.dask.channel import Listener
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.dask.host import Host
from dtoken.engine.dask.tcp import HEADER, TcpLink
from dtoken.engine.loop import checkpoint, packed, parts
from dtoken.engine.loop.parts import PartFile, read_part
from hydra_dask import durable
from hydra_dask.durable import sync_folder

Names = list[tuple[Any, str, Any]]
PLANTED: dict[str, Callable[[], Names]] = {}


def planted(function: Callable[[], Names]) -> Callable[[], Names]:
    PLANTED[function.__name__] = function
    return function


# -- connections and generations ----------------------------------------------------------------------------


@planted
def any_generation_is_welcome() -> Names:
    """A connection is taken by the number of its host alone, for whatever generation it was opened."""

    def connection(self: Any, generation: int, who: int) -> Any:
        def found() -> Any:
            return next((guest for guest in self._waiting if guest.who == who), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self.is_over(generation), channel.CONNECT_SECONDS)
            if self.is_over(generation) or not found():
                raise ConnectionError("the connections are given up")
            return self._waiting.pop(found())

    original = Listener.is_over

    def is_over(self: Any, generation: int) -> bool:
        return self._closed if generation < self._ended else original(self, generation)

    return [(Listener, "connection", connection), (Listener, "is_over", is_over)]


@planted
def readers_are_not_awaited() -> Names:
    """Closing a link does not wait for its reader, which may still put a token of the old generation in its place."""

    def close(self: Any) -> None:
        self.interrupt()

    return [(TcpLink, "close", close)]


@planted
def token_is_sent_twice() -> Names:
    """What could not be sent at once is sent again as a whole."""
    original = TcpLink.send

    def send(self: Any, token: int, turn: int) -> None:
        original(self, token, turn)
        if self._unsent and turn >= 0:
            original(self, token, turn)

    return [(TcpLink, "send", send)]


@planted
def message_overtakes() -> Names:
    """A message is sent although a part of the one before is not."""

    def send(self: Any, token: int, turn: int) -> None:
        pieces = [memoryview(HEADER.pack(token, turn)), *self._place(token, turn)]
        with self._changed:
            if self._interrupted:
                raise ConnectionError("the connection is given up")
            if self._to.push(pieces, wait=False):
                return
            self._unsent.append(pieces)
            if self._sender is None:
                self._sender = tcp.threading.Thread(target=self._send, daemon=True, name="dtoken-send")
                self._sender.start()
            self._changed.notify_all()

    return [(TcpLink, "send", send)]


@planted
def loss_wakes_nobody() -> Names:
    """A thread that sleeps for a token does not hear that its peer is gone, nor that all is given up."""

    def on_loss(self: Any, peer: int) -> None:
        with self._arrived:
            self._lost = peer
            self._arrived.notify_all()

    return [(Host, "_on_loss", on_loss)]


@planted
def abort_reaches_no_host() -> Names:
    """When the driver gives a generation up, only those stop who wait for a connection."""

    @worker.answering
    async def abort(run: str, generation: int, dask_worker: Any) -> None:
        worker._seat(dask_worker, run).listener.end(generation)

    return [(worker, "abort", abort)]


@planted
def vanished_peer_is_awaited() -> Names:
    """Connections are not kept alive, so a cut cable is never noticed."""
    original = greeting._ready

    def ready(connection: Any) -> Any:
        found = original(connection)
        found.setsockopt(greeting.socket.SOL_SOCKET, greeting.socket.SO_KEEPALIVE, 0)
        return found

    return [(greeting, "_ready", ready)]


@planted
def silence_is_patience() -> Names:
    """A worker that does not answer counts as one that lives."""

    async def answering(self: Any, addresses: Any) -> list[str]:
        answers = await self._ask(addresses, worker.ping, (self._run,))
        return [a for a, answer in zip(addresses, answers, strict=True) if isinstance(answer, bool | TimeoutError)]

    return [(crew.Crew, "_answering", answering)]


# -- what is repeated from where ----------------------------------------------------------------------------


@planted
def events_are_noted_too_early() -> Names:
    """An epoch counts as happened before it is; after a fault it happens twice."""
    original = DaskEngine.settle

    def settle(self: Any) -> None:
        if queue := list(self._queue):
            self._cut.since += queue
            since = self._cut.since
            original(self)
            if self._cut.since is since:
                del since[-len(queue) :]

    return [(DaskEngine, "settle", settle)]


@planted
def events_before_the_cut_are_repeated() -> Names:
    """A new cut does not forget what happened before it."""
    original = DaskEngine.save

    def save(self: Any, folder: Any, cut: str) -> list[str]:
        since = self._cut.since
        names = original(self, folder, cut)
        self._cut.since = [*since, *self._cut.since]
        return names

    return [(DaskEngine, "save", save)]


@planted
def cut_is_believed_too_early() -> Names:
    """The driver goes back to a cut before all parts of it are written."""

    def save(self: Any, folder: Any, cut: str) -> list[str]:
        number = self._cut.number + 1

        def write() -> list[PartFile]:
            files = [PartFile(folder / f"{cut}-{self._generation}-{me}.bin", cut) for me in range(self.workers)]
            self._cut = driver._Cut(number, files)
            self._call_each(worker.save_part, [(self._run, number, file) for file in files])
            return files

        return [file.path.name for file in self._persistently(write)]

    return [(DaskEngine, "save", save)]


@planted
def memory_of_any_cut() -> Names:
    """A worker goes back to the cut that it remembers, whichever was asked for."""

    @worker.answering
    async def restore(run: str, cut: int, files: Any, dask_worker: Any) -> None:
        seat = worker._seat(dask_worker, run)

        def go_back() -> None:
            hosted = worker._host(seat)
            if not files:
                hosted.reset()
            elif seat.cut:
                hosted.restore([seat.cut[1]])
            else:
                hosted.restore(read_part(file) for file in files)
                seat.cut = (cut, hosted.runner.part())

        await worker._in_thread(seat, go_back)

    return [(worker, "restore", restore)]


@planted
def memory_of_another_host() -> Names:
    """A worker that hosts other nodes now keeps its copy of the cut."""

    def release(self: Any) -> None:
        if self.host:
            self.host.close()
        self.host = None

    return [(worker._Seat, "release", release)]


@planted
def placement_is_not_compared() -> Names:
    """A host is kept when its number is the same, although its nodes are not."""
    return [(worker, "_same", lambda a, b: True)]


@planted
def reports_are_kept() -> Names:
    """Models that were reported before a fault count as those of the next measurement."""

    def restore(self: Any, found: Any) -> None:
        self.runner.restore(found)

    def reset(self: Any) -> None:
        self.runner.begin(self._constants())

    return [(Host, "restore", restore), (Host, "reset", reset)]


# -- checkpoints --------------------------------------------------------------------------------------------


@planted
def saved_before_written() -> Names:
    """A worker says that its part is written when it has begun to."""

    @worker.answering
    async def save_part(run: str, cut: int, file: PartFile, dask_worker: Any) -> None:
        seat = worker._seat(dask_worker, run)
        seat.cut = (cut, worker._host(seat).runner.part())

        def write() -> None:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            parts.write_part(file, seat.cut[1])

        seat.thread.submit(write)

    return [(worker, "save_part", save_part)]


@planted
def old_parts_are_deleted_first() -> Names:
    """The files of the cut before go when those of the new one are there, but not yet its head."""
    original = checkpoint.write_packed

    def write(path: Any, arrays: Any, attributes: Any) -> None:
        checkpoint._tidy(path.parent / checkpoint.PARTS, attributes["parts"] or ())
        original(path, arrays, attributes)

    return [(checkpoint, "write_packed", write)]


@planted
def parts_have_no_cut() -> Names:
    """The part of a host has the same name at every cut, and nobody looks to which one it belongs."""

    def save(self: Any, folder: Any, cut: str) -> list[str]:
        number = self._cut.number + 1

        def write() -> list[PartFile]:
            files = [PartFile(folder / f"part-{me}.bin", cut) for me in range(self.workers)]
            self._call_each(worker.save_part, [(self._run, number, file) for file in files])
            return files

        self._cut = driver._Cut(number, self._persistently(write))
        return [file.path.name for file in self._cut.parts]

    def read(file: PartFile) -> Any:
        _, attributes = packed.read_packed(file.path)
        return read_part(file._replace(cut=attributes["cut"]))

    return [(DaskEngine, "save", save), (worker, "read_part", read)]


@planted
def file_is_written_in_place() -> Names:
    """A checkpoint gets its name before it is complete."""

    def write_complete(path: Any, write: Any, *, durable: bool = True) -> None:
        with path.open("wb") as file:
            write(file)

    return [(packed, "write_complete", write_complete)]


@planted
def content_is_not_flushed() -> Names:
    """A file gets its name before its content is on disk."""
    original = durable.write_complete

    def write_complete(path: Any, write: Any, *, durable: bool = True) -> None:
        original(path, write, durable=False)
        sync_folder(path.parent)

    return [(packed, "write_complete", write_complete)]


@planted
def names_are_not_flushed() -> Names:
    """Nothing makes sure that the name of a new checkpoint is on disk."""
    return [(durable, "sync_folder", lambda path: None)]


# -- what is left behind ------------------------------------------------------------------------------------


@planted
def listener_is_left_open() -> Names:
    """A worker that forgets a run goes on listening for its peers."""

    def close(self: Any) -> None:
        if self.host:
            self.host.interrupt(worker.ALL_GENERATIONS)
        self.thread.submit(self.release)
        self.thread.shutdown(wait=False)

    return [(worker._Seat, "close", close)]


@planted
def listener_is_not_woken() -> Names:
    """A door is closed, and the thread that waits behind it does not know."""

    def close(self: Any) -> None:
        self._closed = True
        with self._changed:
            for wire in self._waiting.values():
                wire.close()
            self._waiting.clear()
            self._changed.notify_all()
        self._socket.close()

    return [(Listener, "close", close)]


@planted
def offered_memory_is_left_open() -> Names:
    """Memory that hosts share can be opened until the end of the process."""
    return [(host.SharedMemory, "shut", lambda self: None)]


@planted
def orphans_are_kept() -> Names:
    """Runs of drivers that died are never forgotten."""
    return [(worker.Seats, "_forget_orphans", lambda self: None)]
