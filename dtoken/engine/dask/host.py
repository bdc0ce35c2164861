"""A host: some of the nodes of a run in one process, and its share of the traffic of tokens.

A host draws the schedule itself, runs the executor on its own nodes, sends a token on when its next visit is elsewhere,
and waits only for tokens that are elsewhere. All hosts of a run reach the end of an epoch with nothing in flight.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Models, Origin, Vector
from dtoken.data.remote import open_store
from dtoken.engine.dask.assignment import Assignment, Segments, Stretch, Tally, subset
from dtoken.engine.dask.channel import Address, Listener, Mesh
from dtoken.engine.events.draws import hosted_samples
from dtoken.engine.events.executor import LEAVING, WAITING, executor, publish
from dtoken.engine.events.plan import Plan, Traffic, make_plan
from dtoken.engine.loop.parts import Part, put_part, take_part
from dtoken.engine.loop.recorder import Measurement, measure_models
from dtoken.engine.rows.memory import memory_need
from dtoken.engine.rows.node_rows import Hosting
from dtoken.engine.rows.pieces import Piece, Planned, Step, Stream, cut
from dtoken.engine.rows.row_cache import RowCache
from dtoken.errors import RunError
from dtoken.problem.losses import get_loss
from dtoken.schedule.events import Events, no_events
from dtoken.schedule.samples import Samples

PATIENCE = 300  # looks for a token before the thread sleeps until one arrives
REPORT, PROBE = -1, -2  # as turns: a model for measuring, a message whose way is timed


class PeerLost(ConnectionError):
    """Another host of the run is gone; the epoch must be repeated."""


class Host:
    """The nodes of ``assignment`` that are placed at host number ``me``; ``origin`` is where they begin, if not anew.

    All methods but ``interrupt`` belong to one thread.
    """

    def __init__(
        self,
        assignment: Assignment,
        me: int,
        listener: Listener,
        memory: int | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.assignment, self.me, self._listener, self._origin = assignment, me, listener, origin
        method = assignment.method
        store, n = open_store(assignment.store, assignment.scratch), len(assignment.placement)
        self.nodes = np.flatnonzero(assignment.placement == me)
        self._slot = np.full(n, -1)
        self._slot[self.nodes] = np.arange(len(self.nodes))
        self._c = subset(assignment.constants, self.nodes, n)
        nodes = self.nodes.tolist()
        sizes = [[counts[node] for node in nodes] for counts in (store.node_rows, store.node_nonzeros)]
        room = memory_need(method, n, store.d, *sizes).room(memory, assignment.read_ahead, workers=True)
        self._hosting = Hosting(store, nodes, get_loss(assignment.loss), method, room)
        self._rows = self._hosting.rows
        self.samples: Samples = hosted_samples(method, self._c, self._rows)
        self._run = executor(method.local, method.visit, method.meet)
        tokens = len(assignment.token_start)
        self._ready = np.zeros(tokens, np.int64)
        self._reports_nodes = method.reports_nodes
        self.reported = np.zeros((n if self._reports_nodes else tokens, store.d))
        self._mesh: Mesh | None = None
        self._generation = -1
        self._arrived = threading.Condition()
        self._gathered: set[int] = set()
        self._probes = 0
        self._lost: int | None = None
        self._tally = Tally()
        self._segments = Segments(assignment.schedule)
        self.reset()
        self._happen(no_events())  # compiles
        self._finish()

    @property
    def streams(self) -> bool:
        """Whether rows are read again and again."""
        return self._hosting.stream is not None

    def reset(self) -> None:
        """Go to the very start."""
        token_start = self.assignment.token_start
        self._forget()
        self._node_state, self._token_state = self._hosting.start(self._c, self._origin)
        self._probe = np.zeros(sum(array[:1].nbytes for array in self._token_state), np.uint8)
        self._place_tokens(token_start, np.zeros(len(token_start), np.int64))

    def adopt(self, assignment: Assignment) -> None:
        """Go to the very start of a run that differs from this one in constants and schedule only."""
        self.assignment, n = assignment, len(assignment.placement)
        self._c = subset(assignment.constants, self.nodes, n)
        self._segments.close()
        self._segments = Segments(assignment.schedule)
        self.reset()

    def _place_tokens(self, where: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        self._gathered.clear()
        self._traffic = Traffic(self.assignment.placement, self.me, where.copy(), turns.copy())
        self._ready[:] = np.where(self.assignment.placement[where] == self.me, turns, -1)

    @property
    def _here(self) -> NDArray[np.int64]:
        """The tokens that are here."""
        return np.flatnonzero(self.assignment.placement[self._traffic.where] == self.me)

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
        self._hosting.close()

    def _bytes(self, k: int, turn: int) -> list[memoryview]:
        if turn == REPORT:
            return [memoryview(self.reported[k]).cast("B")]
        if turn == PROBE:
            return [self._probe.data]
        return [memoryview(array[k : k + 1]).cast("B") for array in self._token_state if array[k : k + 1].size]

    def _on_token(self, k: int, turn: int) -> None:
        with self._arrived:
            if turn == REPORT:
                self._gathered.add(k)
            elif turn == PROBE:
                self._probes += 1
            else:
                publish(self._ready, k, turn)
            self._arrived.notify_all()

    def _on_loss(self, peer: int) -> None:
        with self._arrived:
            self._lost = peer
            self._arrived.notify_all()

    def _check(self) -> None:
        if self._lost is not None:
            raise PeerLost("the epoch was given up" if self._lost == self.me else f"host {self._lost} is gone")

    def _wait_until(self, come: Callable[[], bool]) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: come() or self._lost is not None)
        self._check()

    def run(self, stretches: Sequence[Stretch]) -> Tally:
        """Run an epoch; return what it took."""
        self._tally = Tally()
        for stretch in stretches:
            self._check()
            events = self._segments.events(stretch.start)
            part = events.between(stretch.offset, stretch.offset + stretch.count)
            self._happen(part)
        self._finish()
        return self._tally

    def _happen(self, events: Events) -> None:
        """Let events happen, soon."""
        if (stream := self._hosting.stream) is None:
            turns = self._traffic.turns.copy()
            self._run_plan(self._plan(events), turns)
            return
        for piece in cut(events, self._slot, self.samples, stream.cache, self.assignment.method):
            if isinstance(piece, Step):
                self._take_step(piece.node, stream)
            else:
                stream.add(lambda piece=piece: self._planned(piece, stream.cache))  # type: ignore[misc]

    def _planned(self, piece: Piece, cache: RowCache) -> Planned:
        turns = self._traffic.turns.copy()
        plan = self._plan(piece.events)
        return Planned(piece.needed(cache, self.assignment.method), lambda: self._run_plan(plan, turns))

    def _take_step(self, i: int, stream: Stream) -> None:
        scratch = np.empty(self._rows.d)

        def work(phase: Callable[..., None], first: int, stop: int) -> None:
            began = time.perf_counter()
            phase(self._c, self._rows, self._node_state, i, first, stop, scratch)
            self._tally.busy += time.perf_counter() - began

        for phase in self.assignment.method.phases:
            stream.over_node(i, partial(work, phase))
        self._tally.events += 1

    def _finish(self) -> None:
        if self._hosting.stream is not None:
            self._hosting.stream.finish()

    def _forget(self) -> None:
        if self._hosting.stream is not None:
            self._hosting.stream.forget()

    def _plan(self, events: Events) -> Plan:
        return make_plan(events, self._slot, self.samples, self._rows.first, len(self._ready), self._traffic)

    def _run_plan(self, plan: Plan, turns: NDArray[np.int64]) -> None:
        for k in np.flatnonzero(plan.depart >= 0).tolist():
            self._send(k, int(plan.depart[k]), int(turns[k]))
        cursor = np.concatenate([[0], plan.first[:-1]])
        state = (self._c, self._rows, self._node_state, self._token_state)
        while True:
            began = time.perf_counter()
            status = self._run(plan, *state, self._ready, cursor, PATIENCE)
            self._tally.busy += time.perf_counter() - began
            if status == LEAVING:
                self._send_after(plan, int(cursor[0]) - 1)
            elif status == WAITING:
                self._wait_for_token(plan, int(cursor[0]))
            else:
                self._tally.events += plan.events
                return

    def _send_after(self, plan: Plan, v: int) -> None:
        if plan.leave[v] >= 0:
            self._send(int(plan.token[v]), int(plan.leave[v]), int(plan.turn[v]) + 1)
        if plan.other_leave[v] >= 0:
            self._send(int(plan.other[v]), int(plan.other_leave[v]), int(plan.other_turn[v]) + 1)

    def _send(self, k: int, target: int, turn: int) -> None:
        began = time.perf_counter()
        self._ready[k] = -1
        self._deliver(k, target, turn)
        self._tally.hops += 1
        self._tally.sending += time.perf_counter() - began

    def _deliver(self, k: int, target: int, turn: int) -> None:
        self._check()
        if self._mesh is None:
            raise PeerLost("no connections")
        try:
            self._mesh.send(target, k, turn)
        except OSError as error:
            raise PeerLost(f"host {target} is gone") from error

    def _wait_for_token(self, plan: Plan, v: int) -> None:
        k, other = int(plan.token[v]), int(plan.other[v])

        def come() -> bool:
            here = self._ready[k] == plan.turn[v] and (other < 0 or self._ready[other] == plan.other_turn[v])
            return bool(here)

        began = time.perf_counter()
        self._wait_until(come)
        self._tally.waiting += time.perf_counter() - began

    def probe(self, peer: int, asks: bool, trips: int) -> list[float]:
        """Send a message of the size of a token to and fro; return the seconds of one way, for each trip."""
        taken = []
        for trip in range(1, trips + 1):
            began = time.perf_counter()
            if asks:
                self._deliver(0, peer, PROBE)
            self._wait_until(lambda trip=trip: self._probes >= trip)  # type: ignore[misc]
            taken.append((time.perf_counter() - began) / 2)
            if not asks:
                self._deliver(0, peer, PROBE)
        with self._arrived:
            self._probes -= trips  # the next ones may have come already
        return taken

    def measure(self, t: float) -> Measurement:
        """Measure the hosted nodes, and all models that are reported, of which every host gets a copy first."""
        models = self.models(t)
        own, vectors = (self.nodes, models.nodes) if self._reports_nodes else (self._here, models.tokens[self._here])
        self.reported[own] = vectors
        self._exchange_reports(own.tolist())
        return measure_models(self._hosting.values, models._replace(tokens=self.reported), self.assignment.theta_star)

    def models(self, t: float) -> Models:
        """The estimates of the hosted nodes and of the tokens; those of tokens that are elsewhere are out of date."""
        return self.assignment.method.models(self._c, self._node_state, self._token_state, t)

    @property
    def start_seconds(self) -> float:
        """Seconds that the initial state took."""
        return self._hosting.start_seconds

    def margins(self) -> Vector | None:
        """A copy of the margins of the hosted rows."""
        found = self.assignment.method.margins(self._c, self._node_state)
        return None if found is None else found.copy()

    def _exchange_reports(self, own: list[int]) -> None:
        """Send the models that are here to everyone, and wait for the others."""
        for peer in range(int(self.assignment.placement.max()) + 1):
            if peer != self.me:
                for model in own:
                    self._deliver(model, peer, REPORT)
        expected = set(range(len(self.reported))) - set(own)
        self._wait_until(lambda: expected <= self._gathered)
        with self._arrived:
            self._gathered -= expected

    def part(self) -> Part:
        """A copy of the state of the nodes and tokens that are here."""
        return take_part(self.nodes, self._rows.first, self._node_state, self._here, self._token_state, self._traffic)

    def restore(self, parts: Iterable[Part]) -> None:
        """Go back to a cut, from parts that hold all that is placed here, whoever hosted it."""
        self._forget()
        nodes, tokens = 0, np.zeros(len(self._ready), bool)
        for part in parts:
            nodes += put_part(part, self.nodes, self._rows.first, self._node_state, self._token_state)
            tokens[part.tokens] = True
            where, turns = part.where, part.turns
        if nodes < len(self.nodes):
            raise RunError(f"the checkpoint lacks {len(self.nodes) - nodes} nodes; delete it to start the run anew")
        self._place_tokens(where, turns)
        if not tokens[self._here].all():
            raise RunError("the checkpoint lacks tokens; delete it to start the run anew")
