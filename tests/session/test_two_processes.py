"""Two processes, or threads, in one run directory: one runs, the other gets a sentence and changes nothing."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtoken
from dtoken.engine.local import LocalEngine
from dtoken.errors import InputError
from tests.waiting import NEVER, until

SETTINGS: dict[str, Any] = {
    "data": {"kind": "synthetic", "rows": 60, "features": 4},
    "nodes": 4,
    "algorithm": {"_target_": "tvr", "tokens": 2},
    "sigma": 0.1,
    "stop": {"passes": None, "events": 5000},
    "checkpoint": {"every": 1},
    "threads": 1,
}
# Runs until its second measurement, with a checkpoint on disk, and waits there for its end.
HALF = """
import os, signal
from pathlib import Path
import dtoken
from dtoken.engine.local import LocalEngine

measure, calls = LocalEngine.measure, []
def wait(*arguments):
    calls.append(1)
    if len(calls) == 3:
        Path(ready).touch()
        signal.pause()
    return measure(*arguments)
LocalEngine.measure = wait
os.environ["DTOKEN_STORE"] = stores
dtoken.run(**settings, directory=directory)
"""


@pytest.fixture(autouse=True)
def _stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_second_process_is_refused_and_a_killed_one_is_not_in_the_way(
    tmp_path: Path, start_child: Callable[..., Any]
) -> None:
    expected = dtoken.run(**SETTINGS, directory=tmp_path / "alone")
    places = {"ready": str(tmp_path / "ready"), "stores": str(tmp_path / "stores"), "directory": str(tmp_path / "run")}
    child = start_child(HALF, settings=SETTINGS, **places)
    until(lambda: (tmp_path / "ready").exists())
    before = content(tmp_path / "run")
    who = f"process {child.pid} on {os.uname().nodename}"
    with pytest.raises(InputError, match=rf"^{who} is running in .*; wait for it, or use another directory$"):
        dtoken.run(**SETTINGS, directory=tmp_path / "run")
    assert content(tmp_path / "run") == before
    child.kill()
    child.join(NEVER)
    found = dtoken.run(**SETTINGS, directory=tmp_path / "run")
    assert found.tokens.tobytes() == expected.tokens.tobytes()
    assert found.status == "done"
    assert not (tmp_path / "run/.lock").exists()


def test_whoever_waited_outside_finds_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both saw an empty directory and prepared the run; the one that came second to the lock runs nothing."""
    runs, turn = [], threading.Barrier(2)
    run, prepared = LocalEngine.run, dtoken.session.execute.check_length

    def count(*arguments: Any) -> None:
        runs.append(threading.get_ident())
        run(*arguments)

    def together(what: Any) -> None:
        prepared(what)
        turn.wait(NEVER)

    monkeypatch.setattr(LocalEngine, "run", count)
    monkeypatch.setattr(dtoken.session.execute, "check_length", together)
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(dtoken.run(**SETTINGS, directory=tmp_path / "run").tokens.tobytes())
        except InputError as error:
            found.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER)
    assert len(set(runs)) == 1  # nobody ran beside the other, or again
    assert any(isinstance(each, bytes) for each in found)
    assert len({each for each in found if isinstance(each, bytes)}) == 1
    assert all("is running in" in each for each in found if isinstance(each, str))
