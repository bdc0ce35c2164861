"""A full disk, and files that may not be read: a sentence that names the file; the run continues when there is room."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtoken
from dtoken.engine.loop.checkpoint import NAME
from dtoken.engine.loop.packed import read_packed
from dtoken.errors import InputError, RunError
from dtoken.session.files import load_summary
from hydra_dask import durable

SETTINGS: dict[str, Any] = {
    "data": {"kind": "synthetic", "rows": 60, "features": 4},
    "nodes": 4,
    "algorithm": {"_target_": "tvr", "tokens": 2},
    "sigma": 0.1,
    "stop": {"passes": None, "events": 1500},
    "checkpoint": {"every": 1},
    "threads": 1,
}


@pytest.mark.parametrize(
    ("full", "named", "status"),
    [
        (NAME, NAME, "failed"),
        ("", NAME, "running"),
        ("at the end", "", "failed"),
        ("result.zarr", "result.zarr", "failed"),
    ],
)
def test_the_first_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, named: str, status: str
) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    expected = dtoken.run(**SETTINGS, directory=tmp_path / "whole")
    no_room = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fsync, mkdir, calls = os.fsync, os.mkdir, []

    def refuse(number: int) -> None:
        path = os.readlink(f"/proc/self/fd/{number}")
        calls.append(path)
        if full in path and len(calls) > 6 and "/run" in path:
            raise no_room
        fsync(number)

    def refuse_all(_: Path) -> bool:
        if full == "at the end":
            raise no_room
        return True

    def refuse_folder(path: Any, *more: Any, **options: Any) -> None:
        if full == "result.zarr" and ".result.zarr" in str(path):
            raise no_room
        mkdir(path, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        patch.setattr(os, "mkdir", refuse_folder)
        patch.setattr(durable, "sync_file_system", refuse_all)
        with pytest.raises(RunError, match=rf"^cannot write .*/run/?{named}: [Nn]o space left on device$"):
            dtoken.run(**SETTINGS, directory=tmp_path / "run")
    summary = load_summary(tmp_path / "run")
    assert summary is not None
    assert summary["status"] == status
    found = dtoken.run(**SETTINGS, directory=tmp_path / "run")
    assert found.tokens.tobytes() == expected.tokens.tobytes()


def test_what_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(RunError, match=r"checkpoint\.bin cannot be read: permission denied$"):
        read_packed(tmp_path / NAME)
    with pytest.raises(InputError, match=r"summary\.json cannot be read: permission denied; use another directory"):
        load_summary(tmp_path)


AS_NOBODY = """
import os
from pathlib import Path
from dtoken.errors import InputError
from dtoken.session.files import check_writable
if os.getuid() == 0:
    os.setgroups([])
    os.setuid(65534)
try:
    check_writable(Path(run))
except InputError as error:
    Path(said).write_text(str(error))
"""


@pytest.mark.parametrize("name", ["run", "run/new"])
def test_a_directory_of_somebody_else_is_refused(open_folder: Path, run_child: Callable[..., int], name: str) -> None:
    run, said = open_folder / "run", open_folder / "said"
    run.mkdir()
    run.chmod(0o555)
    said.touch()
    said.chmod(0o666)
    assert run_child(AS_NOBODY, run=str(open_folder / name), said=str(said)) == 0
    assert said.read_text() == f"{open_folder / name} cannot be written: Permission denied; use another directory"
    assert list(run.iterdir()) == []
