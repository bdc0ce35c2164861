"""Runs that are killed at any moment and started again in their directory end as if nothing had happened."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.contract import Facts
from dtoken.algorithms.sdca import SDCA
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.checkpoint import NAME, load_checkpoint
from dtoken.engine.loop.experiment import prepare
from dtoken.engine.loop.run import Outcome, Watch, run
from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.errors import InputError, RunError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.stream import SEGMENT_STEPS
from dtoken.theory.dual_descent import DualDescent
from tests.engine.small import small_shards
from tests.waiting import NEVER, until

EVENTS = 150_000  # more than two segments


METHODS = {
    "tvr": TVR(tokens=2, start="zero"),
    "tvr, permuted": TVR(tokens=2, start="zero", sampling="permuted", bucket_rows=3),
    "tavr, permuted": TAVR(start="zero", sampling="permuted", bucket_rows=3, jumps=3),
    "sdca": SDCA(bucket_rows=3),
}


def go(
    directory: Path | None,
    *,
    threads: int = 1,
    every: float | None = 400.0,
    growth: float | None = None,
    every_jumps: int | None = None,
    stop: Stop | None = None,
    watch: Watch | None = None,
    identity: str = "a",
    sigma: float = 0.05,
    method: Any = None,
    engine_class: Any = LocalEngine,
    checkpointing: Checkpointing | None = None,
) -> Outcome:
    """One run, with a checkpoint at every record point unless told otherwise; children call it, too."""
    shards, method = small_shards(n=6, seed=20), method or METHODS["tvr"]
    problem = FiniteSum(shards, get_loss("logistic"), sigma)
    experiment = prepare(problem, method, walk(build("ring", 6), "simple"), TimeModel(), 5)
    with engine_class(method, experiment.constants, shards, problem.loss, threads) as engine:
        return run(
            experiment,
            engine,
            stop or Stop(passes=None, events=EVENTS),
            Recording(every_passes=every, every_jumps=every_jumps, growth=growth),
            directory=directory,
            identity=identity,
            watch=watch,
            checkpointing=checkpointing or Checkpointing(None, 1),
        )


def assert_same(a: Outcome, b: Outcome) -> None:
    assert a.models.nodes.tobytes() == b.models.nodes.tobytes()
    assert a.models.tokens.tobytes() == b.models.tokens.tobytes()
    mine, theirs = ([dataclasses.replace(record, wall=0.0) for record in outcome.records] for outcome in (a, b))
    assert mine == theirs


@pytest.fixture(scope="module")
def uninterrupted() -> Outcome:
    return go(None)


SUICIDE = """
import os, signal
from pathlib import Path
from dtoken.engine.loop.run import Watch
from tests.engine.loop.test_resume import METHODS, go

count = 0

def strike(*_):
    global count
    count += 1
    if count == number:
        os.kill(os.getpid(), signal.SIGKILL)

if moment == "replace":
    replace = Path.replace
    def replaced(self, target):
        strike()
        return replace(self, target)
    Path.replace = replaced
    go(Path(directory), threads=2, method=METHODS[name])
else:
    go(Path(directory), threads=2, method=METHODS[name], watch=Watch(**{moment: strike}))
"""


@pytest.mark.parametrize(
    ("moment", "number"),
    # before anything was saved, after a record, when the second checkpoint is about to take its place
    [("events", 1), ("record", 4), ("replace", 2)],
)
def test_killed_at_a_given_moment(
    moment: str, number: int, tmp_path: Path, run_child: Callable[..., int], uninterrupted: Outcome
) -> None:
    assert run_child(SUICIDE, directory=str(tmp_path), moment=moment, number=number, name="tvr") == -9
    assert_same(go(tmp_path, threads=3), uninterrupted)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("name", ["tvr, permuted", "tavr, permuted", "sdca"])
def test_killed_while_nodes_go_through_their_rows_in_order(
    name: str, tmp_path: Path, run_child: Callable[..., int]
) -> None:
    """Orders go on where the checkpoint has them."""
    assert run_child(SUICIDE, directory=str(tmp_path), moment="record", number=4, name=name) == -9
    assert_same(go(tmp_path, method=METHODS[name]), go(None, method=METHODS[name]))


@pytest.mark.parametrize("name", ["tvr, permuted", "tavr, permuted", "sdca"])
def test_resumed_in_any_segment_rows_come_in_the_same_order(name: str, tmp_path: Path) -> None:
    """At the beginning, at the seams and in the middle of segments."""
    method, whole = METHODS[name], go(None, method=METHODS[name])
    for events in (1, SEGMENT_STEPS - 1, SEGMENT_STEPS, SEGMENT_STEPS + 1, 100_000, 2 * SEGMENT_STEPS):
        go(tmp_path, method=method, stop=Stop(passes=None, events=events))
    assert_same(go(tmp_path, method=method), whole)


# A run that waits in its middle: nobody comes too late to kill it.
HELD = """
import time
from pathlib import Path
from dtoken.engine.loop.run import Watch
from tests.engine.loop.test_resume import EVENTS, go

def hold(record):
    while record.event > EVENTS // 2:
        Path(held).touch()
        time.sleep(1)

go(Path(directory), watch=Watch(record=hold))
"""


def test_killed_at_any_moment(tmp_path: Path, start_child: Callable[..., Any], uninterrupted: Outcome) -> None:
    """Again and again from outside, wherever it is: soon after a checkpoint, or where it waits."""
    directory, held = tmp_path / "run", tmp_path / "held"
    for attempt in range(3):
        child, seen = start_child(HELD, directory=str(directory), held=str(held)), progress(directory)
        until(lambda: progress(directory) != seen or held.exists() or not child.is_alive())  # noqa: B023
        time.sleep(0.003 * attempt)
        child.kill()
        child.join(NEVER)
        assert child.exitcode == -9
    assert_same(go(directory, threads=2), uninterrupted)


def progress(directory: Path) -> int:
    """Something that changes whenever a checkpoint is put in place."""
    try:
        return (directory / NAME).stat().st_ino
    except FileNotFoundError:
        return 0


def test_a_finished_run_is_not_run_again(tmp_path: Path, uninterrupted: Outcome) -> None:
    go(tmp_path)
    told: list[object] = []
    again = go(tmp_path, watch=Watch(events=told.append, record=told.append))
    assert_same(again, uninterrupted)
    assert not told


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    go(tmp_path, stop=Stop(events=1000))
    with pytest.raises(InputError, match="checkpoint of a run with other settings"):
        go(tmp_path, identity="b")


def test_a_damaged_checkpoint_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    go(tmp_path, stop=Stop(events=1000))
    file = tmp_path / NAME
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RunError, match="is damaged"):
        go(tmp_path)


def test_checkpoints_lie_at_record_points(tmp_path: Path) -> None:
    outcome = go(tmp_path, stop=Stop(passes=50), every=20.0)
    found = load_checkpoint(tmp_path)
    assert found is not None
    checkpoint, _ = found
    assert checkpoint.clock.events == outcome.records[-1].event
    assert checkpoint.records[-1].objective == outcome.records[-1].objective


def test_records_come_at_the_multiples_asked_for() -> None:
    rows = 36
    outcome = go(None, stop=Stop(passes=50), every=20.0)
    assert [record.gradients for record in outcome.records] == [0, 20 * rows, 40 * rows, 50 * rows]
    assert [record.passes for record in outcome.records] == [0.0, 20.0, 40.0, 50.0]


@pytest.mark.parametrize(
    ("stop", "counter", "value"),
    [
        (Stop(passes=None, events=1234), "event", 1234),
        (Stop(passes=None, jumps=77), "jumps", 77),
        (Stop(passes=2.5), "gradients", 90),
        (Stop(passes=3, jumps=10**6, events=10**6), "gradients", 108),
    ],
)
def test_stops_at_the_first_limit(stop: Stop, counter: str, value: int) -> None:
    outcome = go(None, stop=stop)
    assert getattr(outcome.records[-1], counter) == value
    assert outcome.failure is None


def test_stops_when_accurate() -> None:
    outcome = go(None, stop=Stop(passes=5000, suboptimality=1e-6, patience=1), every=10.0)
    assert outcome.records[-1].suboptimality <= 1e-6 < outcome.records[-2].suboptimality
    assert all(np.diff([record.event for record in outcome.records]) > 0)


NOISY = Stop(passes=600, suboptimality=3e-3)  # at every half pass, a run dips below this before it stays there


def test_a_dip_does_not_stop_a_run() -> None:
    """The first three records in a row at or below: one dip is not enough."""
    gaps = [record.suboptimality for record in go(None, stop=NOISY, every=0.5).records]
    below = [gap <= 3e-3 for gap in gaps]
    assert below[-3:] == [True] * 3
    assert not any(below[at : at + 3] == [True] * 3 for at in range(len(gaps) - 3))
    assert any(below[:-3])  # it dipped before


def test_patience_is_counted_through_interruptions(tmp_path: Path) -> None:
    """Interrupted between the first and the last of the three records, and stopped where no interval ends."""
    whole = go(None, stop=NOISY, every=0.5)
    first = whole.records[-3]
    near = Stop(passes=None, events=first.event + 3)
    assert go(tmp_path, stop=near, every=0.5).records[-1].suboptimality <= 3e-3
    assert_same(go(tmp_path, stop=NOISY, every=0.5), whole)


def test_tokens_on_their_way_are_let_through_to_their_visit(tmp_path: Path) -> None:
    """Three jumps a visit: records and the end are at visits, the same ones however often one looks."""

    def skip(jumps: int, every_jumps: int, folder: Path | None = None) -> list[Any]:
        stop, method = Stop(passes=None, jumps=jumps), TVR(tokens=2, jumps=3)
        found = go(folder, stop=stop, every=1e6, every_jumps=every_jumps, method=method)
        return [dataclasses.replace(record, wall=0.0) for record in found.records]

    often, seldom = skip(400, 10), skip(400, 70)
    assert [record.jumps for record in often] == [0, *(3 * math.ceil(10 * k / 3) for k in range(1, 41))]
    assert [record.jumps for record in seldom] == [0, 72, 141, 210, 282, 351, 402]
    assert [record for record in often if record.jumps in (72, 141, 210, 282, 351, 402)] == seldom[1:]
    skip(100, 70, tmp_path)
    assert skip(400, 70, tmp_path) == seldom


def test_intervals_may_grow_with_the_run(tmp_path: Path) -> None:
    """Of the passes so far, a fifth: equal for methods that need few and for those that need many."""
    recording = {"every": 1.0, "growth": 0.2}
    whole = go(None, stop=Stop(passes=60), **recording)
    gradients, points = np.array([record.gradients for record in whole.records]), [0]
    while points[-1] < 60 * 36:
        points.append(points[-1] + max(36, int(0.2 * points[-1])))
    assert gradients.tolist() == [*points[:-1], 60 * 36]  # gradients come one by one, and the end is measured, too
    go(tmp_path, stop=Stop(passes=17.3), **recording)
    assert_same(go(tmp_path, stop=Stop(passes=60), **recording), whole)


class TooLong(TVR):
    """Visits that go far beyond the mean."""

    def constants(self, facts: Facts) -> DualDescent:
        return super().constants(facts)._replace(rho_comm=np.full(facts.n, 1.6))


def test_a_diverging_run_says_so_and_keeps_its_trajectory(tmp_path: Path) -> None:
    outcome = go(tmp_path, method=TooLong(tokens=2), stop=Stop(passes=500), every=2.0)
    assert outcome.failure is not None
    assert outcome.failure.startswith("diverged")
    assert len(outcome.records) > 1
    assert outcome.records[-1].passes < 500
    again = go(tmp_path, method=TooLong(tokens=2), stop=Stop(passes=500), every=2.0)
    assert again.failure == outcome.failure
    assert len(again.records) == len(outcome.records)
