"""One trial: a run on a simulated cluster, faults, and everything that must hold while it goes on and in the end."""

import hashlib
import json
import random
import traceback
from dataclasses import dataclass, field
from typing import Any

from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.dask.worker import LEASE_SECONDS
from dtoken.engine.loop.checkpoint import NAME, PARTS
from dtoken.engine.loop.interruption import Cut
from dtoken.engine.loop.packed import LENGTH, MAGIC
from dtoken.engine.settings import DaskSettings
from dtoken.errors import RunError
from tests.simulation.cases import METHODS, case, differences, execute
from tests.simulation.cluster import Cluster, SimClient, SimWorker
from tests.simulation.disk import Disk, SimPath
from tests.simulation.faults import KINDS, Fault, draw_faults
from tests.simulation.memory import Memory
from tests.simulation.network import Network
from tests.simulation.ports import ports, replaced
from tests.simulation.world import Process, Stuck, Violation, World, enter, leave

PROGRESS_SECONDS = 400.0  # in which a run must end after the last fault
FOLDER = "/run"


@dataclass(frozen=True)
class Plan:
    """What a trial is made from: a seed, and what follows from it unless it was changed."""

    seed: int
    method: str
    workers: int
    machines: int
    threads: int
    transport: str
    rejoin: float
    every: int
    faults: tuple[Fault, ...]


def draw_plan(seed: int, faults: int) -> Plan:
    rng = random.Random(seed)
    return Plan(
        seed=seed,
        method=rng.choice(list(METHODS)),
        workers=rng.choice((1, 2, 3, 3, 4)),
        machines=rng.choice((1, 2, 2)),
        threads=rng.choice((1, 1, 2)),
        transport=rng.choice(("auto", "auto", "tcp")),
        rejoin=rng.choice((0.0, 0.0, 0.2, 0.5)),
        every=rng.choice((1, 1, 3)),
        faults=draw_faults(rng, faults),
    )


@dataclass
class Told:
    """How a trial went."""

    plan: Plan
    violation: str | None = None
    fingerprint: str = ""
    injected: int = 0
    recoveries: int = 0
    drivers: int = 0
    virtual: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)


class Trial:
    """A world, what is in it, and who watches it."""

    def __init__(self, plan: Plan, keep_trace: bool = False) -> None:
        self.plan, self.case = plan, case(plan.method)
        self.world = World(plan.seed, keep_trace)
        self.network, self.memory, self.disk = Network(), Memory(), Disk()
        self.world.disk = self.disk  # type: ignore[attr-defined]
        self.told = Told(plan)
        self.asked: set[Process] = set()  # drivers that were told to end at a cut
        self._cut = self._secured = -1.0  # time of the newest checkpoint, and of the newest that is on disk for certain
        self._cuts: dict[Any, int] = {}  # number of the newest cut of each seat
        self.engines: list[DaskEngine] = []
        self._last_fault = 0.0
        self._excuse = -1.0  # until when a run may end with a sentence

    def run(self) -> Told:
        enter(self.world)
        names = ports(self.network, self.memory, self.disk, self.case.store, self._asked_to_stop)
        try:
            with replaced(names):
                try:
                    self._run()
                except Stuck as error:
                    self.world.violate(str(error))
                self.told.violation = self.world.violation
                self.told.virtual = self.world.now
                self.told.recoveries = self.told.drivers - 1 + sum(engine.faults for engine in self.engines)
                self.world.close()
        finally:
            leave()
        self.told.fingerprint = self.world.fingerprint()
        self.told.trace = self.world.trace or []
        return self.told

    def _run(self) -> None:
        plan = self.plan
        self.cluster = Cluster(self.world, self.network, plan.workers, plan.machines, plan.threads)
        self.disk.killed = self._killed_on_disk
        self.disk.folders.add(FOLDER)
        self.disk.secure("/")
        self.disk.watchers.append(self._on_disk)
        self.disk.securing.append(self._on_secured)
        self.done = self.world.loop.create_future()
        self._start_driver()
        self._next_fault(0)
        self.world.later(PROGRESS_SECONDS, self._look_at_clock)
        self.world.run(self.done)

    # -- the driver, and whoever starts it again ------------------------------------------------------------

    def _asked_to_stop(self) -> bool:
        return self.world.current() in self.asked

    def _start_driver(self) -> None:
        self.told.drivers += 1
        self._restarts = False
        self.driver = Process(self.world, f"driver {self.told.drivers}", "machine 0")
        self.world.spawn(self.driver, self._drive, "main")

    def restart(self, seconds: float) -> None:
        """Start another driver, if this was the one that worked: a run directory has a lock."""
        if not self._restarts and not self._over:
            self._restarts = True
            self.world.later(seconds, self._start_driver)

    def _drive(self) -> None:
        plan = self.plan
        settings = DaskSettings(
            transport=plan.transport, attempts=20 + len(plan.faults), rejoin=plan.rejoin, silence=2.0
        )
        client: Any = SimClient(self.cluster, self.driver, self)
        path: Any = SimPath(self.disk, FOLDER)
        store: Any = self.case.store
        try:
            with DaskEngine(client, self.case.experiment, store, settings, self._noted) as engine:
                self.engines.append(engine)
                outcome = execute(self.case.experiment, engine, plan.every, path)
        except Cut:
            self._again("was asked to stop")
            return
        except RunError as error:
            if self.world.now > self._excuse:
                self.world.violate(f"the run ended without a reason: {error}")
            self._again(str(error))
            return
        except Exception:
            self.world.violate(f"the driver failed:\n{traceback.format_exc()}")
            return
        if told := differences(outcome, self.case.expected):
            self.world.violate(f"other bits than the local engine's: {', '.join(told)}")
        self.world.note("the run is over")
        self._tidy_up()

    def _again(self, why: str) -> None:
        self.world.note(f"the driver ended: {why}")
        self.restart(1.0)

    def _noted(self, sentence: str) -> None:
        self.world.note(sentence)

    # -- faults ---------------------------------------------------------------------------------------------

    def _next_fault(self, number: int) -> None:
        if number < len(self.plan.faults):
            fault, loop = self.plan.faults[number], self.world.loop
            if fault.steps:
                loop.alarm = loop.steps + fault.steps, lambda: self._strike(number)
            else:
                self.world.later(fault.pause, self._strike, number)

    def _strike(self, number: int) -> None:
        if self.done.done() or self._over:
            return
        fault = self.plan.faults[number]
        self.world.note(f"FAULT {fault.kind} {fault.target}")
        self.told.injected += 1
        self.told.kinds[fault.kind] = self.told.kinds.get(fault.kind, 0) + 1
        KINDS[fault.kind][1](self, fault)
        if fault.kind in ("full_disk", "broken_disk", "slow_disk", "kill_on_disk"):
            self._excuse = self.world.now + 120.0
        self._last_fault = self.world.now
        self._next_fault(number + 1)

    def _killed_on_disk(self, process: Process) -> None:
        process.kill()
        if process is self.driver:
            self.restart(1.0)
        for each in self.cluster.workers:
            if each.process is process:
                self.cluster.replace(each, 1.0)

    def _look_at_clock(self) -> None:
        left = self._last_fault + PROGRESS_SECONDS - self.world.now
        if left > 0:
            self.world.later(left, self._look_at_clock)
        elif not self._over:
            self.world.violate(f"the run has not ended {PROGRESS_SECONDS:.0f} s after the last fault")

    # -- what must hold at every step -----------------------------------------------------------------------

    def _on_disk(self, name: str) -> None:
        """Whenever a name changes: there is a whole checkpoint, no older than the one before."""
        if name.rpartition(".")[2] == "partial" or self.world.closing:
            return
        self._check_disk(self._cut, f"{name} changed")

    def _check_disk(self, least: float, why: str) -> None:
        if f"{FOLDER}/{NAME}" not in self.disk.names:
            if least >= 0:
                self.world.violate(f"{why}: the checkpoint is gone")
            return
        try:
            self._cut, _ = _checked(self.disk, f"{FOLDER}/{NAME}")
        except Violation as error:
            self.world.violate(f"{why}: {error}")
        if self._cut < least:
            self.world.violate(f"{why}: the checkpoint went back from {least} to {self._cut}")

    def _on_secured(self, folder: str) -> None:
        if folder == FOLDER:
            self._secured = self._cut

    def after_power_failure(self) -> None:
        """What was secured is there."""
        self._cut = -1.0
        self._check_disk(self._secured, "the power failed")
        self._secured = self._cut

    def asked_for(self, function: Any) -> None:
        """Whenever the driver calls a worker: what it goes on from is on disk for certain."""
        if function.__name__ == "run_epoch" and self._secured < self._cut and self.world.now > self._excuse:
            self.world.violate("events happen after a checkpoint that is not on disk for certain")

    def answered(self, worker: SimWorker) -> None:
        """Whenever a worker did something: its cuts only advance."""
        for seat in worker.seats.values():
            if seat.cut is not None:
                number, before = seat.cut[0], self._cuts.get(seat, 0)
                if number < min(before, self.engines[-1]._cut.number if self.engines else 0):
                    self.world.violate(f"{worker.process} went back from cut {before} to {number}")
                self._cuts[seat] = number

    # -- what must be left ----------------------------------------------------------------------------------

    _over = _restarts = False

    def _tidy_up(self) -> None:
        self._over = True
        for each in self.cluster.living:
            each.process.resume()
        self.world.later(10.0, self._look_around, self.told.drivers > 1 or bool(self.told.kinds))

    def _look_around(self, may_wait: bool) -> None:
        """Nothing is left behind, at the latest when the runs of dead drivers are forgotten."""
        if may_wait and any(each.process.threads or each.seats for each in self.cluster.living):
            self.world.later(LEASE_SECONDS + 60.0, self._look_around, False)
            return
        for each in [*self.cluster.living]:
            process = each.process
            if each.seats:
                self.world.violate(f"{process} still has a seat")
            if process.threads:
                self.world.violate(f"{process} still has threads: {[thread.name for thread in process.threads]}")
            if process.sockets:
                self.world.violate(f"{process} still has {len(process.sockets)} sockets")
            if process.files:
                self.world.violate(f"{process} still has {len(process.files)} files open")
        if not self.done.done():
            self.done.set_result(None)


def _checked(disk: Disk, name: str) -> tuple[float, list[str]]:
    """Time of a checkpoint, and its parts; Violation: it is not whole."""
    head = _head(disk, name)
    parts = [f"{FOLDER}/{PARTS}/{part}" for part in head["parts"] or ()]
    for part in parts:
        if part not in disk.names:
            raise Violation(f"the part {part} of the checkpoint is not there")
        if _head(disk, part)["cut"] != head["cut"]:
            raise Violation(f"the part {part} is of another cut than the head")
    return head["t"], parts


def _head(disk: Disk, name: str) -> dict[str, Any]:
    content = bytes(disk.names[name].content)
    if hashlib.sha256(content[:-32]).digest() != content[-32:]:
        raise Violation(f"{name} is not whole")
    start = len(MAGIC) + LENGTH
    length = int.from_bytes(content[len(MAGIC) : start], "little")
    found: dict[str, Any] = json.loads(content[start : start + length])["attributes"]
    return found


def run_trial(plan: Plan, keep_trace: bool = False) -> Told:
    return Trial(plan, keep_trace).run()
