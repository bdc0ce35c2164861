"""A host: some of the nodes of a run in one process, and its share of the traffic of tokens.

A host draws the schedule itself, runs the executor on its own nodes, sends a token on when its next visit is elsewhere,
and waits only for tokens that are elsewhere. All hosts of a run reach the end of an epoch with nothing in flight.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Models, Vector
from dtoken.data.store import ShardStore
from dtoken.engine.channel import Address, Listener, Mesh
from dtoken.engine.executor import LEAVING, WAITING, executor, publish
from dtoken.engine.local import hosted_samples
from dtoken.engine.parts import Part, put_part, take_part
from dtoken.engine.plan import Plan, Traffic, make_plan
from dtoken.engine.recorder import Measurement, measure_models
from dtoken.problem.hosted import host
from dtoken.problem.losses import get_loss
from dtoken.schedule.stream import Schedule, Start

PATIENCE = 300  # looks for a token before the thread sleeps until one arrives
REPORT = -1  # as a turn: a model for measuring, not a token


class PeerLost(ConnectionError):
    """Another host of the run is gone; the epoch must be repeated."""


@dataclass(frozen=True)
class Assignment:
    """What every host of a run knows."""

    run: str  # number of the run, unique on the cluster
    store: Path
    loss: str
    method: Method
    constants: Arrays
    schedule: Schedule
    token_start: NDArray[np.int64]  # (K,) first node of each token
    placement: NDArray[np.int64]  # (n,) host of each node
    theta_star: Vector


@dataclass(frozen=True)
class Stretch:
    """Events number ``offset`` to before ``offset + count`` of a segment."""

    start: Start
    offset: int
    count: int


@dataclass
class Tally:
    """Where the time of a host goes."""

    events: int = 0  # visits and local steps that ran here
    busy: float = 0.0  # seconds in kernels
    waiting: float = 0.0  # seconds without a token
    hops: int = 0  # tokens sent
    sending: float = 0.0  # seconds spent sending


def subset(constants: Arrays, nodes: NDArray[np.int64], n: int) -> Arrays:
    """The constants of some nodes: arrays have one number per node."""
    return constants._replace(
        **{
            name: value[nodes]
            for name, value in constants._asdict().items()
            if isinstance(value, np.ndarray) and len(value) == n
        }
    )


class Host:
    """The nodes of ``assignment`` that are placed at host number ``me``."""

    def __init__(self, assignment: Assignment, me: int, listener: Listener) -> None:
        self.assignment, self.me, self._listener = assignment, me, listener
        method = assignment.method
        store, n = ShardStore.open(assignment.store), len(assignment.placement)
        self.nodes = np.flatnonzero(assignment.placement == me)
        self._slot = np.full(n, -1)
        self._slot[self.nodes] = np.arange(len(self.nodes))
        self._c = subset(assignment.constants, self.nodes, n)
        self._rows = host(store, self.nodes.tolist(), get_loss(assignment.loss))
        self._samples = hosted_samples(method, self._c, self._rows)
        self._run = executor(method.local, method.visit, method.meet)
        tokens = len(assignment.token_start)
        self._ready = np.zeros(tokens, np.int64)
        self._reports_nodes = method.reports_nodes
        self.reported = np.zeros((n if self._reports_nodes else tokens, store.d))
        self.mesh: Mesh | None = None
        self._arrived = threading.Condition()
        self._gathered: set[int] = set()
        self._lost: int | None = None
        self.tally = Tally()
        self.reset()

    def reset(self) -> None:
        """Go to the very start."""
        method, token_start = self.assignment.method, self.assignment.token_start
        self._node_state, self._token_state = method.start(self._c, self._rows)
        self._gathered.clear()
        self._place_tokens(token_start, np.zeros(len(token_start), np.int64))

    def _place_tokens(self, where: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        self._traffic = Traffic(self.assignment.placement, self.me, where.copy(), turns.copy())
        self._ready[:] = np.where(self.assignment.placement[where] == self.me, turns, -1)

    @property
    def _here(self) -> NDArray[np.int64]:
        """The tokens that are here."""
        return np.flatnonzero(self.assignment.placement[self._traffic.where] == self.me)

    def connect(self, addresses: Sequence[Address], generation: int) -> None:
        """Connect to all other hosts, in place of earlier connections."""
        self.disconnect()
        self._lost = None
        self.mesh = Mesh(self._listener, self.me, addresses, generation, self._bytes, self._on_token, self._on_loss)

    def disconnect(self) -> None:
        """End all connections; a thread that waits for a token gives up."""
        self._on_loss(self.me)
        if self.mesh:
            self.mesh.close()
            self.mesh = None

    def _bytes(self, k: int, turn: int) -> list[memoryview]:
        if turn == REPORT:
            return [memoryview(self.reported[k]).cast("B")]
        return [memoryview(array[k : k + 1]).cast("B") for array in self._token_state if array[k : k + 1].size]

    def _on_token(self, k: int, turn: int) -> None:
        with self._arrived:
            if turn == REPORT:
                self._gathered.add(k)
            else:
                publish(self._ready, k, turn)
            self._arrived.notify_all()

    def _on_loss(self, peer: int) -> None:
        with self._arrived:
            self._lost = peer
            self._arrived.notify_all()

    def run(self, stretches: Sequence[Stretch]) -> Tally:
        """Run an epoch."""
        for stretch in stretches:
            events, _ = next(iter(self.assignment.schedule.segments(stretch.start)))
            part = events.between(stretch.offset, stretch.offset + stretch.count)
            turns = self._traffic.turns.copy()
            plan = make_plan(part, self._slot, self._samples, self._rows.first, len(turns), self._traffic)
            self._run_plan(plan, turns)
            self.tally.events += len(plan.row) + len(plan.node) - len(self.nodes)
        return self.tally

    def _run_plan(self, plan: Plan, turns: NDArray[np.int64]) -> None:
        for k in np.flatnonzero(plan.depart >= 0).tolist():
            self._send(k, int(plan.depart[k]), int(turns[k]))
        cursor = np.concatenate([[0], plan.first[:-1]])
        state = (self._c, self._rows, self._node_state, self._token_state)
        while True:
            began = time.perf_counter()
            status = self._run(plan, *state, self._ready, cursor, PATIENCE)
            self.tally.busy += time.perf_counter() - began
            if status == LEAVING:
                self._send_after(plan, int(cursor[0]) - 1)
            elif status == WAITING:
                self._wait_for_token(plan, int(cursor[0]))
            else:
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
        self.tally.hops += 1
        self.tally.sending += time.perf_counter() - began

    def _deliver(self, k: int, target: int, turn: int) -> None:
        if self._lost is not None or self.mesh is None:
            raise PeerLost(f"host {self._lost} is gone")
        try:
            self.mesh.send(target, k, turn)
        except OSError as error:
            raise PeerLost(f"host {target} is gone") from error

    def _wait_for_token(self, plan: Plan, v: int) -> None:
        k, other = int(plan.token[v]), int(plan.other[v])

        def come() -> bool:
            here = self._ready[k] == plan.turn[v] and (other < 0 or self._ready[other] == plan.other_turn[v])
            return bool(here) or self._lost is not None

        began = time.perf_counter()
        with self._arrived:
            self._arrived.wait_for(come)
        self.tally.waiting += time.perf_counter() - began
        if self._lost is not None:
            raise PeerLost(f"host {self._lost} is gone")

    def measure(self, t: float) -> Measurement:
        """Measure the hosted nodes, and all models that are reported, of which every host gets a copy first."""
        models = self.models(t)
        own, vectors = (self.nodes, models.nodes) if self._reports_nodes else (self._here, models.tokens[self._here])
        self.reported[own] = vectors
        self._exchange_reports(own.tolist())
        return measure_models(self._rows, models._replace(tokens=self.reported), self.assignment.theta_star)

    def models(self, t: float) -> Models:
        """The estimates of the hosted nodes and of the tokens; those of tokens that are elsewhere are out of date."""
        return self.assignment.method.models(self._c, self._node_state, self._token_state, t)

    def _exchange_reports(self, own: list[int]) -> None:
        """Send the models that are here to everyone, and wait for the others."""
        for peer in range(int(self.assignment.placement.max()) + 1):
            if peer != self.me:
                for model in own:
                    self._deliver(model, peer, REPORT)
        expected = set(range(len(self.reported))) - set(own)
        with self._arrived:
            self._arrived.wait_for(lambda: expected <= self._gathered or self._lost is not None)
            self._gathered -= expected
        if self._lost is not None:
            raise PeerLost(f"host {self._lost} is gone")

    def part(self) -> Part:
        """A copy of the state of the nodes and tokens that are here."""
        return take_part(self.nodes, self._rows.first, self._node_state, self._here, self._token_state, self._traffic)

    def restore(self, parts: Sequence[Part]) -> None:
        """Go back to a cut; ``parts`` are all its parts, whoever hosted them."""
        for part in parts:
            put_part(part, self.nodes, self._rows.first, self._node_state, self._token_state)
        self._gathered.clear()
        self._place_tokens(parts[0].where, parts[0].turns)
