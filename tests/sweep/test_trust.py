"""A sweep that somebody else left: nothing of it runs unless that is said."""

from pathlib import Path

import pytest

from dtoken.cli.sweep import main
from hydra_dask.manifest import Manifest


@pytest.mark.parametrize("command", ["resume", "submit"])
def test_a_sweep_of_somebody_else_needs_to_be_trusted(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    words = ["dtoken", "-m", "seed=1,2", "+hydra.callbacks.mine._target_=os.system"]
    Manifest(sweep, words, str(tmp_path / "theirs")).save()
    monkeypatch.setattr("os.getuid", lambda: sweep.stat().st_uid + 1)
    assert main([command, str(sweep)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{sweep} belongs to somebody else")
    assert f"cd {tmp_path / 'theirs'} && dtoken -m seed=1,2 +hydra.callbacks.mine._target_=os.system" in told
    assert "--trust" in told


def test_what_is_trusted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Manifest(tmp_path, ["dtoken", "-m"], str(tmp_path / "gone")).save()
    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid + 1)
    assert main(["resume", "--trust", str(tmp_path)]) == 2
    assert "which is not a folder any more" in capsys.readouterr().err  # the next thing that is looked at
