"""What users do by mistake, or without a thought: each is refused in a sentence that says what was meant, or works."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dtoken as package
from dtoken.cli import data, report, sweep
from dtoken.cli.run import main
from dtoken.cli.screen import left
from dtoken.engine.loop.recorder import COLUMNS, Record
from dtoken.errors import InputError
from dtoken.report import make_report
from dtoken.session.execute import carry_out
from dtoken.session.viewer import Viewer
from tests.cli.conftest import TINY

Dtoken = Callable[..., Any]

HERE = (
    "is where engine=dask and the runs of a sweep (-m) happen, but this run would happen here; add engine=dask, or -m "
)
SWEPT = "this is a sweep, over algorithm=token,tvr,tavr graph=complete,ring seed=0,1,2; to run it: dtoken -m "
NOT_YET = "experiment is not in the configuration yet; write it with a +, as in +experiment="
NONE_STARTED = f"1 of 1 jobs cannot run, so nothing was started: {' '.join(TINY)}"
SEVERAL = "chooses several options for one run; write"
CHDIR = "hydra.job.chdir=true would make relative paths mean something else; leave it out: "
NOT_WRITTEN = "file/below cannot be written: Not a directory; use another directory."
REFUSED = {
    "cluster=slurm": f"cluster=slurm {HERE}for a sweep, or leave the cluster out.",
    "cluster.workers=4": f"cluster=local {HERE}",
    "+experiment=quickstart": f"{SWEPT}{' '.join(TINY)} +experiment=quickstart.",
    "theory=only +experiment=quickstart": SWEPT,
    "-m seed=range(0)": "this sweep has no jobs: seed=range(0) has no values.",
    "-m seed=0,1 algorithm=glob(zz*)": "this sweep has no jobs: algorithm=glob(zz*) has no values.",
    "sigma=1e-3": "sigma is not a key of dtoken. Did you mean problem.sigma? Keys: data, nodes, ",
    "+sigma=1e-3": "sigma is not a key of dtoken. Did you mean problem.sigma, without a +?",
    "threads=2": "threads is not a key of dtoken. Did you mean engine.threads or cluster.threads? Keys: ",
    "experiment=quickstart": f"{NOT_YET}quickstart.",
    "-m experiment=tokens": f"{NOT_YET}tokens.",
    "experiment=quikstart": "+experiment=quikstart is not known; did you mean +experiment=quickstart? Use one of ",
    "algorithm=[tvr,tavr]": f"algorithm=[tvr,tavr] {SEVERAL} algorithm=tvr, or with -m algorithm=tvr,tavr to run each.",
    "-m graph=[ring,path]": f"{NONE_STARTED} graph=[ring,path]: graph=[ring,path] {SEVERAL} graph=ring, ",
    "cluster=slurm +cluster.options.job_extra_directives=[--nice,--x=y]": "+cluster.options.job_extra_directives="
    "[--nice,--x=y] cannot be understood; for a list of words write "
    '\'+cluster.options.job_extra_directives=["--nice","--x=y"]\'',
    "data=svmlight data.path=a(1).svm": "data.path=a(1).svm cannot be understood; to take the value as it is, write "
    "\"data.path='a(1).svm'\".",
    "-m hydra/sweeper=dask_optuna hydra.sweeper.sampler._target_=optuna.nosuch seed=0,1": "hydra/sweeper=dask_optuna "
    "needs Optuna 4 or later; install it, or dtoken with its extra [optuna].",
    "data=file": "data=file is a file, not a source of data; write data=svmlight data.path=file.",
    "hydra.job.chdir=true": CHDIR,
    "-m hydra.job.chdir=true": f"{NONE_STARTED}: {CHDIR}",
    "hydra.run.dir=file/below": NOT_WRITTEN,
    "-m seed=0,1 hydra.sweep.dir=file/below": NOT_WRITTEN,
    "hydra.run.dir=/proc/run": "/proc/run cannot be written: ",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_was_meant_is_said_and_nothing_is_left(words: str, dtoken: Dtoken, tmp_path: Path) -> None:
    Path("file").touch()
    said = dtoken(*words.split())
    assert said.err.startswith(REFUSED[words])
    assert (said.status, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["file"]
    assert not (tmp_path / "stores").exists()  # no data were prepared


def test_a_cluster_is_no_mistake_where_it_is_used(dtoken: Dtoken) -> None:
    assert dtoken("-m", "theory=only", "cluster=slurm", "seed=0").status == 0
    assert dtoken("--cfg", "job", "cluster=slurm", "+experiment=quickstart").status == 0


@pytest.mark.parametrize("command", [main, data.main, report.main, sweep.main])
def test_every_command_has_a_version(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        assert command(["--version"]) == 0
    assert capsys.readouterr().out.split()[-1] == package.__version__


def started(*words: str, **options: Any) -> "subprocess.Popen[str]":
    """``python -m dtoken`` in a process of its own."""
    command = [sys.executable, "-m", "dtoken", *TINY, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_run_of_python_m_whose_reader_leaves_goes_on(dtoken: Dtoken) -> None:
    process = started("hydra.run.dir=a b")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("data ")
    process.stdout.close()
    assert process.stderr is not None
    assert (process.wait(600), process.stderr.read()) == (0, "")
    process.stderr.close()
    assert package.Result.load("a b").status == "done"


def test_paths_with_spaces(dtoken: Dtoken) -> None:
    Path("my data.svm").write_text("1 1:1\n-1 1:-1 2:1\n1 2:2\n-1 1:-2\n")
    said = dtoken("data=svmlight", "data.path=my data.svm", "hydra.run.dir=my run", "nodes=2", tiny=False)
    assert (said.status, said.last) == (0, "my run")


class Interrupting(Viewer):
    """Presses Ctrl-C at a record."""

    def __init__(self, at: int = 10) -> None:
        self.at = at
        self.seen: list[Record] = []
        self.shown: dict[str, str] = {}

    def record(self, record: Record) -> None:
        self.seen.append(record)
        if len(self.seen) == self.at:
            signal.raise_signal(signal.SIGINT)

    def show(self, name: str, text: str) -> None:
        self.shown[name] = text


def test_an_interrupted_run_says_where_it_is_and_is_loaded_and_reported(
    dtoken: Dtoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtoken.cli.screen.Screen.record", lambda screen, record: keys.record(record))
    keys = Interrupting()
    said = dtoken("hydra.run.dir=my run", "stop.passes=40")
    assert said.status == 130
    events = f"{keys.seen[-1].event:,}"
    command = " ".join(["dtoken", *TINY, "stop.passes=40"])
    assert said.err.splitlines()[-1].startswith(f"interrupted after {events} events: F - F* was ")
    assert said.err.endswith(f"""passes; to go on: {command} "hydra.run.dir='my run'".\n""")
    found = package.Result.load("my run")
    assert (found.status, len(found.records), found.theta.shape) == ("interrupted", 10, (4,))
    assert list(package.load("my run").trajectories.suboptimality) == [each.suboptimality for each in found.records]
    assert make_report("my run").is_file()


def test_a_resumed_run_says_from_where_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    from dtoken.config.settings import make_settings

    settings = make_settings(data={"kind": "synthetic", "rows": 60, "features": 4}, nodes=4, stop={"passes": 40})
    keys = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        carry_out(settings, tmp_path / "run", keys)
    event = keys.seen[-1].event
    again = Interrupting(at=-1)
    resumed = carry_out(settings, tmp_path / "run", again)
    assert again.shown["resumed"].startswith(f"after {event:,} events: F - F* was ")
    whole = carry_out(settings)
    names = [name for name in COLUMNS if name != "wall"]
    assert resumed.trajectory[names].equals(whole.trajectory[names])


def test_without_checkpoints_an_interrupted_run_still_has_its_trajectory(tmp_path: Path) -> None:
    from dtoken.config.settings import make_settings

    parts: dict[str, Any] = {"data": {"kind": "synthetic", "rows": 60, "features": 4}, "nodes": 4}
    settings = make_settings(**parts, checkpoint={"seconds": None})
    with pytest.raises(KeyboardInterrupt):
        carry_out(settings, tmp_path, Interrupting())
    assert len(package.load(tmp_path).trajectories) == 10
    with pytest.raises(InputError, match="does not hold a finished run: it has no result"):
        package.Result.load(tmp_path)


def test_a_report_elsewhere_leaves_a_sweep_as_it_is(dtoken: Dtoken) -> None:
    def files() -> dict[str, float]:
        return {str(path): path.stat().st_mtime_ns for path in Path("theirs").rglob("*")}

    assert dtoken("hydra.run.dir=theirs/0").status == 0
    before = files()
    time.sleep(0.01)
    assert report.main(["theirs", "--output", "mine"]) == 0
    assert Path("mine/index.html").is_file()
    assert files() == before


def test_a_sweep_is_resumed_from_anywhere(
    dtoken: Dtoken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With data of a relative path, and told by a path that is right where the user is."""
    here = Path.cwd()
    Path("rows.svm").write_text("1 1:1\n-1 1:-1 2:1\n1 2:2\n-1 1:-2\n")
    words = (
        "-m",
        "data=svmlight",
        "data.path=rows.svm",
        "nodes=2",
        "stop.passes=3",
        "seed=0",
        "hydra.sweep.dir=my sweep",
    )
    assert dtoken(*words, tiny=False).status == 0
    other = here / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    assert sweep.main(["resume", "../my sweep"]) == 0
    out = capsys.readouterr().out
    assert f"1 job, all configurations valid; 1 already done in {here}/my sweep, 0 to run" in out
    assert out.splitlines()[-1] == f"report     {here}/my sweep/report/index.html"
    monkeypatch.chdir(here)
    assert sweep.main(["resume", "my sweep"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report     my sweep/report/index.html"


def test_looking_at_data_takes_the_sigma_of_a_run(
    dtoken: Dtoken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = dtoken("data.rows=60", "data.features=4", "nodes=4", "stop.passes=1", tiny=False)
    sigma = json.loads((Path(said.last) / "summary.json").read_text())["config"]["problem"]["sigma"]
    (store,) = (tmp_path / "stores").glob("*.zarr")
    assert data.main(["inspect", "--json", str(store)]) == 0
    assert json.loads(capsys.readouterr().out)["sigma"] == sigma


def test_nodes_of_one_class_are_told(dtoken: Dtoken) -> None:
    rows = [f"{label} 1:{row} 2:1" for label in (-1, 1) for row in range(1, 4)]
    Path("sorted.svm").write_text("\n".join(rows) + "\n")
    words = ("data=svmlight", "data.path=sorted.svm", "nodes=3", "stop.passes=1")
    said = dtoken(*words, tiny=False)
    assert said.err == (
        "2 of 3 nodes have rows of one class only (node 0, 2), as where rows are sorted by their labels; "
        "partition.kind=shuffled mixes them.\n"
    )
    assert "one class" not in dtoken(*words, "nodes=1", tiny=False).err


def test_a_run_that_cannot_get_closer_stops_and_says_so(dtoken: Dtoken) -> None:
    words = ("stop.passes=1e6", "hydra.run.dir=run")
    said = dtoken(*words)
    assert said.status == 0
    found = package.Result.load("run")
    assert found.summary["stopped"] == "float64"
    end = found.records[-1]
    assert abs(end.suboptimality) < 1e-12
    assert end.passes < 1e4
    last = [each.distance for each in found.records if each.event > 0.8 * end.event]
    assert min(last) >= min(each.distance for each in found.records)
    assert "where float64 ends" in said.out
    assert dtoken(*words, "stop.passes=1e7").out == "This run is done already; it cannot get closer.\nrun\n"


def test_an_accuracy_that_cannot_be_measured_is_never_reached(dtoken: Dtoken) -> None:
    said = dtoken("stop.passes=1e6", "stop.suboptimality=1e-18", "hydra.run.dir=run")
    assert said.err.startswith("stop.suboptimality=1e-18 is below what float64 can tell of F* ")
    assert said.err.count("\n") == 1
    found = package.Result.load("run")
    assert found.summary["stopped"] == "float64"
    assert found.to_accuracy(1e-18) == {"reached": None, "stays_below": None}
    assert found.to_accuracy(1e-12)["stays_below"] is not None


def test_the_table_has_no_rows_for_what_was_not_asked(dtoken: Dtoken) -> None:
    said = dtoken("stop.suboptimality=1e-2", "stop.passes=100")
    assert "to 0.01" in said.out
    assert "to 1e-08" not in said.out


@pytest.mark.parametrize("name", ["passes", "jumps", "events", "suboptimality"])
def test_the_reason_of_the_stop_is_recorded(name: str, tmp_path: Path) -> None:
    problem: dict[str, Any] = {"data": {"kind": "synthetic", "rows": 60, "features": 4}, "nodes": 4, "sigma": 0.1}
    stop = {"passes": 400, name: {"passes": 2, "suboptimality": 0.3}.get(name, 50)}
    assert package.run(**problem, stop=stop).summary["stopped"] == name


def test_hours_are_called_hours(dtoken: Dtoken, capsys: pytest.CaptureFixture[str]) -> None:
    """There are 6e10 gradients of rows with 4 non-zeros to come, and visits."""
    long = ("stop.passes=1e9", "stop.suboptimality=1e30", "stop.patience=1")
    said = dtoken(*long)
    (line,) = [line for line in said.out.splitlines() if line.startswith("duration ")]
    assert " h " in line
    assert line.endswith(" on one core until stop=passes at the latest")
    assert "duration" not in dtoken().out
    assert sweep.main(["dry-run", *TINY, *long, "seed=0,1,2"]) == 0
    out = capsys.readouterr().out
    assert "duration   these gradients take about 12 h 0 min on one core; visits and measurements add to it" in out
    assert left(0.25, 0.5, 5400.0) == "   ends in 3 h 0 min"
