"""Plain values to dataclasses: what fits, and the sentence for what does not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from dtoken.config.values import construct, defaults, plain, typed
from dtoken.errors import InputError


@dataclass(frozen=True)
class Example:
    must: int
    ratio: float = 0.5
    often: int | str = 1
    where: Path | None = None
    kind: Literal["a", "b"] = "a"
    list: tuple[float, ...] = (1.0, 2.0)
    flag: bool = False
    secret: int = 7


def test_defaults_are_plain() -> None:
    found = defaults(Example, hidden=("secret",))
    assert found == {
        "must": "???", "ratio": 0.5, "often": 1, "where": None, "kind": "a", "list": [1.0, 2.0], "flag": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, int, 3),
        (1e6, int, 1_000_000),
        (3, float, 3.0),
        ("auto", int | str, "auto"),
        (4, int | str, 4),
        (None, float | None, None),
        ("x/y", Path, Path("x/y")),
        ("a", Literal["a", "b"], "a"),
        ([1, 2.5], tuple[float, ...], (1.0, 2.5)),
        (True, bool, True),
    ],
)
def test_values_that_fit(value: Any, hint: Any, expected: Any) -> None:
    found = typed("key", value, hint)
    assert found == expected
    assert type(found) is type(expected) or isinstance(expected, Path)


@pytest.mark.parametrize(
    ("value", "hint", "sentence"),
    [
        ("many", int, "key=many is not an integer"),
        (2.5, int, "key=2.5 is not an integer"),
        (True, int, "key=true is not an integer"),
        (True, float, "key=true is not a number"),
        ("x", float | None, "key=x is neither a number nor null"),
        (None, int, "key=null is not an integer"),
        (1, bool, "key=1 is not true or false"),
        ("bb", Literal["a", "b"], "key=bb is not known; did you mean b? Use one of a, b"),
        (3.0, tuple[float, ...], "key=3.0 is not a list"),
        (["x"], tuple[float, ...], "an entry of key=x is not a number"),
    ],
)
def test_values_that_do_not_fit(value: Any, hint: Any, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        typed("key", value, hint)
    assert str(error.value) == sentence


def test_construct_uses_what_is_given_and_defaults() -> None:
    made = construct(Example, {"must": 2, "kind": "b"}, "part", "example", ("secret",), secret=9)
    assert made == Example(2, kind="b", secret=9)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"must": 1, "ration": 1}, "part.ration is not a key of example. Did you mean part.ratio? Keys: must, ratio, "),
        ({"must": 1, "secret": 1}, "part.secret is not a key of example. Keys: must, ratio, "),
        ({}, "part=example needs part.must; give part.must=VALUE"),
        ({"must": "???"}, "part=example needs part.must; give part.must=VALUE"),
    ],
)
def test_construct_refuses(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        construct(Example, given, "part", "example", ("secret",))
    assert str(error.value).startswith(sentence)


def test_plain_values_are_those_of_json() -> None:
    assert plain({"a": (1, Path("x")), "b": {"c": None}}) == {"a": [1, "x"], "b": {"c": None}}
