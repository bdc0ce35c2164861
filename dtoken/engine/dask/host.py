"""A host: some of the nodes of a run in one process, and its share of the traffic of tokens.

A host draws the schedule itself, runs the executor on its own nodes, sends a token on when its next visit is elsewhere,
and waits only for tokens that are elsewhere. Hosts of one machine have the tokens in memory that they share, if they
can. All hosts of a run reach the end of an epoch with nothing in flight.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dtoken.algorithms.contract import Arrays, Origin
from dtoken.data.remote import open_store
from dtoken.engine.common import common_bytes, ring
from dtoken.engine.dask.assignment import Assignment, Segments, Stretch, subset
from dtoken.engine.dask.channel import Address, Listener, Mesh
from dtoken.engine.dask.shared import Offer, SharedMemory
from dtoken.engine.events.sleeping import LOOKS, looks
from dtoken.engine.loop.parts import Part
from dtoken.engine.loop.recorder import Measurement, measure_models, of_tokens
from dtoken.engine.loop.sampling import Integers, Sample
from dtoken.engine.rows.memory import memory_need
from dtoken.engine.rows.node_rows import NodeRows
from dtoken.engine.runner import Runner, Site, Tally
from dtoken.problem.losses import get_loss

REPORT, PROBE = -1, -2  # as turns: a model for measuring, a message whose way is timed


class PeerLost(ConnectionError):
    """Another host of the run is gone; the epoch must be repeated."""


class Host:
    """The nodes of ``assignment`` that are placed at host number ``me``: a runner, and the courier of its tokens.

    They begin at ``origin``, if they go on from an earlier run. All methods but ``interrupt`` belong to one thread, but
    for those of a courier, which the threads of the runner call.
    """

    def __init__(
        self,
        assignment: Assignment,
        me: int,
        listener: Listener,
        memory: int | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.assignment, self.me, self._listener = assignment, me, listener
        self._mesh: Mesh | None = None
        self._generation = -1
        self._arrived = threading.Condition()
        self._gathered: set[int] = set()
        self._probes = 0
        self._lost: int | None = None
        self._segments = Segments(assignment.schedule)
        self._memory: SharedMemory | None = None
        self._near: frozenset[int] = frozenset()
        method, placement = assignment.method, assignment.placement
        site = Site(placement.thread, placement.host, me, assignment.token_start)
        store, n = open_store(assignment.store, assignment.scratch), len(placement.thread)
        nodes = site.numbers
        sizes = store.node_rows[nodes], store.node_nonzeros[nodes]
        need = memory_need(method, n, store.d, *sizes, assignment.jumps)
        room = need.room(memory, assignment.read_ahead, workers=True)
        rows = NodeRows(store, nodes, get_loss(assignment.loss), method, room)
        self.runner = Runner(method, self._constants(), rows, site, courier=self, origin=origin)
        self.reported = np.zeros((n if method.reports_nodes else len(site.token_start), store.d))
        self._probe = np.zeros(sum(array[:1].nbytes for array in self.runner.tokens), np.uint8)
        self.runner.compile()

    def _constants(self) -> Arrays:
        hosts = self.assignment.placement.hosts
        return subset(self.assignment.constants, np.flatnonzero(hosts == self.me), len(hosts))

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

    def offer(self) -> Offer | str:
        """Make memory for the tokens that other hosts of this machine can share, or say why that is not possible."""
        self.disconnect()
        try:
            self._memory = SharedMemory.make(
                common_bytes(self.runner.handover.common), self.assignment.placement.host_count
            )
        except OSError as error:
            return error.strerror or str(error)
        return self._memory.offer

    def attach(self, offer: Offer) -> str | None:
        """Share the memory of another host, or say why that is not possible."""
        self.disconnect()
        try:
            self._memory = SharedMemory.attach(offer, self.me, self._listener.secret)
        except OSError as error:
            return error.strerror or str(error)
        return None

    def proved(self, hosts: Sequence[int]) -> list[int]:
        """Those of ``hosts`` that share the memory which this one has offered; it is not offered any more."""
        if self._memory is None:
            return []
        self._memory.shut()
        return [host for host in hosts if self._memory.has_answer(host, self._listener.secret)]

    def connect(self, addresses: Sequence[Address], generation: int, near: Sequence[int] = ()) -> None:
        """Connect to all other hosts, in place of earlier connections; tokens are shared with those that are near."""
        if self._mesh:
            self.disconnect()
        self._near = frozenset(near)
        self.runner.share(self._memory.memory if near and self._memory else None, near)
        if self._memory:
            self._memory.shut()
            self._memory = None
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
        """End all connections; tokens are out of date afterwards."""
        if self._mesh:
            self._mesh.close()
            self._mesh = None
        if self._memory:
            self._memory.shut()
            self._memory = None

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
        if turn >= 0:
            self.runner.handover.arrived(k, turn)
            return
        with self._arrived:
            if turn == REPORT:
                self._gathered.add(k)
            else:
                self._probes += 1
            self._arrived.notify_all()

    def _on_loss(self, peer: int) -> None:
        with self._arrived:
            self._lost = peer
            self._arrived.notify_all()
        self.runner.handover.wake()

    def failed(self) -> bool:
        """Whether another host is gone, or the epoch was given up."""
        return self._lost is not None

    def check(self) -> None:
        """Say so."""
        if self._lost is not None:
            raise PeerLost("the epoch was given up" if self._lost == self.me else f"host {self._lost} is gone")

    def _wait_until(self, come: Callable[[], bool]) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: come() or self.failed())
        self.check()

    def send(self, k: int, host: int, turn: int) -> None:
        """Send a token, or a report or a probe, to another host."""
        self.check()
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
            self.check()
            events = self._segments.events(stretch.start)
            self.runner.happen(events.between(stretch.offset, stretch.offset + stretch.count))
        self.runner.finish()
        return self.runner.tally

    def probe(self, peer: int, asks: bool, trips: int, burst: int = 1) -> list[float]:
        """Send messages of the size of a token, ``burst`` at a time, and one back; return the seconds of each trip."""
        if peer in self._near:
            return self._probe_shared(asks, trips)
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

    def _probe_shared(self, asks: bool, trips: int) -> list[float]:
        """The same through shared memory; the other host has all bytes when it has written to each line of them."""
        bells, message = self.runner.handover.common.bells, self.runner.handover.common.message
        mine, other = (0, 1) if asks else (1, 0)
        taken, first = [], int(bells[mine]) + 1
        for trip in range(first, first + trips):
            began = time.perf_counter()
            if asks:
                ring(bells, mine, trip, message)
            while looks(bells, other, trip, LOOKS) == LOOKS:
                self.check()
            taken.append(time.perf_counter() - began)
            if not asks:
                ring(bells, mine, trip, message)
        return taken

    def measure(self, t: float, sample: Sample | None = None, living: Integers | None = None) -> Measurement:
        """Measure the hosted nodes, and all models that are reported, of which every host gets a copy first."""
        models, here = self.runner.models(t), self.runner.tokens_here
        reports_nodes = self.assignment.method.reports_nodes
        own, vectors = (self.runner.numbers, models.nodes) if reports_nodes else (here, models.tokens[here])
        self.reported[own] = vectors
        self._exchange_reports(own.tolist())
        reported = of_tokens(models._replace(tokens=self.reported), living)
        return measure_models(self.runner, reported, self.assignment.theta_star, sample)

    def _exchange_reports(self, own: list[int]) -> None:
        """Send the models that are here to everyone, and wait for the others."""
        for peer in range(self.assignment.placement.host_count):
            if peer != self.me:
                for model in own:
                    self.send(model, peer, REPORT)
        expected = set(range(len(self.reported))) - set(own)
        self._wait_until(lambda: expected <= self._gathered)
        with self._arrived:
            self._gathered -= expected
