"""The command ``dtoken`` inside the tests' own process, in an empty folder."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dtoken.cli.run import main


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.strip().splitlines()[-1]


TINY = ("data.rows=60", "data.features=4", "nodes=4", "problem.sigma=0.1", "stop.passes=6")


@pytest.fixture
def dtoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run ``dtoken`` on a tiny problem; the words override."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))

    def run(*words: str, tiny: bool = True) -> Said:
        capsys.readouterr()
        try:
            status = main([*(TINY if tiny else ()), *words])
        except SystemExit as exit:
            status = int(exit.code or 0)
        return Said(status, *capsys.readouterr())

    return run
