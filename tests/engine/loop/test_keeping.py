"""When checkpoints are written, what stops a run, and what its seconds contain; by a clock that goes as it is told."""

import signal
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop import interruption, keeping
from dtoken.engine.loop import run as module
from dtoken.engine.loop.checkpoint import NAME, load_checkpoint
from dtoken.engine.loop.keeping import Keeper
from dtoken.engine.loop.run import Watch
from dtoken.engine.loop.settings import Checkpointing, Stop
from dtoken.schedule.events import MOVE, Events
from hydra_dask.interrupts import interruptible
from hydra_dask.stopping import JOB
from tests.engine.loop.test_resume import assert_same, go


class Clock:
    """Seconds that pass when someone says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def after(self, work: Any, seconds: float) -> Any:
        """The same as ``work``, but it takes so long."""

        def slow(*arguments: Any, **options: Any) -> Any:
            self.now += seconds
            return work(*arguments, **options)

        return slow


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(keeping, "clock", found)
    return found


def written(clock: Clock, keeper: Keeper, writes: list[float], until: float, step: float = 0.5) -> list[float]:
    """Look every ``step`` seconds, at no record point; when checkpoints were begun, in seconds from now."""
    began = clock.now
    while clock.now < began + until:
        clock.now += step
        keeper.look(None, False)
    found = [moment - began for moment in writes]
    writes.clear()
    return found


def make_keeper(clock: Clock, cost: float, seconds: float | None, every: int | None) -> tuple[Keeper, list[float]]:
    writes: list[float] = []

    def write() -> None:
        writes.append(clock.now)
        clock.now += cost

    return Keeper(Checkpointing(seconds, every), write), writes


def test_checkpoints_are_so_many_seconds_apart(clock: Clock) -> None:
    keeper, writes = make_keeper(clock, 0.0, 60.0, None)
    assert written(clock, keeper, writes, 200.0) == [60.0, 120.0, 180.0]


@pytest.mark.parametrize("cost", [0.125, 2.0, 10.0])
def test_checkpoints_take_at_most_a_fiftieth_of_the_time(clock: Clock, cost: float) -> None:
    """After the first, whose cost nobody knows; never sooner than asked for."""
    keeper, writes = make_keeper(clock, cost, 60.0, None)
    moments = written(clock, keeper, writes, 5000.0)
    gaps = [later - earlier - cost for earlier, later in pairwise(moments)]
    assert all(max(60.0, 50 * cost) <= gap <= max(60.0, 50 * cost) + 1.0 for gap in gaps)
    assert len(moments) == {0.125: 83, 2.0: 49, 10.0: 10}[cost]


def test_at_record_points_if_asked_for(clock: Clock) -> None:
    keeper, writes = make_keeper(clock, 10.0, None, 3)
    for number in range(8):
        keeper.look(None, False)
        keeper.look(number, False)
    assert len(writes) == 3  # 0, 3, 6


@pytest.mark.parametrize(("length", "cost", "kept"), [(0.1, 0.001, 0), (1.0, 0.001, 1), (59.0, 0.001, 1)])
def test_at_the_end_if_a_longer_run_is_spared_much_more(clock: Clock, length: float, cost: float, kept: int) -> None:
    keeper, writes = make_keeper(clock, cost, 60.0, None)
    clock.now += length
    keeper.end(False)
    assert len(writes) == kept


def test_not_at_the_end_where_writing_takes_long(clock: Clock) -> None:
    keeper, writes = make_keeper(clock, 10.0, 60.0, None)
    written(clock, keeper, writes, 60.0)
    clock.now += 400.0
    keeper.end(False)
    assert writes == []
    keeper.end(True)  # but if the run is to stop, nothing is to be lost
    assert len(writes) == 1


def test_wall_is_the_time_of_running_alone(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the log, of measuring, of checkpoints, or of whoever looks on."""
    stretches: list[int] = []

    class Slow(LocalEngine):
        def run(self, events: Events, *arguments: Any) -> None:
            stretches.append(events.size)
            clock.now += 1e-3 * events.size
            super().run(events, *arguments)

        def measure(self, *arguments: Any) -> Any:
            clock.now += 1e3
            return super().measure(*arguments)

    monkeypatch.setattr(module, "save_checkpoint", clock.after(module.save_checkpoint, 1e6))
    slow = clock.after(lambda *_: None, 1e4)
    watch = Watch(events=slow, record=slow, checkpoint=slow)
    stop = Stop(passes=None, events=5000)
    outcome = go(tmp_path, engine_class=Slow, stop=stop, every=20.0, watch=watch, checkpointing=Checkpointing(0.001, 2))
    assert len(outcome.records) > 3
    for record in outcome.records:
        assert record.wall == pytest.approx(1e-3 * record.event)
    assert clock.now > 1e6  # there were checkpoints


class Queueing(LocalEngine):
    """Lets events happen when it settles, as the Dask engine does, each of which takes a while."""

    clock: Clock
    cost: float
    settled: list[float]

    def run(self, events: Events, *arguments: Any) -> None:
        self.__dict__.setdefault("queue", []).append((events, *arguments))

    def settle(self) -> None:
        for events, *arguments in self.__dict__.pop("queue", []):
            self.clock.now += self.cost * events.size
            super().run(events, *arguments)
        self.settled.append(self.clock.now)


@pytest.mark.parametrize("cost", [1e-4, 0.01, 3.0])
def test_cuts_are_made_where_record_points_are_far_apart(clock: Clock, cost: float, tmp_path: Path) -> None:
    """No record but at start and end: what SIGKILL could cost is never much more than ``checkpoint.seconds``."""
    engine = type("Engine", (Queueing,), {"clock": clock, "cost": cost, "settled": []})
    saved: list[float] = [clock.now]
    events = max(600, min(150_000, int(500 / cost)))
    stop, watch = Stop(passes=None, events=events), Watch(checkpoint=lambda: saved.append(clock.now))
    more = {"stop": stop, "every": None, "watch": watch, "checkpointing": Checkpointing(7.0)}
    outcome = go(tmp_path, engine_class=engine, **more)
    gaps = [later - earlier for earlier, later in pairwise(saved)]
    assert gaps[0] <= 7.0 + keeping.FIRST * max(keeping.LOOK_SECONDS, cost)  # nobody knows yet how long events take
    assert all(7.0 <= gap <= 7.0 + 2 * max(keeping.LOOK_SECONDS, cost) for gap in gaps[1:-1])
    assert len(gaps) > 1
    assert len(outcome.records) == 2
    assert_same(outcome, go(None, stop=stop, every=None))


class Enough(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("jumps", [1, 7])
def test_a_run_goes_on_between_record_points(clock: Clock, jumps: int, tmp_path: Path) -> None:
    """Killed right after a checkpoint that is at no record point; the records are those of a run in one go.

    Also where a record point waits for a token that is on its way.
    """
    more: dict[str, Any] = {"method": TVR(tokens=2, jumps=jumps), "every": None, "every_jumps": 500 * jumps - 3}
    engine = type("Engine", (Queueing,), {"clock": clock, "cost": 0.001, "settled": []})
    stop, kills = Stop(passes=None, events=30_000), []

    def strike(events: Events) -> None:
        assert events.kind[-1] != MOVE
        if (tmp_path / NAME).exists():
            found = load_checkpoint(tmp_path)
            assert found is not None
            if found[0].clock.events not in kills:
                kills.append(found[0].clock.events)
                raise Enough

    for _ in range(100):
        try:
            watch = Watch(events=strike)
            outcome = go(
                tmp_path, engine_class=engine, stop=stop, watch=watch, checkpointing=Checkpointing(0.7), **more
            )
        except Enough:
            continue
        break
    whole = go(None, stop=stop, **more)
    assert set(kills) - {record.event for record in whole.records}
    assert_same(outcome, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_makes_a_checkpoint_and_nothing_is_repeated(number: signal.Signals, tmp_path: Path) -> None:
    told: list[int] = []

    def count_and_signal(events: Events) -> None:
        told.append(events.size)
        if len(told) == 3:
            signal.raise_signal(number)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        go(tmp_path, every=None, watch=Watch(events=count_and_signal), checkpointing=Checkpointing(1e9))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    begun: list[int] = []
    outcome = go(
        tmp_path,
        every=None,
        watch=Watch(begin=lambda events, _: begun.append(events)),
        checkpointing=Checkpointing(1e9),
    )
    assert begun == [sum(told)]
    assert_same(outcome, go(None, every=None))


def test_a_second_signal_does_not_wait_for_a_cut(tmp_path: Path) -> None:
    def signal_twice(_: Events) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second one raises")

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, watch=Watch(events=signal_twice))
    assert not (tmp_path / NAME).exists()


def test_a_run_that_comes_to_no_cut_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "PATIENCE", 0.05)

    def hang(_: Events) -> None:
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)
        raise AssertionError("nobody ended this")

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, watch=Watch(events=hang))


def test_without_checkpoints_a_signal_ends_the_run_at_once() -> None:
    def interrupt(_: Events) -> None:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it raises")

    with pytest.raises(KeyboardInterrupt):
        go(None, watch=Watch(events=interrupt))


def test_a_job_of_a_sweep_stops_when_its_worker_leaves(tmp_path: Path) -> None:
    """In a thread that gets no signals."""
    told: list[int] = []
    raised: list[BaseException] = []

    def work() -> None:
        event = threading.Event()
        JOB.set(event)

        def count_and_ask(events: Events) -> None:
            told.append(events.size)
            if len(told) == 3:
                event.set()

        try:
            go(tmp_path, watch=Watch(events=count_and_ask), checkpointing=Checkpointing(1e9))
        except KeyboardInterrupt as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[0].clock.events == sum(told)
