"""What a sweep shows while it runs."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from hydra_plugins.dask_launcher import _screen
from hydra_plugins.dask_launcher._records import DONE, FAILED, RUNNING, WAITING, Job


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
