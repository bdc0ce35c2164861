"""What every registered method promises, whatever it does inside."""

import dataclasses
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from distributed import Client

from dtoken import run
from dtoken.algorithms import METHODS, method_class
from dtoken.algorithms.contract import Method
from dtoken.engine.loop.experiment import prepare
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.stream import start_at
from dtoken.sweep.damage import is_whole
from dtoken.testing import check_method
from hydra_dask.cluster import LocalWorkers
from tests.engine.small import Setup, setup, small_shards, solve

PROBLEM = {"kind": "synthetic", "rows": 30, "features": 3}
ROUGH = {"walk_sgd": 3e-2, "api_bcd": 0.3}  # errors fall like a power of 1 / t; to a penalty: how far they have to come
LOGISTIC, REGRESSION = small_shards(seed=11), small_shards(seed=12, classes=False)


def fields_of(name: str) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(method_class(name))}


def tokens_of(name: str, tokens: int = 2) -> dict[str, int]:
    return {"tokens": tokens} if "tokens" in fields_of(name) else {}


def make(name: str, tokens: int = 2) -> Method:
    """With its defaults, and two tokens if it has some."""
    method: Method = method_class(name)(**tokens_of(name, tokens))
    return method


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalWorkers(2).open() as connection:
        yield connection.client


def make_setup(name: str, loss: str = "logistic", graph: str = "complete", kind: str = "simple") -> Setup:
    shards = LOGISTIC if loss == "logistic" else REGRESSION
    return setup(shards, make(name), loss=loss, sigma=0.2, graph=graph, kind=kind)


@pytest.mark.parametrize("name", METHODS)
def test_a_report_takes_its_summary(name: str) -> None:
    result = run(PROBLEM, 3, {"_target_": name}, sigma=0.2, stop={"events": 3})
    assert is_whole(json.loads(json.dumps(result.summary)))


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
    """All models come within 1e-10, or as near as they can, of the optimum by dense Newton steps, and stay there."""
    case = make_setup(name, loss, graph, kind)
    best, errors = solve(case.shards, loss, 0.2), [np.inf]
    start = start_at(case.method.token_start(case.shards.n))
    with case.engine() as engine:
        for events, _ in islice(case.schedule.segments(start), 20):
            engine.run(events)
            errors.append(largest_error(case, engine, events.at[-1], best))
            if max(errors[-2:]) <= ROUGH.get(name, 1e-10):
                return
    raise AssertionError(errors)


def largest_error(case: Setup, engine: Any, t: float, best: Any) -> float:
    models = engine.models(float(t))
    assert models.failure is None
    assert models.nodes.shape == (case.shards.n, case.shards.d)
    return float(max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max()))


@pytest.mark.parametrize("name", METHODS)
def test_keeps_the_contract(name: str, client: Client) -> None:
    """With two tokens if it has some."""
    check_method(method_class(name), converges=name not in ROUGH, client=client, **tokens_of(name))


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
    with pytest.raises(InputError, match=r"algorithm=tvrr is not known; did you mean tvr\?"):
        method_class("tvrr")
    with pytest.raises(InputError, match="cannot be imported"):
        method_class("no.such.Method")
