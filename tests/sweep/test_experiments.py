"""The ready sweeps, and paired ones: as many valid runs as the documentation says."""

import csv
import re
from math import prod
from pathlib import Path

import pytest
import yaml

from dtoken.cli.sweep import main
from dtoken.config.source import config_folder

PAGE = (Path(__file__).parents[2] / "docs/sweeps.md").read_text()
DOCUMENTED = {name: int(runs) for name, runs in re.findall(r"^\| `(\w+)` \| .* \| (\d+) \|$", PAGE, re.MULTILINE)}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    monkeypatch.setattr("sys.argv", ["dtoken"])


def test_all_ready_sweeps_are_documented() -> None:
    assert set(DOCUMENTED) == {path.stem for path in (config_folder() / "experiment").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_ready_sweep_is_valid_and_has_the_runs_that_are_promised(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    params = yaml.safe_load((config_folder() / f"experiment/{name}.yaml").read_text())["hydra"]["sweeper"]["params"]
    counts = {key: len(next(csv.reader([str(values)]))) for key, values in params.items()}
    assert prod(counts.values()) == DOCUMENTED[name]
    assert main(["dry-run", f"+experiment={name}", "seed=0"]) == 0
    runs = DOCUMENTED[name] // counts.get("seed", 1)
    assert f"{runs} jobs, all configurations valid; 0 already done, {runs} to run" in capsys.readouterr().out
    assert list(Path.cwd().iterdir()) == []


def test_parameters_that_move_together(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my/case").mkdir(parents=True)
    Path("my/case/easy.yaml").write_text("# @package _global_\nproblem: {sigma: 1e-2}\nstop: {passes: 100}\n")
    Path("my/case/hard.yaml").write_text("# @package _global_\nproblem: {sigma: 1e-4}\nstop: {passes: 2000}\n")
    assert main(["dry-run", "--config-dir", "my", "+case=easy,hard", "seed=0,1,2", "data.rows=1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("gradients")[0].split() for line in lines[:4:3]] == [
        ["#0", "+case=easy", "seed=0", "<=", "100", "k"],
        ["#3", "+case=hard", "seed=0", "<=", "2", "M"],
    ]
    assert lines[6] == "6 jobs, all configurations valid; 0 already done, 6 to run"


def test_curves_of_a_figure_are_measured_at_equal_intervals() -> None:
    """None has intervals of its own: they are those of the experiment."""
    curves = list((config_folder() / "curve").glob("*.yaml"))
    assert curves
    assert [path.stem for path in curves if "record" in yaml.safe_load(path.read_text())] == []
