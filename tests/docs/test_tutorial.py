"""The notebook runs from its first cell to its last."""

import ast
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the cells see: a module of its own, as a notebook is."""
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.chdir(tmp_path)
    module = ModuleType("tutorial_of_dtoken")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return vars(module)


def shown(source: str, space: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), space)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), space) if last else None


def test_the_tutorial_runs(notebook: dict[str, Any]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)  # they would grow old
    values = [shown("".join(cell["source"]), notebook) for cell in cells if cell["cell_type"] == "code"]
    result, together = notebook["result"], notebook["together"]
    assert "tavr" in result._repr_html_()
    assert result.trajectory.test_accuracy.iloc[-1] > 0.8
    assert repr(values[1]) == repr(result)
    assert set(together.labels().values()) == {"tvr graph=complete", "tvr graph=edge_list"}
    assert len(together.plot("jumps").lines) == 4
    assert notebook["robust"].intercept == pytest.approx(5, abs=0.5)
    assert values[-1][1] > 0.8
