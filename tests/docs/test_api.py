"""The check of the API reference."""

import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "check_api.py"))


def test_all_that_users_call_is_documented() -> None:
    assert CHECK["faults"](CHECK["PAGE"].read_text()) == []


def test_what_is_missing_unknown_or_undocumented_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Silent:
        n: int

        def told(self) -> None:
            """Say it."""

        def untold(self) -> None: ...

        @property
        def property_untold(self) -> int:
            return 0

        def _private(self) -> None: ...

    module = ModuleType("planted")
    module.Silent = Silent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted", module)
    names = ("run", "predict", "Result", "load", "collect", "rum")
    page = "".join(f"::: dtoken.{name}\n" for name in names) + "::: planted.Silent\n"
    assert CHECK["faults"](page) == [
        "dtoken.Results is public, but not on the page",
        "dtoken.rum cannot be imported",
        "planted.Silent has no docstring",
        "planted.Silent.untold has no docstring",
        "planted.Silent.property_untold has no docstring",
    ]
