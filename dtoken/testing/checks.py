"""What is checked of a method. Each check returns, or says in a sentence what is wrong."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoken
from dtoken.algorithms.checks import check_class, check_parts
from dtoken.algorithms.contract import Method
from dtoken.engine.local import LocalEngine
from dtoken.engine.rows.memory import Room
from dtoken.schedule.clock import NO_LIMITS, advance, start_clock
from dtoken.schedule.events import KINDS, LOCAL, MEET, MOVE, NONE, Events
from dtoken.testing.case import NODES, Case, bits_after, bits_of, keys, make_case, state
from dtoken.testing.workers import Workers

EVENTS = 3000  # of a run that is compared with another
SINGLE = 400  # events that are looked at one by one
SEGMENTS = 30  # after which a method has to be at the optimum
CLOSE = 1e-8  # the largest error of a model that is there
OTHER = 1  # seed of the data of another problem


class Failed(Exception):
    """What is wrong with a method, in a sentence."""


def check_members(kind: Any, parameters: dict[str, Any]) -> Method:
    """All members are there, and keys have types."""
    check_class(kind, getattr(kind, "__name__", str(kind)))
    method = kind(**parameters)
    check_parts(method, kind.__name__)
    for field in fields(kind):
        if isinstance(getattr(method, field.name), np.ndarray | list | dict | set):
            raise Failed(f"the key {field.name} is an object that can change; use numbers, texts and tuples")
    found: Method = method
    return found


def check_copies(case: Case) -> None:
    """A copy in another process is the same method."""
    copy = pickle.loads(pickle.dumps(case.method))
    if copy != case.method or vars(copy) != vars(case.method):
        raise Failed("a pickled copy is not equal; all that a method knows must be in its keys")
    again = bits_of(_constants(make_case(copy, case.folder)))
    if again != bits_of(_constants(case)):
        raise Failed("constants are not the same when they are computed again; they must follow from facts alone")


def _constants(case: Case) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(value) for name, value in case.experiment.constants._asdict().items()}


def check_repeats(case: Case) -> None:
    """Twice the same events, twice the same bits."""
    if bits_after(case, EVENTS) != bits_after(case, EVENTS):
        raise Failed(
            "the same events gave other bits the second time; no random numbers, clocks or global variables in steps, "
            "states and begin"
        )


def check_measuring(case: Case) -> None:
    """Models are read, not changed, and are copies or the states themselves."""
    events = case.events(SINGLE)
    with case.engine() as engine:
        engine.run(events)
        before = bits_of(state(engine))
        first, second = engine.models(float(events.at[-1])), engine.models(float(events.at[-1]))
        if bits_of(state(engine)) != before:
            raise Failed("models() changes the states; the more often a run is measured, the more it changes")
        if first.nodes.tobytes() != second.nodes.tobytes() or first.tokens.tobytes() != second.tokens.tobytes():
            raise Failed("models() gives something else each time; it may use nothing but its arguments")


def check_own(case: Case) -> None:
    """A step reads and writes its own node and token, and never rows or constants."""
    with case.engine() as engine:
        fixed = {f"rows.{name}": value for name, value in engine.rows._asdict().items() if np.ndim(value)}
        fixed |= {f"c.{name}": value for name, value in case.experiment.constants._asdict().items() if np.ndim(value)}
        kept = {name: array.copy() for name, array in fixed.items()}
        for what, one, mine in _singles(case, engine):
            before = state(engine)
            engine.run(one)
            after = state(engine)
            for name, array in fixed.items():
                if array.tobytes() != kept[name].tobytes():
                    raise Failed(f"{what} writes into {name}, which all steps share and no checkpoint keeps")
            for name, array in after.items():
                others = ~mine[name]
                if array[others].tobytes() != before[name][others].tobytes():
                    raise Failed(f"{what} writes into {name} of others; another thread may be there")
            _put(engine, {name: _spoilt(array, mine[name]) for name, array in before.items()})
            engine.run(one)
            for name, array in state(engine).items():
                if array[mine[name]].tobytes() != after[name][mine[name]].tobytes():
                    raise Failed(f"{what} reads the state of others: {name} depends on it")
            _put(engine, after)


def _singles(case: Case, engine: LocalEngine) -> Iterator[tuple[str, Events, dict[str, NDArray[np.bool_]]]]:
    """Events one by one: what happens, and which entries of each array it may touch."""
    events, first = case.events(SINGLE), engine.rows.first
    for place in range(events.size):
        one = events.between(place, place + 1)
        if (kind := int(one.kind[0])) == MOVE:
            engine.run(one)
            continue
        node, tokens = int(one.node[0]), [int(k) for k in (one.token[0], one.other[0]) if k != NONE]
        mine = {}
        for name, array in state(engine).items():
            touched = np.zeros(len(array), bool)
            if name.startswith("tokens/"):
                touched[tokens] = True
            elif kind != MEET and len(array) == NODES:
                touched[node] = True
            elif kind != MEET:
                touched[first[node] : first[node + 1]] = True
            mine[name] = touched
        step = {LOCAL: "local", MEET: "meet"}.get(kind, "visit")
        yield f"{step} (event {place}, {KINDS[kind]} at node {node})", one, mine


def _put(engine: LocalEngine, arrays: dict[str, NDArray[Any]]) -> None:
    for owner, states in (("nodes", engine.nodes), ("tokens", engine.tokens)):
        for name, array in states._asdict().items():
            array[...] = arrays[f"{owner}/{name}"]


def _spoilt(array: NDArray[Any], mine: NDArray[np.bool_]) -> NDArray[Any]:
    """With nonsense in the place of what others own."""
    found = array.copy()
    found[~mine] = np.nan if array.dtype.kind == "f" else ~array[~mine] if array.dtype.kind == "b" else 77
    return found


def check_gradients(case: Case) -> None:
    """A step counts as many gradients as it uses rows: those without which its result is another."""
    experiment, seen = case.experiment, set()
    with case.engine() as engine:
        rows = engine.rows
        for what, one, mine in _singles(case, engine):
            before, kind, node = state(engine), int(one.kind[0]), int(one.node[0])
            engine.run(one)
            after = state(engine)
            if kind == MEET or (kind, node) in seen:
                continue
            seen.add((kind, node))
            used = 0
            for r in range(int(rows.first[node]), int(rows.first[node + 1])):
                entries = slice(rows.start[r], rows.stop[r])
                kept = rows.data[entries].copy()
                rows.data[entries] = np.nan
                _put(engine, before)
                engine.run(one)
                used += any(a[mine[n]].tobytes() != after[n][mine[n]].tobytes() for n, a in state(engine).items())
                rows.data[entries] = kept
            _put(engine, after)
            clock = start_clock(case.experiment.n, len(experiment.start.positions))
            advance(clock, one, experiment.costs, experiment.time, NO_LIMITS)
            if clock.gradients != used:
                raise Failed(f"{what} uses {used} rows and costs() counts {clock.gradients} gradients")


def check_threads(case: Case) -> None:
    """The same bits with any number of threads, and wherever a run is cut and measured."""
    events, expected = case.events(EVENTS), bits_after(case, EVENTS)
    for threads, cuts in ((2, (0, EVENTS)), (2, (0, 1, 17, EVENTS // 2, EVENTS)), (3, (0, 1000, EVENTS))):
        with case.engine(threads) as engine:
            for start, stop in pairwise(cuts):
                engine.run(events.between(start, stop))
                engine.models(float(events.at[stop - 1]))
            if bits_of(state(engine)) != expected:
                raise Failed(f"{threads} threads, cuts after {cuts[1:-1]}: other bits than 1 thread without cuts")


def check_streaming(case: Case) -> None:
    """The same bits where memory holds a third of the rows."""
    room = Room(2 * int(case.store.node_nonzeros.max()))
    with case.engine(1, room) as engine:
        engine.run(case.events(EVENTS // 10))
        if bits_of(state(engine)) != bits_after(case, EVENTS // 10):
            raise Failed(
                "other bits where rows are read when they are needed; row r is rows.data[rows.start[r]:rows.stop[r]], "
                "and states() must not look at rows"
            )


def check_optimum(case: Case) -> None:
    """All models come close to the optimum, and stay there."""
    errors, best = [np.inf], case.experiment.optimum.theta
    with case.engine() as engine:
        for events, _ in islice(case.experiment.schedule.segments(case.experiment.start), SEGMENTS):
            engine.run(events)
            engine.settle()
            models = engine.models(float(events.at[-1]))
            if models.failure is not None:
                raise Failed(models.failure)
            errors.append(float(max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max())))
            if max(errors[-2:]) <= CLOSE:
                return
            if not np.isfinite(errors[-1]):
                raise Failed(f"diverges: models are not finite after {len(errors) - 1} segments of events")
    raise Failed(
        f"a model is still {errors[-1]:.1g} from the optimum after {SEGMENTS} segments of events, and was "
        f"{errors[1]:.1g} after the first; a method that is not to reach it: converges=False"
    )


def check_replay(case: Case) -> None:
    """The events of a log, taken again, give the same run."""
    first = _go(case.method, case.folder, "recorded", record={"events": True, **_OFTEN})
    again = _go(
        case.method, case.folder, "replayed", record=_OFTEN, replay=str(case.folder / "recorded/events.parquet")
    )
    if first != again:
        raise Failed("a replayed event log gives another run; steps may use nothing but the events and their arguments")


_OFTEN = {"every_passes": None, "every_jumps": 100}


def _go(method: Method, folder: Path, name: str, *, events: int = EVENTS, **more: Any) -> tuple[str, list[Any]]:
    """A run in a folder of its own: its last models, as bits, and what was measured without seconds."""
    options: dict[str, Any] = {"record": _OFTEN, "threads": None, "checkpoint": {"every": 2}} | more
    result = dtoken.run(
        **keys(folder), algorithm=method, stop={"passes": None, "events": events}, directory=folder / name, **options
    )
    models = bits_of({"nodes": result.nodes, "tokens": result.tokens})
    return models, [{**record.as_dict(), "wall": 0.0} for record in result.records]


def check_process(case: Case, workers: Workers) -> None:
    """A process that has never seen the method gives the same bits, on another problem."""
    here = _bits_of_other(case.method, case.folder)
    if workers.call(_bits_of_other, case.method, case.folder) != here:
        raise Failed(
            "a new process gives other bits than this one, which had another problem before; nothing may be kept in "
            "global variables or in the class"
        )


def _bits_of_other(method: Method, folder: Path) -> str:
    case = make_case(method, folder, OTHER)
    return bits_of(_constants(case)) + bits_after(case, EVENTS)


def check_resume(case: Case, workers: Workers) -> None:
    """Stopped in the middle, and taken up by another process, a run ends with the same bits."""
    whole = _go(case.method, case.folder, "whole")
    _go(case.method, case.folder, "half", events=EVENTS // 2)
    if workers.call(_go, case.method, case.folder, "half") != whole:
        raise Failed(
            "a run that is continued from its checkpoint ends with other bits; all that changes must be in the arrays "
            "of states()"
        )


def check_dask(case: Case, workers: Workers) -> None:
    """Nodes on two workers: the same bits as in this process."""
    here = _go(case.method, case.folder, "here")
    if _go(case.method, case.folder, "dask", engine="dask", client=workers.client) != here:
        raise Failed("on two Dask workers the run ends with other bits than in this process")


CHECKS: dict[str, Callable[[Case], None]] = {
    "copies": check_copies,
    "repeats": check_repeats,
    "measuring": check_measuring,
    "own state": check_own,
    "gradients": check_gradients,
    "threads": check_threads,
    "streaming": check_streaming,
    "replay": check_replay,
}
ON_WORKERS: dict[str, Callable[[Case, Workers], None]] = {
    "process": check_process,
    "resume": check_resume,
    "dask": check_dask,
}
