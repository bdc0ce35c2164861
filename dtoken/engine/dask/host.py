"""A host: some of the nodes of a run in one process, and its share of the traffic of tokens.

A host draws the schedule itself, runs the executor on its own nodes, sends a token on when its next visit is elsewhere,
and waits only for tokens that are elsewhere. All hosts of a run reach the end of an epoch with nothing in flight.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dtoken.algorithms.contract import Arrays, Origin
from dtoken.data.remote import open_store
from dtoken.engine.dask.assignment import Assignment, Segments, Stretch, subset
from dtoken.engine.dask.channel import Address, Listener, Mesh
from dtoken.engine.events.executor import publish
from dtoken.engine.loop.parts import Part
from dtoken.engine.loop.recorder import Measurement, measure_models
from dtoken.engine.rows.memory import memory_need
from dtoken.engine.rows.node_rows import NodeRows
from dtoken.engine.runner import Runner, Site, Tally
from dtoken.problem.losses import get_loss

HANDOVERS = 50  # looks for a token of another thread, each with the processor given away before it, until one sleeps
HANDOVER_SECONDS = 0.0002  # from one look to the next, then
REPORT, PROBE = -1, -2  # as turns: a model for measuring, a message whose way is timed


class PeerLost(ConnectionError):
    """Another host of the run is gone; the epoch must be repeated."""


class Host:
    """The nodes of ``assignment`` that are placed at host number ``me``: a runner, and the courier of its tokens.

    They begin at ``origin``, if they go on from an earlier run. All methods but ``interrupt`` belong to one thread, but
    for those of a courier, ``send`` and ``wait``, which the ``threads`` of the runner call.
    """

    patience = 300  # looks for a token before a thread sleeps until one arrives

    def __init__(
        self,
        assignment: Assignment,
        me: int,
        listener: Listener,
        memory: int | None = None,
        origin: Origin | None = None,
        threads: int = 1,
    ) -> None:
        self.assignment, self.me, self._listener = assignment, me, listener
        self._mesh: Mesh | None = None
        self._generation = -1
        self._arrived = threading.Condition()
        self._gathered: set[int] = set()
        self._probes = 0
        self._lost: int | None = None
        self._segments = Segments(assignment.schedule)
        method, site = assignment.method, Site(assignment.placement, me, assignment.token_start)
        store, n = open_store(assignment.store, assignment.scratch), len(assignment.placement)
        nodes = site.numbers.tolist()
        sizes = [[counts[node] for node in nodes] for counts in (store.node_rows, store.node_nonzeros)]
        room = memory_need(method, n, store.d, *sizes).room(memory, assignment.read_ahead, workers=True)
        rows = NodeRows(store, nodes, get_loss(assignment.loss), method, room)
        self.runner = Runner(method, self._constants(), rows, site, threads=threads, courier=self, origin=origin)
        self.reported = np.zeros((n if method.reports_nodes else len(site.token_start), store.d))
        self._probe = np.zeros(sum(array[:1].nbytes for array in self.runner.tokens), np.uint8)
        self.runner.compile()

    def _constants(self) -> Arrays:
        placement = self.assignment.placement
        return subset(self.assignment.constants, np.flatnonzero(placement == self.me), len(placement))

    def reset(self) -> None:
        """Go to the very start."""
        self._gathered.clear()
        self.runner.begin(self._constants())

    def adopt(self, assignment: Assignment) -> None:
        """Go to the very start of a run that differs from this one in constants and schedule only."""
        self.assignment = assignment
        self._segments.close()
        self._segments = Segments(assignment.schedule)
        self.reset()

    def restore(self, parts: Iterable[Part]) -> None:
        """Go back to a cut, from parts that hold all that is placed here, whoever hosted it."""
        self._gathered.clear()
        self.runner.restore(parts)

    def connect(self, addresses: Sequence[Address], generation: int) -> None:
        """Connect to all other hosts, in place of earlier connections."""
        self.disconnect()
        self._lost, self._generation, self._probes = None, generation, 0
        self._mesh = Mesh(self._listener, self.me, addresses, generation, self._bytes, self._on_token, self._on_loss)
        if self._listener.is_over(generation):  # interrupted meanwhile
            self.disconnect()
            raise PeerLost("the connections are given up")

    def interrupt(self, generation: int) -> None:
        """Make everything fail that waits for others, unless it belongs to a later generation; from any thread."""
        self._listener.end(generation)
        if self._generation <= generation:
            self._on_loss(self.me)
            if mesh := self._mesh:
                mesh.interrupt()

    def disconnect(self) -> None:
        """End all connections."""
        if self._mesh:
            self._mesh.close()
            self._mesh = None

    def close(self) -> None:
        """Let go of connections and threads."""
        self.disconnect()
        self._segments.close()
        self.runner.close()

    def _bytes(self, k: int, turn: int) -> list[memoryview]:
        if turn == REPORT:
            return [memoryview(self.reported[k]).cast("B")]
        if turn == PROBE:
            return [self._probe.data]
        return [memoryview(array[k : k + 1]).cast("B") for array in self.runner.tokens if array[k : k + 1].size]

    def _on_token(self, k: int, turn: int) -> None:
        with self._arrived:
            if turn == REPORT:
                self._gathered.add(k)
            elif turn == PROBE:
                self._probes += 1
            else:
                publish(self.runner.ready, k, turn)
            self._arrived.notify_all()

    def _on_loss(self, peer: int) -> None:
        with self._arrived:
            self._lost = peer
            self._arrived.notify_all()

    def _check(self) -> None:
        if self._lost is not None:
            raise PeerLost("the epoch was given up" if self._lost == self.me else f"host {self._lost} is gone")

    def _wait_until(self, come: Callable[[], bool], seconds: float | None = None) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: come() or self._lost is not None, seconds)
        self._check()

    def wait(self, come: Callable[[], bool]) -> None:
        """Wait until a token has come; not long if it may come from another thread, which does not notify."""
        if self.runner.threads == 1:
            self._wait_until(come)
            return
        for _ in range(HANDOVERS):
            time.sleep(0)  # to the thread that may have it and need this processor
            if come():
                return
        self._wait_until(come, HANDOVER_SECONDS)

    def send(self, k: int, host: int, turn: int) -> None:
        """Send a token, or a report or a probe, to another host."""
        self._check()
        if self._mesh is None:
            raise PeerLost("no connections")
        try:
            self._mesh.send(host, k, turn)
        except OSError as error:
            raise PeerLost(f"host {host} is gone") from error

    def run(self, stretches: Sequence[Stretch]) -> Tally:
        """Run an epoch; return what it took."""
        self.runner.tally = Tally()
        for stretch in stretches:
            self._check()
            events = self._segments.events(stretch.start)
            self.runner.happen(events.between(stretch.offset, stretch.offset + stretch.count))
        self.runner.finish()
        return self.runner.tally

    def probe(self, peer: int, asks: bool, trips: int, burst: int = 1) -> list[float]:
        """Send messages of the size of a token, ``burst`` at a time, and one back; return the seconds of each trip."""
        taken, awaited = [], 1 if asks else burst
        for trip in range(1, trips + 1):
            began = time.perf_counter()
            for _ in range(burst if asks else 0):
                self.send(0, peer, PROBE)
            self._wait_until(lambda trip=trip: self._probes >= trip * awaited)  # type: ignore[misc]
            taken.append(time.perf_counter() - began)
            if not asks:
                self.send(0, peer, PROBE)
        with self._arrived:
            self._probes -= trips * awaited  # the next ones may have come already
        return taken

    def measure(self, t: float) -> Measurement:
        """Measure the hosted nodes, and all models that are reported, of which every host gets a copy first."""
        models, here = self.runner.models(t), self.runner.tokens_here
        reports_nodes = self.assignment.method.reports_nodes
        own, vectors = (self.runner.numbers, models.nodes) if reports_nodes else (here, models.tokens[here])
        self.reported[own] = vectors
        self._exchange_reports(own.tolist())
        return measure_models(self.runner.values, models._replace(tokens=self.reported), self.assignment.theta_star)

    def _exchange_reports(self, own: list[int]) -> None:
        """Send the models that are here to everyone, and wait for the others."""
        for peer in range(int(self.assignment.placement.max()) + 1):
            if peer != self.me:
                for model in own:
                    self.send(model, peer, REPORT)
        expected = set(range(len(self.reported))) - set(own)
        self._wait_until(lambda: expected <= self._gathered)
        with self._arrived:
            self._gathered -= expected
