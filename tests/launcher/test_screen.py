"""What a sweep shows while it runs."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from hydra_dask import screen as _screen
from hydra_dask.manifest import DONE, FAILED, RUNNING, WAITING, Job


@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_and_the_time_that_is_left_are_one_line(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_screen, "eta", lambda *_: 36_130.0)
    states = [DONE] * 120 + [RUNNING] + [FAILED] * 10 + [WAITING] * 100
    jobs = [Job(str(n), n, str(n), [f"seed={n}"], status=status) for n, status in enumerate(states)]
    output = io.StringIO()
    Console(file=output, width=width, force_terminal=True, color_system=None).print(
        _screen.Screen(jobs, tmp_path)._picture(width)
    )
    head, job = output.getvalue().splitlines()
    assert "120/231 done   1 running   10 failed   100 waiting   ETA 10:02:10" in head
    assert "#120" in job


def test_checking_shows_how_far_it_is_where_somebody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(_screen.watched([1, 2, 3], "configurations checked")) == [1, 2, 3]
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert list(_screen.watched([1, 2, 3], "configurations checked")) == [1, 2, 3]
    text = capsys.readouterr().err
    assert "3/3 configurations checked" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
