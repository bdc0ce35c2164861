"""What belongs to every registered method besides its class: a short file, a config, documentation, theory."""

import ast
import io
import re
import tokenize
from dataclasses import fields
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import dtoken
from dtoken.algorithms import METHODS, method_class
from dtoken.config.source import config_folder
from tests.conftest import ROOT

LIMIT = 100  # lines of code of a method
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines with code, so without blank lines, comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for scope in ast.walk(ast.parse(source)):
        if isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(scope) is not None:
            docstring = scope.body[0]
            code -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(code)


def section(name: str) -> str:
    """The section of a method in docs/algorithms.md."""
    _, heading, rest = (ROOT / "docs" / "algorithms.md").read_text().partition(f"\n## {name}\n")
    assert heading, f"docs/algorithms.md has no section {name}"
    return rest.partition("\n## ")[0]


def test_what_counts_as_code() -> None:
    source = '"""Module."""\n\n# why\ndef f(\n    x,\n):\n    """One.\n\n    Two.\n    """\n    return x  # that\n'
    assert code_lines(source) == 4


@pytest.mark.parametrize("name", METHODS)
def test_file_is_short(name: str) -> None:
    file = Path(dtoken.__file__).parent / "algorithms" / f"{name}.py"
    assert 20 < code_lines(file.read_text()) < LIMIT


@pytest.mark.parametrize("name", METHODS)
def test_formulas_open_the_file(name: str) -> None:
    """The module's docstring has indented formulas and says where they are from."""
    docstring = ast.get_docstring(ast.parse((Path(dtoken.__file__).parent / "algorithms" / f"{name}.py").read_text()))
    assert docstring is not None
    assert any(line.startswith("    ") and ("<-" in line or "=" in line) for line in docstring.splitlines())
    assert re.search(r"\b(19|20)\d\d\b", docstring), "no year of a paper"


@pytest.mark.parametrize("name", METHODS)
def test_has_a_config(name: str) -> None:
    kind = method_class(name)
    found = OmegaConf.load(config_folder() / "algorithm" / f"{name}.yaml")
    assert found == {"_target_": f"{kind.__module__}.{kind.__qualname__}"}  # keys and defaults are the class's


@pytest.mark.parametrize("name", METHODS)
def test_is_documented(name: str) -> None:
    """A section of its own, in the table of methods and in that of rates; all its keys are explained on the page."""
    page = (ROOT / "docs" / "algorithms.md").read_text()
    assert "\n    " in section(name)  # formulas
    assert "**Costs**" in section(name)
    assert f"(figures/{name}.png)" in section(name)
    assert (ROOT / "docs" / "figures" / f"{name}.png").is_file()
    keys = re.search(r"\*\*Keys\*\*: (?:those of `token`, and )?`([\w,\s]+)`", section(name))
    assert keys, "no list of keys"
    assert {key.strip() for key in keys[1].split(",")} <= {field.name for field in fields(method_class(name))}
    assert f"](#{name})" in page
    rates = page.partition("\n## What the theory promises\n")[2].partition("\n## ")[0]
    assert any(name in row.split("|")[1] for row in rates.splitlines() if row.startswith("| "))
    for field in fields(method_class(name)):
        assert field.name in page, field.name
