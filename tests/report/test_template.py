"""The files that the page is made of."""

from importlib.resources import files
from pathlib import Path

import pytest

from dtoken.report.page import SCRIPTS

TEMPLATE = Path(str(files("dtoken.report"))) / "template"
FILES = sorted(path for path in TEMPLATE.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_line_is_too_long_to_read(path: Path) -> None:
    assert {path.suffix for path in FILES} == {".css", ".html", ".js"}
    long = [at for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if len(line) > 120]
    assert long == []


def test_each_script_is_in_the_page_once() -> None:
    assert sorted(SCRIPTS) == sorted(path.stem for path in (TEMPLATE / "script").iterdir())
