"""The Dask engine, seen from the driver: places nodes on workers, starts epochs, collects measurements, mends faults.

Tokens never come here. The driver says which events are to happen, and every worker draws them itself. When a worker is
lost, or does not answer, the others stop; the nodes are placed on the workers that there are now, all go back to the
last cut, and what happened since is repeated, to the same bits. New workers are used from the next cut on. A worker
that is told to leave stays until there is a cut, so that nothing is repeated.
"""

import secrets
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from dtoken.algorithms.contract import Models, Origin, Vector
from dtoken.data.store import ShardStore
from dtoken.engine.dask import worker
from dtoken.engine.dask.assignment import Assignment, Stretch, share_of
from dtoken.engine.dask.crew import Crew, WorkersLost, take_turns
from dtoken.engine.dask.facts import LinkFacts, worker_facts
from dtoken.engine.dask.sharing import Sharing, no_sharing, share_memory
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.parts import PartFile
from dtoken.engine.loop.recorder import Measurement, Record
from dtoken.engine.loop.sampling import Integers, Sample
from dtoken.engine.placement import Placement, place
from dtoken.engine.runner import Tally
from dtoken.engine.settings import DaskSettings
from dtoken.errors import InputError, RunError
from dtoken.schedule.events import Events
from dtoken.schedule.samples import Samples
from dtoken.schedule.stream import Start

PROBES = 8  # round trips that are timed before the first event
BURST = 4  # messages at a time by which it is found out how long one keeps others from leaving

T = TypeVar("T")


@dataclass
class _Cut:
    """The last consistent cut, and what has happened since."""

    number: int = 0
    parts: Sequence[PartFile] = ()  # where it is on disk; none: it is the very start
    since: list[Stretch] = field(default_factory=list)


class DaskEngine:
    """Runs an experiment on the workers of a Dask cluster.

    Parameters
    ----------
    client
        Of the cluster.
    experiment
        What to run.
    store
        The data, which all workers can read where it says.
    settings
        What each worker may use, and how to deal with workers that are lost.
    note
        Told, in a sentence, when workers were lost or joined.
    trouble
        Says why there will be no workers, once that is certain.
    """

    def __init__(
        self,
        client: Client,
        experiment: Experiment,
        store: ShardStore,
        settings: DaskSettings | None = None,
        note: Callable[[str], None] = lambda _: None,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._experiment, self._store, self._note = experiment, store, note
        self._settings = settings or DaskSettings()
        self._run, self._secret = uuid.uuid4().hex, secrets.token_bytes(32)
        self._generation, self._assembled = 0, False
        self._workers: dict[str, str] = {}  # name -> address, in the order of the hosts
        self._seated: set[str] = set()  # addresses that were told of this run
        self._leaving: dict[str, str] = {}  # those of the workers that have been told to leave
        self._placement = Placement(np.zeros(experiment.n, np.int64), np.zeros(1, np.int64))
        self._sharing = no_sharing(1)
        self._noted: set[str] = set()  # what was said of memory that cannot be shared
        self._queue: list[Stretch] = []
        self._cut = _Cut()
        self.tallies: dict[str, Tally] = defaultdict(Tally)  # by name of the worker
        self.faults = 0
        self.streams = False  # whether some worker has not all its rows in memory
        self.hop_seconds: list[float] = []  # messages of the size of a token, one way, between two workers
        self.sending_seconds = 0.0  # of such a message, those in which no other one can leave
        self._seconds = 0.0  # in which events happened
        self._crew = Crew(client, self._run, self._settings, trouble)
        try:
            self._persistently(lambda: None)
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """How many workers host nodes now."""
        return len(self._workers)

    @property
    def leaving(self) -> bool:
        """Whether some worker was told to leave, and waits for a cut."""
        return bool(self._leaving)

    @property
    def hosts(self) -> NDArray[np.int64]:
        """Which worker, by its number, hosts each node."""
        return self._placement.hosts

    def adopt(self, experiment: Experiment) -> None:
        """Go to the very start of an experiment that differs from this one in its constants only."""
        self._experiment = experiment
        self._persistently(lambda: self._call(worker.adopt, self._assignment()))

    def run(self, events: Events, start: Start, offset: int) -> None:
        """Note events that are to happen; ``settle`` makes them happen."""
        if events.size:
            self._queue.append(Stretch(start, offset, events.size))

    def settle(self) -> None:
        """Let all noted events happen."""
        if self._queue:
            queue, self._queue = self._queue, []
            began = time.perf_counter()
            ran: list[worker.Ran] = self._persistently(lambda: self._call(worker.run_epoch, self._run, queue))
            self._seconds += time.perf_counter() - began
            for (name, address), (tally, leaves) in zip(self._workers.items(), ran, strict=True):
                self.tallies[name].add(tally)
                if leaves:
                    self._leaving[name] = address
            self._cut.since += queue

    def measure(
        self, t: float, theta_star: Vector, sample: Sample | None = None, living: Integers | None = None
    ) -> Measurement:
        """Measure the estimates at time ``t``, of ``living`` tokens, the objective on a sample if there is one."""
        asked = self._run, t, sample, living
        parts: list[Measurement] = self._persistently(lambda: self._call(worker.measure, *asked))
        hosts, spread = self._placement.hosts, np.empty(self._experiment.n)
        values = np.concatenate([part.values for part in parts])  # of nodes in any order: they are only summed up
        if sample is not None:
            values[np.argsort(hosts[sample.nodes], kind="stable")] = values.copy()
        for host, part in enumerate(parts):
            spread[hosts == host] = part.node_spread
        failure = next((part.failure for part in parts if part.failure), None)
        return parts[0]._replace(values=values, node_spread=spread, failure=failure)

    def models(self, t: float) -> Models:
        """The estimates at time ``t``; only here do models come to the driver."""

        def collect() -> list[tuple[Vector, Vector]]:
            self._call(worker.measure, self._run, t, None, None)
            return self._call_each(worker.node_models, [(self._run, t, me == 0) for me in range(self.workers)])

        parts = self._persistently(collect)
        nodes = np.empty((self._experiment.n, parts[0][0].shape[1]))
        for host, (models, _) in enumerate(parts):
            nodes[self._placement.hosts == host] = models
        return Models(nodes, np.array(parts[0][1]))

    def start_seconds(self) -> float:
        """Seconds that the initial state took, where it took longest."""
        return float(max(self._persistently(lambda: self._call(worker.start_seconds, self._run))))

    def margins(self) -> Vector | None:
        """The margins of all rows."""
        parts: list[Vector | None] = self._persistently(lambda: self._call(worker.margins, self._run))
        found = [part for part in parts if part is not None]
        return _in_order(found, self._placement.hosts, self._experiment.problem.shards.node_rows) if found else None

    def samples(self) -> Samples:
        """What the nodes draw from."""
        parts: list[Samples] = self._persistently(lambda: self._call(worker.samples, self._run))
        return _in_order_of_nodes(parts, self._placement.hosts)

    def facts(self, records: Sequence[Record], begun: int) -> dict[str, Any]:
        """What each worker did, the faults, and what a gradient and a hop took."""
        link = LinkFacts(self.hop_seconds, self.sending_seconds, self._seconds)
        told = {"transport": self._sharing.transport, "not_shared": sorted(self._noted)}
        return told | worker_facts(self.tallies, self.faults, link, records, begun)

    def save(self, folder: Path, cut: str) -> list[str]:
        """Make now the cut to which a fault leads back; its parts are written to files in ``folder``."""
        number, folder = self._cut.number + 1, folder.resolve()

        def save() -> list[PartFile]:
            names = [f"{cut}-{self._generation}-{me}.bin" for me in range(self.workers)]
            files = [PartFile(folder / name, cut) for name in names]
            self._call_each(worker.save_part, [(self._run, number, file) for file in files])
            return files

        self._cut = _Cut(number, self._persistently(save))
        if self.leaving or (self.workers < self._experiment.n and self._crew.newcomers(list(self._workers))):
            self._assembled = False  # a cut is a cheap moment to place nodes elsewhere
        return [file.path.name for file in self._cut.parts]

    def load(self, parts: Sequence[PartFile]) -> None:
        """Go to a cut that was saved before, by whatever engine."""
        self._cut = _Cut(self._cut.number + 1, [part._replace(path=part.path.resolve()) for part in parts])
        self._persistently(lambda: self._call(worker.restore, self._run, self._cut.number, self._cut.parts))

    def close(self) -> None:
        """Let the workers forget this run."""
        with suppress(RunError, OSError):
            known = self._crew.known().values()
            seated = [address for address in known if address in self._seated]
            self._crew.tell([*seated, *self._leaving.values()], worker.leave, self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _persistently(self, work: Callable[[], T]) -> T:
        """Do ``work``; when workers are lost on the way, mend that and do it again."""
        lost: WorkersLost | None = None
        began = time.monotonic()
        for _ in range(self._settings.attempts):
            try:
                if not self._assembled:
                    self._assemble(after=lost)
                result = work()
            except WorkersLost as error:
                if lost is None:
                    began = time.monotonic()
                lost, self._assembled = error, False
                self.faults += 1
            else:
                if lost is not None:
                    held = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
                    self._note(f"lost {lost}; went on with {held} after {time.monotonic() - began:.1f} s")
                return result
        kept = "the last checkpoint is kept, and the same command continues from it"
        raise RunError(
            f"the same stretch of events failed {self._settings.attempts} times in a row, the last time with {lost}; "
            + (kept if self._cut.parts else "there was no checkpoint yet")
        )

    def _assemble(self, after: WorkersLost | None) -> None:
        """Place the nodes on the workers that there are, go back to the last cut and repeat what came after it."""
        if self._generation:
            known = self._crew.known().values()
            self._crew.tell(
                [a for a in self._workers.values() if a in known], worker.abort, self._run, self._generation
            )
        self._generation += 1
        left, self._leaving = self._leaving, {}
        self._crew.tell(list(left.values()), worker.leave, self._run)
        living = self._crew.living(wanted=self.workers if after else 1)
        order = take_turns(list(self._workers), list(living))[: self._experiment.n]
        self._workers = {name: living[name] for name in order}
        unused = [address for address in living.values() if address in self._seated - set(self._workers.values())]
        self._crew.tell(unused, worker.leave, self._run)
        self._seated |= set(self._workers.values())
        doors = self._take_seats()
        topology, work = self._experiment.walk.topology, self._experiment.problem.shards.node_nonzeros
        threads = [self._settings.threads or door.threads for door in doors]
        self._placement = place(topology, work, threads, [door.machine or door.address.host for door in doors])
        assignment = self._assignment()
        tasks = [(assignment, me, self._origin_of(me)) for me in range(self.workers)]
        self.streams = any(self._call_each(worker.host_nodes, tasks))
        self._sharing = self._share([door.machine for door in doors])
        addresses = [door.address for door in doors]
        self._call_each(worker.connect, [(self._run, addresses, self._generation, near) for near in self._sharing.near])
        if not self.hop_seconds and self.workers > 1:
            self.hop_seconds = self.probe(PROBES)
            self.sending_seconds = self.sending(PROBES)
        self._call(worker.restore, self._run, self._cut.number, self._cut.parts)
        if self._cut.since:
            self._call(worker.run_epoch, self._run, self._cut.since)
        if left and after is None:
            gone, held = ", ".join(left), f"{self.workers} worker{'s' if self.workers > 1 else ''}"
            self._note(f"worker {gone} left in good order; went on with {held} from where it was")
        self._assembled = True

    def _take_seats(self) -> list[worker.Door]:
        """The workers of one machine stand together from now on."""
        doors: list[worker.Door] = self._call(worker.take_seat, self._run, self._secret, worker.code())
        machines = [door.machine or door.address.host for door in doors]
        order = sorted(range(len(doors)), key=lambda host: machines.index(machines[host]))
        workers = list(self._workers.items())
        self._workers = dict(workers[host] for host in order)
        return [doors[host] for host in order]

    def _share(self, machines: Sequence[str]) -> Sharing:
        """Let workers of one machine share memory, unless it is asked for otherwise; say what keeps them from it."""
        wanted = self._settings.transport
        if wanted == "tcp" or self.workers == 1:
            return no_sharing(self.workers)
        sharing = share_memory(self._call_each, self._run, machines)
        if wanted == "shared" and sharing.transport != "shared":
            reason = "; ".join(sharing.reasons) or "the workers are on different machines, or for different users"
            raise InputError(f"engine.transport=shared is not possible: {reason}; use engine.transport=auto")
        for reason in set(sharing.reasons) - self._noted:
            self._note(f"workers of one machine cannot share memory: {reason}; they send each other tokens over TCP")
        self._noted |= set(sharing.reasons)
        return sharing

    def probe(self, trips: int) -> list[float]:
        """Seconds of messages between the first and the last host: on different machines, where there are several."""
        return [seconds / 2 for seconds in self._round_trips(trips, 1)]

    def sending(self, trips: int) -> float:
        """Seconds by which each further message of the same host makes several of them take longer; none if shared."""
        if self.workers - 1 in self._sharing.near[0]:
            return 0.0
        one, several = (min(self._round_trips(trips, burst)) for burst in (1, BURST))
        return max(0.0, several - one) / (BURST - 1)

    def _round_trips(self, trips: int, burst: int) -> list[float]:
        last = self.workers - 1
        peers: list[int | None] = [last, *[None] * (last - 1), 0]
        asked = [(self._run, peer, me == 0, trips, burst) for me, peer in enumerate(peers)]
        taken: list[float] = self._call_each(worker.probe, asked)[0]
        return taken

    def _assignment(self) -> Assignment:
        experiment = self._experiment
        return Assignment(
            run=self._run,
            store=self._store.location,
            loss=experiment.problem.loss.name,
            method=experiment.hosted,
            constants=experiment.constants,
            schedule=experiment.schedule,
            token_start=experiment.start.positions,
            placement=self._placement,
            theta_star=experiment.optimum.theta,
            jumps=len(experiment.walk.neighbours),
            memory=self._settings.budget,
            read_ahead=self._settings.read_ahead,
            scratch=self._store.scratch,
        )

    def _origin_of(self, me: int) -> Origin | None:
        """Where the nodes of a host begin, if they go on from an earlier run."""
        origin = self._experiment.origin
        rows = self._experiment.problem.shards.node_rows
        return None if origin is None else share_of(origin, np.flatnonzero(self._placement.hosts == me), rows)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return self._call_each(function, [arguments] * self.workers)

    def _call_each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._crew.call(self._workers, self._generation, function, arguments)


def _in_order(parts: Sequence[Vector], placement: Any, node_rows: NDArray[np.int64]) -> Vector:
    """One number for each row of all nodes, from those of each host."""
    found = np.empty(node_rows.sum())
    for host, part in enumerate(parts):
        found[np.repeat(placement == host, node_rows)] = part
    return found


def _in_order_of_nodes(parts: Sequence[Samples], placement: Any) -> Samples:
    """Samples of all nodes from those of each host."""
    slots = np.zeros(len(parts), np.int64)
    pieces = []
    for host in placement.tolist():
        part, slot = parts[host], slots[host]
        own = slice(part.first[slot], part.first[slot + 1])
        pieces.append((part.kept[own], part.accept[own], part.alias[own]))
        slots[host] += 1
    kept, accept, alias = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return Samples(np.cumsum([0] + [len(piece[0]) for piece in pieces]), kept, accept, alias)
