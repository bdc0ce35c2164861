"""What every registered method promises, whatever it does inside."""

import dataclasses
import pickle
import re
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms import METHODS, method_class
from dtoken.algorithms.contract import Method
from dtoken.engine.loop.experiment import prepare
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import Outcome, Recording, Stop, run
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.stream import start_at
from tests.engine.small import Setup, setup, small_shards, solve

LOGISTIC, REGRESSION = small_shards(seed=11), small_shards(seed=12, classes=False)


def fields_of(name: str) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(method_class(name))}


def make(name: str, tokens: int = 2) -> Method:
    """With its defaults, and two tokens if it has some."""
    settings = {"tokens": tokens} if "tokens" in fields_of(name) else {}
    return method_class(name)(**settings)


def make_setup(name: str, loss: str = "logistic", graph: str = "complete", kind: str = "simple") -> Setup:
    shards = LOGISTIC if loss == "logistic" else REGRESSION
    return setup(shards, make(name), loss=loss, sigma=0.2, graph=graph, kind=kind)


def bits(state: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


@pytest.mark.parametrize("name", METHODS)
def test_is_a_frozen_dataclass_with_defaults(name: str) -> None:
    cls, method = method_class(name), make(name)
    assert isinstance(method, Method)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    for field in fields_of(name).values():
        assert field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING, field.name
    assert cls() == cls()
    assert hash(cls()) == hash(cls())


@pytest.mark.parametrize("name", METHODS)
def test_every_field_is_explained(name: str) -> None:
    """numpydoc: a line with the name, alone or in a list, below Parameters, and then an explanation."""
    doc = method_class(name).__doc__ or ""
    first, _, parameters = doc.partition("Parameters\n")
    assert first.strip()
    explained = set()
    for line in re.findall(r"^    ([\w, ]+)\n        \S", parameters, re.MULTILINE):
        explained |= {word.strip() for word in line.split(",")}
    assert explained == set(fields_of(name))


@pytest.mark.parametrize(
    ("loss", "graph", "kind"),
    [("logistic", "complete", "simple"), ("logistic", "ring", "lazy"), ("squared", "complete", "simple")],
)
@pytest.mark.parametrize("name", METHODS)
def test_reaches_the_optimum(name: str, loss: str, graph: str, kind: str) -> None:
    """All models come within 1e-10 of the optimum by dense Newton steps, and stay there."""
    case = make_setup(name, loss, graph, kind)
    best, errors = solve(case.shards, loss, 0.2), [np.inf]
    start = start_at(case.method.token_start(case.shards.n))
    with case.engine() as engine:
        for events, _ in islice(case.schedule.segments(start), 20):
            engine.run(events)
            errors.append(largest_error(case, engine, events.at[-1], best))
            if max(errors[-2:]) <= 1e-10:
                return
    raise AssertionError(errors)


def largest_error(case: Setup, engine: Any, t: float, best: Any) -> float:
    models = engine.models(float(t))
    assert models.failure is None
    assert models.nodes.shape == (case.shards.n, case.shards.d)
    return float(max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max()))


@pytest.mark.parametrize("graph", ["complete", "ring"])
@pytest.mark.parametrize("name", METHODS)
def test_equal_bits_for_any_number_of_threads_and_any_cuts(name: str, graph: str) -> None:
    case = make_setup(name, graph=graph, kind="simple" if graph == "complete" else "lazy")
    events, found = case.events(4000), []
    for threads, cuts in ((1, (0, 4000)), (2, (0, 1, 17, 1500, 4000)), (4, (0, 2500, 4000)), (9, (0, 4000))):
        with case.engine(threads) as engine:
            first = bits(engine.part().arrays)
            for start, stop in pairwise(cuts):
                engine.run(events.between(start, stop))
                engine.models(float(events.at[stop - 1]))  # measuring must not touch the state
            assert bits(engine.part().arrays) != first
            found.append(bits(engine.part().arrays))
    assert all(other == found[0] for other in found)


@pytest.mark.parametrize("name", METHODS)
def test_models_are_copies(name: str) -> None:
    case = make_setup(name)
    events = case.events(2000)
    with case.engine() as engine:
        engine.run(events.between(0, 1000))
        before = engine.models(float(events.at[999]))
        kept = before.nodes.tobytes(), before.tokens.tobytes()
        engine.run(events.between(1000, 2000))
        assert (before.nodes.tobytes(), before.tokens.tobytes()) == kept
        state = bits(engine.part().arrays)
        after = engine.models(float(events.at[1999]))
        after.nodes[...] = after.tokens[...] = np.nan
        assert bits(engine.part().arrays) == state


@pytest.mark.parametrize("name", METHODS)
def test_states_count_nodes_rows_or_tokens(name: str) -> None:
    """So that any host can take over any node."""
    case = make_setup(name)
    with case.engine() as engine:
        rows = sum(case.shards.node_rows)
        assert all(len(array) in (case.shards.n, rows) for array in engine.nodes)
        assert all(len(array) == len(case.method.token_start(case.shards.n)) for array in engine.tokens)


@pytest.mark.parametrize("name", METHODS)
def test_pickles(name: str) -> None:
    """Method, constants and states, and a copy goes on with the same bits."""
    case = make_setup(name)
    method, constants = pickle.loads(pickle.dumps((case.method, case.constants)))
    assert method == case.method
    assert type(constants) is type(case.constants)
    for mine, copy in zip(case.constants, constants, strict=True):
        assert np.array_equal(mine, copy)
    copy = dataclasses.replace(case, method=method, constants=constants)
    events = case.events(1500)
    with case.engine() as engine, copy.engine(2) as other:
        engine.run(events.between(0, 700))
        nodes, tokens = pickle.loads(pickle.dumps((engine.nodes, engine.tokens)))
        for mine, theirs in zip((*engine.nodes, *engine.tokens), (*nodes, *tokens), strict=True):
            assert mine.tobytes() == theirs.tobytes()
        other.restore([pickle.loads(pickle.dumps(engine.part()))])
        for each in (engine, other):
            each.run(events.between(700, 1500))
        assert bits(engine.part().arrays) == bits(other.part().arrays)


def run_once(name: str, stop: Stop, every: float, directory: Path | None = None, threads: int = 1) -> Outcome:
    problem = FiniteSum(LOGISTIC, get_loss("logistic"), 0.2)
    experiment = prepare(problem, make(name), walk(build("complete", problem.n)), TimeModel(), 7)
    with setup(LOGISTIC, make(name), sigma=0.2).engine(threads) as engine:
        return run(
            experiment,
            engine,
            stop,
            Recording(every_passes=every),
            directory=directory,
            identity="x",
            checkpoint_every=2,
        )


def without_wall(records: list[Record]) -> list[Record]:
    return [dataclasses.replace(record, wall=0.0) for record in records]


@pytest.mark.parametrize("name", METHODS)
def test_resume_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    """Stopped in the middle and continued, with other threads: the same bits, the same trajectory."""
    whole = run_once(name, Stop(passes=30), 2.0)
    half = run_once(name, Stop(passes=13), 2.0, tmp_path, threads=2)
    assert len(half.records) < len(whole.records)
    rest = run_once(name, Stop(passes=30), 2.0, tmp_path, threads=3)
    assert rest.models.nodes.tobytes() == whole.models.nodes.tobytes()
    assert rest.models.tokens.tobytes() == whole.models.tokens.tobytes()
    assert without_wall(rest.records) == without_wall(whole.records)
    again = run_once(name, Stop(passes=30), 2.0, tmp_path)  # nothing left to do
    assert again.models.tokens.tobytes() == whole.models.tokens.tobytes()
    assert without_wall(again.records) == without_wall(whole.records)


@pytest.mark.parametrize("name", METHODS)
def test_recording_does_not_change_bits(name: str) -> None:
    whole = run_once(name, Stop(events=5000), 1000.0)
    often = run_once(name, Stop(events=5000), 0.7)
    assert len(whole.records) == 2
    assert len(often.records) > 10
    assert whole.models.nodes.tobytes() == often.models.nodes.tobytes()
    assert whole.models.tokens.tobytes() == often.models.tokens.tobytes()
    assert without_wall(whole.records)[-1] == without_wall(often.records)[-1]


@pytest.mark.parametrize("name", METHODS)
def test_more_tokens_than_nodes_are_refused(name: str) -> None:
    if "tokens" not in fields_of(name):
        assert len(make(name).token_start(8)) <= 8
        return
    problem = FiniteSum(LOGISTIC, get_loss("logistic"), 0.2)
    with pytest.raises(InputError, match=r"algorithm\.tokens=9 but there are only 8 nodes; use tokens<=8"):
        prepare(problem, make(name, tokens=9), walk(build("complete", 8)), TimeModel(), 0)
    with pytest.raises(InputError, match=r"algorithm\.tokens=0"):
        make(name, tokens=0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    problem = FiniteSum(LOGISTIC, get_loss("logistic"), 0.2)
    with pytest.raises(InputError, match=f"seed={seed} must be an integer from 0 to"):
        prepare(problem, make("tvr"), walk(build("complete", 8)), TimeModel(), seed)


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InputError, match=r"algorithm=tvrr is not known\. Did you mean tvr\?"):
        method_class("tvrr")
    with pytest.raises(InputError, match="cannot be imported"):
        method_class("no.such.Method")
