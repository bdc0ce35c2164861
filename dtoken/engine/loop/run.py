"""The run: draw events, let them happen, measure at record points, stop, keep what is needed to go on."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine.loop.accuracy import ROUNDING, exhausted, settled
from dtoken.engine.loop.checkpoint import NAME, Checkpoint, load_checkpoint, save_checkpoint
from dtoken.engine.loop.engine import Engine
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.interruption import Cut, put_off
from dtoken.engine.loop.keeping import FIRST, Keeper, Pace, Stopwatch
from dtoken.engine.loop.packed import damaged
from dtoken.engine.loop.recorder import Record, of_tokens, optimum_of, record
from dtoken.engine.loop.rules import position_fault
from dtoken.engine.loop.sampling import draw
from dtoken.engine.loop.settings import NO_CHECKPOINTS, Checkpointing, Recording, Stop
from dtoken.errors import InputError
from dtoken.problem.kernels import squared_norm
from dtoken.problem.optimum import start_objective
from dtoken.schedule.clock import NO_LIMITS, UNLIMITED, Clock, Limits, advance, charge
from dtoken.schedule.events import MOVE, Events
from dtoken.schedule.stream import Start
from hydra_dask.stopping import kept as tell_kept

DIVERGENCE, FLOOR, LOST = "divergence", "float64", "tokens"  # ends that nobody asked for: LOST, of all tokens
GROWTH = 1e6  # a squared distance that has grown by this factor does not come back


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    records: list[Record]
    models: Models
    failure: str | None  # why it did not end well, in a sentence
    diverged: bool = False  # it ended farther from the optimum than it began
    margins: Vector | None = None  # (rows,) of all nodes
    stopped: str | None = None  # which criterion ended it; None: its schedule did, or it did not end well


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """Who wants to know of a run while it goes on."""

    begin: Callable[[int, list[Record]], None] = (
        _ignore  # it goes on after so many events; its records, also later ones
    )
    events: Callable[[Events], None] = _ignore  # these events happened
    record: Callable[[Record], None] = _ignore  # this was measured
    checkpoint: Callable[[], None] = _ignore  # all that was told so far is about to be part of a checkpoint


@dataclass
class _Position:
    """Where a run is: in which segment, after how many of its events, what the clock says, what was measured."""

    start: Start
    offset: int
    clock: Clock
    t: float
    wall: float
    records: list[Record]


def run(
    experiment: Experiment,
    engine: Engine,
    stop: Stop,
    recording: Recording,
    *,
    directory: Path | None = None,
    identity: str = "",
    checkpointing: Checkpointing = NO_CHECKPOINTS,
    watch: Watch | None = None,
) -> Outcome:
    """Run an experiment to its end, from the last checkpoint in ``directory`` if there is one.

    Parameters
    ----------
    experiment, engine
        What to run, and where.
    stop, recording
        When to stop and when to measure.
    directory, identity
        Where checkpoints are kept, and which run they belong to.
    checkpointing
        When to keep what is needed to go on.
    watch
        Told about events and records.
    """
    watch = watch or Watch()
    rows = int(experiment.facts.rows.sum())
    end = _stop_limits(stop, rows)
    position = _resume(experiment, engine, directory, identity) or _begin(experiment, engine, recording, watch)
    watch.begin(position.clock.events, position.records)
    failure: str | None = None
    ends = partial(_end, experiment, position, stop, recording, rows, end)
    over = ends()
    if over is not None:
        _measure_end(experiment, engine, position, recording, watch)
        return _outcome(experiment, position, engine, stop, failure, over)
    if not _regular(position.records, recording, rows):
        position.records.pop()  # measured only because the run ended there
    _warm_up(experiment)
    keeper, pace = None, Pace(None, position.wall)
    if directory is not None and checkpointing.wanted:
        write = partial(_save, directory, identity, engine, position, watch)
        keeper, pace = Keeper(checkpointing, write), Pace(FIRST, position.wall)
    with put_off(wanted=keeper is not None) as interrupted:
        stopwatch = Stopwatch()
        for stretch, reached in _stretches(experiment, position, partial(_next, recording, rows=rows, end=end), pace):
            engine.run(stretch, position.start, position.offset - stretch.size)
            position.t = float(stretch.at[-1])
            if looks := (pace.is_over(stretch.size) and stretch.kind[-1] != MOVE) or reached:
                engine.settle()
            position.wall += stopwatch.lap()
            watch.events(stretch)
            if looks:
                pace.looked(position.wall)
            if reached:
                last = _reached(position.clock, end) and recording.exact_ends
                failure = _measure(experiment, engine, position, recording, watch, exact=last)
                over = failure or ends()
                if over is not None:
                    break
            if keeper and looks:
                stopping = interrupted()
                keeper.look(len(position.records) - 1 if reached else None, stopping, engine.leaving)
                if stopping:
                    raise Cut(of_tokens(engine.models(position.t), position.clock.living), engine.margins())
            stopwatch.lap()
        _measure_end(experiment, engine, position, recording, watch)
        if keeper:
            keeper.end(interrupted())
    if not failure and over is None and _all_lost(position.clock):
        over = LOST
    return _outcome(experiment, position, engine, stop, failure, over)


def _end(
    experiment: Experiment, position: _Position, stop: Stop, recording: Recording, rows: int, end: Limits
) -> str | None:
    """Which criterion ends the run where it is, if one does."""
    if _divergence(experiment, position.records):
        return DIVERGENCE
    if _all_lost(position.clock):
        return LOST
    for name in Limits._fields:
        if getattr(position.clock, name) >= getattr(end, name):
            return "passes" if name == "gradients" else name
    kept = position.records if _regular(position.records, recording, rows) else position.records[:-1]
    if stop.suboptimality is not None and _is_accurate(kept, stop):
        return "suboptimality"
    return FLOOR if _is_exhausted(experiment, kept) else None


def _all_lost(clock: Clock) -> bool:
    return len(clock.alive) > 0 and not clock.alive.any()


def _is_exhausted(experiment: Experiment, records: list[Record]) -> bool:
    best = experiment.optimum
    floor = max(ROUNDING * abs(best.objective), best.error)
    if not abs(records[-1].suboptimality) <= floor:
        return False
    events, gaps = [each.event for each in records], [each.suboptimality for each in records]
    return exhausted(events, gaps, [each.distance for each in records], floor)


def _outcome(
    experiment: Experiment, position: _Position, engine: Engine, stop: Stop, failure: str | None, stopped: str | None
) -> Outcome:
    records, heuristic = position.records, getattr(experiment.method, "smoothness", "") == "factor"
    diverged = None if failure else _divergence(experiment, records) or _rise(experiment, records, stop, heuristic)
    models, margins = of_tokens(engine.models(position.t), position.clock.living), engine.margins()
    bad = failure or diverged
    return Outcome(records, models, bad, diverged is not None, margins, None if bad else stopped)


def _measure(
    experiment: Experiment, engine: Engine, position: _Position, recording: Recording, watch: Watch, *, exact: bool
) -> str | None:
    """Measure where the run is, on all rows or on a sample; return why the method cannot go on, if so."""
    made, failure = _recorded(experiment, engine, recording, position.clock, position.t, position.wall, exact=exact)
    position.records.append(made)
    watch.record(made)
    return failure


def _recorded(
    experiment: Experiment, engine: Engine, recording: Recording, clock: Clock, t: float, wall: float, *, exact: bool
) -> tuple[Record, str | None]:
    sample = None
    if recording.sampled and not exact:
        tokens = experiment.n if experiment.method.reports_nodes else _count(clock)
        sample = draw(recording, experiment.facts.rows, tokens, experiment.seed, clock.events)
    measured = engine.measure(t, experiment.optimum.theta, sample, clock.living)
    tested = _test(experiment, engine, clock, t)
    made = record(experiment, clock, measured, wall, tested, sample, sampled=recording.sampled)
    return made, measured.failure


def _count(clock: Clock) -> int:
    """How many tokens there are to be measured."""
    return len(clock.tokens) if clock.living is None else len(clock.living)


def _test(experiment: Experiment, engine: Engine, clock: Clock, t: float) -> dict[str, float]:
    """What the mean of the tokens is worth on held-out rows, if there are some."""
    if experiment.held_out is None:
        return {}
    return experiment.held_out.measure(of_tokens(engine.models(t), clock.living).tokens.mean(axis=0))


def _measure_end(
    experiment: Experiment, engine: Engine, position: _Position, recording: Recording, watch: Watch
) -> None:
    """Measure a run that ended between two record points: its schedule came to an end, or it had gone on for longer.

    One that ended at an estimate is measured again, on everything.
    """
    last = position.records[-1]
    if last.event == position.clock.events:
        if not (last.objective_error and recording.exact_ends):
            return
        position.records.pop()
    stopwatch = Stopwatch()
    engine.settle()
    position.wall += stopwatch.lap()
    _measure(experiment, engine, position, recording, watch, exact=recording.exact_ends)


def _warm_up(experiment: Experiment) -> None:
    """Compile what draws events and what keeps the time, so that the times of a run do not contain it."""
    first = next(experiment.schedule.segments(experiment.start), None)
    if first is not None:
        clock = experiment.clock
        advance(clock, first[0], experiment.costs, experiment.time, NO_LIMITS._replace(events=1))


def _stretches(
    experiment: Experiment, position: _Position, goal: Callable[[Clock], Limits], pace: Pace
) -> Iterator[tuple[Events, bool]]:
    """Cut the schedule at segment ends, goals and as ``pace`` says, moving ``position``; True: this cut is a goal.

    The next segment is drawn in the background while the events of this one happen.
    """
    with ThreadPoolExecutor(1, "dtoken-draw") as drawer:
        schedule = experiment.schedule.segments(position.start)
        drawn = drawer.submit(next, schedule, None)
        limits = goal(position.clock)
        while (segment := drawn.result()) is not None:
            drawn = drawer.submit(next, schedule, None)
            events, following = segment
            while position.offset < events.size:
                stop = events.size if pace.events is None else _after_visit(events, position.offset + pace.events)
                rest = events.between(position.offset, stop)
                count = advance(position.clock, rest, experiment.costs, experiment.time, limits)
                position.offset += count
                reached = _reached(position.clock, limits) and rest.kind[count - 1] != MOVE
                yield rest.between(0, count), reached
                if reached:
                    limits = goal(position.clock)
            position.start, position.offset = following, 0


def _after_visit(events: Events, stop: int) -> int:
    """The first place from ``stop`` on at which no token is on its way: there a run can be cut."""
    while stop < events.size and events.kind[stop - 1] == MOVE:
        stop += 1
    return min(stop, events.size)


def _begin(experiment: Experiment, engine: Engine, recording: Recording, watch: Watch) -> _Position:
    clock = experiment.clock
    gradients = experiment.method.start_gradients(experiment.facts)
    charge(clock, gradients, experiment.time)
    wall = engine.start_seconds() if gradients.any() else 0.0
    first, _ = _recorded(experiment, engine, recording, clock, 0.0, wall, exact=recording.exact_ends)
    watch.record(first)
    return _Position(experiment.start, 0, clock, 0.0, wall, [first])


def _resume(experiment: Experiment, engine: Engine, directory: Path | None, identity: str) -> _Position | None:
    found = load_checkpoint(directory) if directory else None
    if directory is None or found is None:
        return None
    checkpoint, parts = found
    if checkpoint.identity != identity:
        raise InputError(f"{directory} holds the checkpoint of a run with other settings; use another directory")
    fault = position_fault(checkpoint.start, checkpoint.offset, checkpoint.clock, experiment.start, experiment.walk)
    if fault or not checkpoint.records:
        raise damaged(directory / NAME, fault or "nothing was measured")
    engine.load(parts)
    return _Position(**{name: getattr(checkpoint, name) for name in _Position.__dataclass_fields__})


def _save(directory: Path, identity: str, engine: Engine, position: _Position, watch: Watch) -> None:
    watch.checkpoint()
    save_checkpoint(directory, Checkpoint(identity, **vars(position)), engine.save)
    tell_kept()


def _stop_limits(stop: Stop, rows: int) -> Limits:
    gradients = UNLIMITED if stop.passes is None else math.ceil(stop.passes * rows)
    return Limits(stop.events or UNLIMITED, stop.jumps or UNLIMITED, gradients)


def _next(recording: Recording, clock: Clock, *, rows: int, end: Limits) -> Limits:
    """The next record point, or the end."""
    jumps, gradients = recording.following(clock.jumps, clock.gradients, rows)
    return Limits(end.events, min(jumps, end.jumps), min(gradients, end.gradients))


def _regular(records: list[Record], recording: Recording, rows: int) -> bool:
    """Whether the last record is one that a longer run makes, too: an interval ended at it."""
    if len(records) == 1:
        return True
    before, last = records[-2:]
    jumps, gradients = recording.following(before.jumps, before.gradients, rows)
    return last.jumps >= jumps or last.gradients >= gradients


def _reached(clock: Clock, limits: Limits) -> bool:
    return clock.events >= limits.events or clock.jumps >= limits.jumps or clock.gradients >= limits.gradients


def is_accurate(records: list[Record], stop: Stop, recording: Recording, rows: int) -> bool:
    """Whether a run has come to the accuracy at which it is to stop, by the records that a longer run has, too."""
    if stop.suboptimality is None:
        return False
    return _is_accurate(records if _regular(records, recording, rows) else records[:-1], stop)


def _is_accurate(kept: list[Record], stop: Stop) -> bool:
    assert stop.suboptimality is not None
    last = kept[-stop.patience :]
    return settled([each.suboptimality for each in last], stop.suboptimality, stop.patience, optimum_of(last))


def _divergence(experiment: Experiment, records: list[Record]) -> str | None:
    last = records[-1]
    scale = max(record.distance + record.consensus for record in records[:2])
    if experiment.origin is not None:  # it may begin at the optimum, and is no worse off than from 0
        scale = max(scale, squared_norm(experiment.optimum.theta))
    if not (math.isfinite(last.objective) and math.isfinite(last.distance) and math.isfinite(last.consensus)):
        return f"diverged: the model is not finite after {last.event:,} events"
    if last.distance > GROWTH * max(scale, 1e-300):
        return f"diverged: the squared distance to the optimum grew to {last.distance:.1e} in {last.event:,} events"
    return None


def _rise(experiment: Experiment, records: list[Record], stop: Stop, heuristic: bool) -> str | None:
    """What to say of a run that stopped above its start, by more than rounding errors explain."""
    first, last = records[0], records[-1]
    if last.suboptimality <= max(first.suboptimality, ROUNDING * abs(last.objective), stop.suboptimality or 0.0):
        return None
    if experiment.origin is not None and last.objective <= start_objective(experiment.problem):
        return None  # tokens that begin near the optimum move away first, while the rest is still behind
    rise = f"F - F* is {last.suboptimality:.3g} at the end and was {first.suboptimality:.3g} at the start"
    advice = "algorithm.smoothness=batch has safe steps, and " if heuristic else ""
    return f"diverged: {rise}; {advice}a later stop continues the run"
