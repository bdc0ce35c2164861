"""``check_method`` finds mistakes, says which they are, and lets sound methods pass."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client

from dtoken.algorithms.walkman import Walkman
from dtoken.testing import MethodFailed, check_method
from hydra_dask.cluster import LocalWorkers
from tests.testing import mistakes

PLANTED = {
    mistakes.NoModels: ("members", r"NoModels is not a method: it lacks models; see docs/add-a-method.md"),
    mistakes.SampleNotDeclared: ("parts", r"SampleNotDeclared.visit uses the row r, which is -1 unless"),
    mistakes.ProvedInWords: ("parts", r"ProvedInWords.promise has rate='linear'; it is None, or a number from 0 to 1"),
    mistakes.ByTheClock: ("copies", r"constants are not the same when they are computed again"),
    mistakes.OneBuffer: ("repeats", r"the same events gave other bits the second time"),
    mistakes.RandomSteps: ("repeats", r"the same events gave other bits the second time; no random numbers"),
    mistakes.OtherToken: (
        "own state",
        r"visit \(event \d+, .*\) reads the state of others: tokens/theta",
    ),
    mistakes.ChangesRows: ("own state", r"visit \(event 0, visit at node \d\) writes into rows.data"),
    mistakes.StateInConstants: ("own state", r"visit \(event 0, visit at node \d\) writes into c.visits"),
    mistakes.CountsOne: ("gradients", r"uses 1[01] rows and costs\(\) counts 1 gradients"),
    mistakes.RowsInOrder: ("streaming", r"other bits where rows are read when they are needed"),
    mistakes.LongSteps: ("optimum", r"diverges: models are not finite|a model is still .* from the optimum"),
    mistakes.ForgetsSigma: ("optimum", r"a model is still 0.\d+ from the optimum after 30 segments"),
    mistakes.StaleConstants: ("process", r"a new process gives other bits than this one, which had another problem"),
    mistakes.OfThisProcess: ("process", r"a new process gives other bits than this one"),
    mistakes.Remembers: ("resume", r"a run that is continued from its checkpoint ends with other bits"),
}
ALONE = {"members", "parts", "gradients", "streaming", "optimum"}  # such mistakes break nothing else
PARAMETERS: dict[Any, dict[str, Any]] = {mistakes.OtherToken: {"tokens": 2}}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalWorkers(2).open() as connection:
        yield connection.client


@pytest.mark.parametrize("kind", PLANTED, ids=lambda kind: kind.__name__)
def test_a_planted_mistake_is_found(kind: Any, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    check, sentence = PLANTED[kind]
    with pytest.raises(MethodFailed, match=kind.__name__) as found:
        check_method(kind, client=client, **PARAMETERS.get(kind, {}))
    failures = found.value.failures
    assert re.search(sentence, failures[check])
    if check in ALONE:
        assert set(failures) == {check}
    assert f"{check:<12} FAILED: {failures[check]}" in capsys.readouterr().out
    assert failures[check] in str(found.value)


def test_a_sound_method_passes_and_every_check_has_a_line(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    check_method(Walkman, client=client)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14
    assert all(re.fullmatch(r"[a-z ]{12} ok", line) for line in lines)


def test_parameters_are_the_methods(client: Client) -> None:
    with pytest.raises(MethodFailed, match=r"Walkman failed members: algorithm\.beta=-1\.0 must be positive"):
        check_method(Walkman, client=client, beta=-1.0)


def test_what_need_not_converge_is_not_asked_to(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    check_method(mistakes.ForgetsSigma, converges=False, client=client)
    assert "optimum" not in capsys.readouterr().out
