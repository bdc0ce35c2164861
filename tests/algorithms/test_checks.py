"""Methods that are not: each mistake is told in one sentence, before anything runs."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import dtoken
from dtoken.algorithms import METHODS, method_class
from dtoken.algorithms.checks import MEMBERS, check_class, check_parts
from dtoken.algorithms.contract import Facts, Models
from dtoken.algorithms.tvr import TVR
from dtoken.algorithms.walkman import Walkman
from dtoken.cli.run import main
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.promise import Promise
from tests.contract.test_own_methods import BLOCKS, load


@pytest.fixture(scope="module")
def saga(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("mine") / "page_methods.py"
    file.write_text(BLOCKS[0])
    yield load(file).WalkSAGA
    del sys.modules["page_methods"]


@compiled
def plain_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    tokens.x[k] += rows.q[r]


@compiled
def guarded_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    if r >= 0:
        tokens.x[k] += rows.q[r]


@compiled
def sample_step(c: Any, rows: Any, nodes: Any, i: int, row: int, t: float) -> None:
    nodes.x[i] += rows.q[row]


@compiled
def short_step(c: Any, rows: Any, nodes: Any, i: int) -> None:
    pass


@compiled
def hopeless_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    tokens.x[k] = c.no_such_constant


def python_visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    pass


class Two(NamedTuple):
    x: Any
    g: Any


class Constants(NamedTuple):
    n: int
    sigma: float
    step: Any


def run(method: Any, folder: Path, **more: Any) -> Any:
    data = {"kind": "synthetic", "rows": 24, "features": 3, "store": str(folder / "stores")}
    return dtoken.run(data, 4, method, sigma=0.1, **{"stop": {"jumps": 8}, "threads": 1} | more)


def changed(base: type[Any], **members: Any) -> type[Any]:
    """A subclass with other members."""
    return type("Mine", (base,), members)


def law(**members: Any) -> Callable[[Any, Any, Facts], Law]:
    return lambda self, c, facts: Law(
        **{"tokens": 1, "p_visit": 1.0, "p_meet": 0.0, "nodes": np.full(facts.n, 1 / facts.n)} | members
    )


def states(nodes: Any = None, tokens: Any = None) -> Callable[..., Any]:
    def made(self: Any, c: Any, rows: Any) -> Any:
        n, d = len(rows.w), rows.d
        x = np.zeros((n, d)) if nodes is None else nodes(n, d)
        return Two(x, np.zeros((n, d))), Two(np.zeros((1, d)) if tokens is None else tokens(d), np.zeros((1, d)))

    return made


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": ""}, r"has name='', which must be a text"),
    "draws_samples": ({"draws_samples": None}, r"has draws_samples=None, which must be True or False"),
    "blocks": ({"blocks": 4}, r"has blocks=4, which must be a dtoken.problem.blocks.Blocks"),
    "not compiled": ({"visit": staticmethod(python_visit)}, r"Mine.visit is not compiled; put @compiled"),
    "bound": ({"visit": plain_visit}, r"Mine.visit is a method of the class; write visit = staticmethod\(...\)"),
    "few arguments": ({"local": staticmethod(short_step)}, r"Mine.local must take 6 arguments: c, rows, nodes, i, r"),
    "arguments": ({"constants": lambda self: None}, r"Mine.constants cannot be called as constants\(facts\)"),
    "no type": ({"speed": 2.0}, r"has speed=2.0 without a type, so it is no key; write speed: TYPE = ..."),
    "no sample": (
        {"law": law(computing_visits=True)},
        r"Mine.law has computing_visits=True, but draws_samples=False: visits would get no sample",
    ),
    "row -1 in a visit": (
        {"visit": staticmethod(plain_visit)},
        r"Mine.visit uses the row r, which is -1 unless the law has computing_visits=True",
    ),
    "row -1 in a step": (
        {"local": staticmethod(sample_step)},
        r"Mine.local uses the row r, but with draws_samples=False r is -1",
    ),
    "meet": ({"law": law(p_visit=0.5, p_meet=0.5)}, r"Mine.law lets tokens meet, but Mine.meet is None"),
    "tokens": ({"law": law(tokens=2)}, r"Mine.law has 2 tokens, but Mine.token_start places 1"),
    "shares": ({"law": law(p_visit=1.5)}, r"Mine.law has p_visit=1.5, .* they are probabilities"),
    "law": ({"law": law(nodes=np.ones(3))}, r"Mine.law must give each of the 4 nodes a probability"),
    "no law": ({"law": lambda self, c, facts: 1}, r"must return a dtoken.schedule.stream.Law, not int"),
    "token_start": ({"token_start": lambda self, n: np.array([n])}, r"Mine.token_start must be the numbers of nodes"),
    "constants": ({"constants": lambda self, facts: {"step": 1.0}}, r"constants must return a NamedTuple, not dict"),
    "constant": (
        {"constants": lambda self, facts: Constants(facts.n, 0.1, np.ones(7))},
        r"Mine.constants has step of shape \(7,\) and type float64; an array has one number for each of the 4 nodes",
    ),
    "word": (
        {"constants": lambda self, facts: Constants(facts.n, 0.1, "long")},
        r"Mine.constants has step='long'; use numbers, or arrays",
    ),
    "costs": (
        {"costs": lambda self, facts: Costs(np.zeros(facts.n), np.ones(facts.n))},
        r"Mine.costs.local must be 4 whole numbers, one for each node",
    ),
    "promise": (
        {"promise": lambda self, c, facts: Promise("fast", "proved")},
        r"Mine.promise has rate='fast'; it is None, or a number from 0 to 1",
    ),
    "promise of nan": ({"promise": lambda self, c, facts: Promise(np.nan, "proved")}, r"Mine.promise has rate=nan"),
    "no promise": ({"promise": lambda self, c, facts: 0.5}, r"must return a dtoken.theory.promise.Promise, not float"),
    "shape": (
        {"states": states(nodes=lambda n, d: np.zeros((3, d)))},
        r"Mine.states has nodes.x of shape \(3, 3\): its first axis must count nodes, or rows of nodes, so 4 or 24",
    ),
    "shape of a token": ({"states": states(tokens=lambda d: np.zeros((2, d)))}, r"tokens.x of .* must count tokens"),
    "objects": ({"states": states(nodes=lambda n, d: np.array([None] * n))}, r"nodes.x, which is no array of numbers"),
    "order": (
        {"states": states(nodes=lambda n, d: np.zeros((d, n)).T)},
        r"Mine.states has nodes.x, which must be a contiguous array",
    ),
    "no array": ({"states": states(nodes=lambda n, d: 1.0)}, r"nodes.x, which is no array of numbers but float"),
    "one state": ({"states": lambda self, c, rows: Two(np.zeros(4), 1)}, r"must return two NamedTuples of arrays"),
    "constants in states": (
        {"states": lambda self, c, rows: c.step},
        r"Mine.states uses the constant step, but memory is counted before constants are known; use c.n alone",
    ),
    "models": (
        {"models": lambda self, c, nodes, tokens, t: Models(nodes.x.copy(), tokens.x[0].copy())},
        r"Mine.models has tokens of shape \(2,\) and type float64 where it is \(1, 2\) and float64",
    ),
    "no models": ({"models": lambda self, c, nodes, tokens, t: nodes.x}, r"must return .*Models, not ndarray"),
    "hopeless": ({"visit": staticmethod(hopeless_visit)}, r"the steps of mine cannot be compiled: .*no_such_constant"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_before_the_run(mistake: str, saga: Any, tmp_path: Path) -> None:
    members, sentence = WRONG[mistake]
    with pytest.raises(InputError, match=sentence) as told:
        run(changed(saga, **members)(), tmp_path, directory=tmp_path / "run")
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run" / "trajectory.parquet").exists()


def test_a_row_that_is_looked_at_may_be_missing(saga: Any, tmp_path: Path) -> None:
    run(changed(saga, visit=staticmethod(guarded_visit))(), tmp_path)


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_is_needed(member: str) -> None:
    """Whatever is missing is named, alone."""

    class Lacking(TVR):
        def __getattribute__(self, name: str) -> Any:
            if name == member:
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(InputError, match=rf"^mine is not a method: it lacks {member}; see docs/add-a-method\.md$"):
        check_parts(Lacking(), "mine")


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_the_package_pass(name: str) -> None:
    check_class(method_class(name), name)
    check_parts(method_class(name)(), name)


def test_keys_need_types_that_a_command_line_can_give() -> None:
    kind = make_dataclass("Mine", [("table", dict[str, int], field(default_factory=dict))], frozen=True)
    with pytest.raises(InputError, match=r"mine has the key table of type dict\[str, int\]; use int, float, bool"):
        check_class(kind, "mine")


def test_keys_need_a_dataclass() -> None:
    class Mine(Walkman):
        speed: float = 1.0
        kind: ClassVar[str] = "x"

    with pytest.raises(InputError, match=r"mine has the key speed, but no @dataclass\(frozen=True\) above it makes it"):
        check_class(Mine, "mine")
    check_class(dataclass(frozen=True)(Mine), "mine")


@pytest.mark.parametrize("wrong", [lambda L: -L, lambda L: 0 * L, lambda L: np.nan * L, lambda L: L[1:]])
def test_weights_are_positive_numbers(wrong: Callable[[Any], Any], tmp_path: Path) -> None:
    for weights in (lambda L: 2 * L, lambda L: None):
        run(changed(TVR, weights=lambda self, c, L, weights=weights: weights(L))(), tmp_path)
    with pytest.raises(InputError, match=r"Mine.weights must give each of \d+ samples a positive number, or be None"):
        run(changed(TVR, weights=lambda self, c, L: wrong(L))(), tmp_path)


def test_samples_are_not_drawn_where_there_are_none(tmp_path: Path) -> None:
    """Every node takes steps, but one has only empty rows."""
    file = tmp_path / "rows.svm"
    file.write_text("".join(f"{1 if r % 2 else -1}{'' if r < 4 else ' 1:0.5 2:1'}\n" for r in range(16)))
    even = changed(TVR, law=lambda self, c, facts: Law(1, 0.5, 0.0, np.full(facts.n, 1 / facts.n)))
    data = {"kind": "svmlight", "path": str(file), "store": str(tmp_path / "stores")}
    with pytest.raises(InputError, match=r"node \d has only empty rows, but Mine draws a sample there"):
        dtoken.run(data, 4, even(), sigma=0.1, partition={"kind": "contiguous"}, stop={"jumps": 8})


def test_the_command_ends_with_2_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("broken_one.py").write_text("x = 1\nraise TypeError('it is Monday')\n")
    assert main(["algorithm._target_=broken_one.Mine"]) == 2
    told = capsys.readouterr().err
    assert "cannot be imported (" in told
    assert "broken_one.py:2: TypeError: it is Monday)" in told
    Path("halfway.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Mine:\n    tokens: int = 1\n"
    )
    assert main(["algorithm._target_=halfway.Mine"]) == 2
    assert "algorithm._target_=halfway.Mine is not a method: it lacks name, draws_samples," in capsys.readouterr().err
