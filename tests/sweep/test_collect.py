"""Collection against frames made by hand."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dtoken
from dtoken.errors import InputError
from dtoken.report.page import page
from dtoken.report.study import study
from dtoken.sweep.collect import swept, write_results
from dtoken.sweep.runs import find_runs
from hydra_dask.manifest import only_driver
from tests.sweep.made import config, trajectory, write_manifest, write_run

REASON = "diverged after 3 passes; use algorithm.jumps=auto"


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Path]:
    """Two runs with a trajectory, one that failed after its start, one under way, one planned; the driver lives."""
    write_run(tmp_path / "0", config("tvr", tokens=4), trajectory(0.5), overrides=["algorithm=tvr", "seed=0"])
    write_run(tmp_path / "1", config("gd"), trajectory(0.9, 5), overrides=["algorithm=gd", "seed=0"])
    write_run(tmp_path / "2", config("tavr", seed=1), trajectory(2.0, 3), status="failed", failure=REASON)
    write_run(tmp_path / "10", config("tvr", tokens=2), None, status="running")
    write_manifest(
        tmp_path,
        [
            {"folder": "0", "overrides": ["algorithm=tvr", "seed=0"], "status": "done"},
            {"folder": "1", "overrides": ["algorithm=gd", "seed=0"], "status": "done"},
            {"folder": "2", "overrides": ["algorithm=tavr", "seed=1"], "status": "failed", "error": REASON},
            {"folder": "10", "overrides": ["algorithm=tvr", "algorithm.tokens=2"], "status": "running"},
            {"folder": "11", "overrides": ["algorithm=tvr", "+algorithm.tokens=2", "nodes=5"]},
        ],
    )
    with only_driver(tmp_path):
        yield tmp_path


def test_trajectories_are_the_runs_one_below_the_other(sweep: Path) -> None:
    results = dtoken.load(sweep)
    assert results.parameters == ("algorithm", "algorithm.tokens", "nodes", "seed")
    expected = []
    for run, table in (("0", trajectory(0.5)), ("1", trajectory(0.9, 5)), ("2", trajectory(2.0, 3))):
        expected.append(table.assign(run=run))
    rows = pd.concat(expected, ignore_index=True)
    pd.testing.assert_frame_equal(results.trajectories[rows.columns], rows)
    assert results.trajectories.groupby("run").algorithm.first().to_dict() == {"0": "tvr", "1": "gd", "2": "tavr"}


def test_every_run_is_listed_with_its_status(sweep: Path) -> None:
    runs = dtoken.load(sweep).runs.set_index("run")
    assert runs.status.to_dict() == {"0": "done", "1": "done", "2": "failed", "10": "running", "11": "waiting"}
    assert runs.error["2"] == REASON
    assert runs.error.drop("2").isna().all()
    assert runs["algorithm.tokens"].dropna().to_dict() == {"0": 4, "2": 1, "10": 2, "11": 2}
    assert runs.nodes.to_dict() == {"0": 4, "1": 4, "2": 4, "10": 4, "11": 5}
    assert runs["end.suboptimality"]["0"] == 0.5**9


def test_what_ran_when_the_driver_was_lost_waits(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), trajectory(), status="running")
    write_manifest(tmp_path, [{"folder": "0", "overrides": ["seed=0"], "status": "running"}])
    assert dtoken.load(tmp_path).runs.status.tolist() == ["waiting"]
    with only_driver(tmp_path):
        assert dtoken.load(tmp_path).runs.status.tolist() == ["running"]


def test_results_have_every_run(sweep: Path) -> None:
    parquet, text = write_results(find_runs([sweep]), sweep)
    table = pd.read_parquet(parquet)
    assert table.run.tolist() == ["0"] * 10 + ["1"] * 5 + ["2"] * 3 + ["10", "11"]
    assert table.status.iloc[-3:].tolist() == ["failed", "running", "waiting"]
    assert table.suboptimality.iloc[:10].tolist() == trajectory(0.5).suboptimality.tolist()
    assert table.suboptimality.iloc[-2:].isna().all()
    again = pd.read_csv(text, dtype={"run": str})
    pd.testing.assert_frame_equal(again.drop(columns="error"), table.drop(columns="error"), check_dtype=False)
    assert again.error.dropna().to_dict() == table.error.dropna().to_dict() == dict.fromkeys((15, 16, 17), REASON)
    assert not list(sweep.glob(".*partial"))


def test_without_a_manifest_the_folders_are_collected(sweep: Path) -> None:
    (sweep / "manifest.json").unlink()
    runs = dtoken.load(sweep).runs
    assert runs.run.tolist() == ["0", "1", "2", "10"]
    assert runs.status.tolist() == ["done", "done", "failed", "running"]


def test_folders_may_be_nested_and_sweeps_several(tmp_path: Path) -> None:
    for graph in ("ring", "complete"):
        for seed in (0, 1):
            write_run(tmp_path / "one" / graph / f"seed={seed}", config(graph=graph, seed=seed), trajectory())
    write_run(tmp_path / "two" / "0", config(tokens=3), trajectory())
    results = dtoken.load(tmp_path / "one", tmp_path / "two")
    assert dtoken.load([tmp_path / "one", str(tmp_path / "two")]).runs.run.tolist() == results.runs.run.tolist()
    names = ["one/complete/seed=0", "one/complete/seed=1", "one/ring/seed=0", "one/ring/seed=1", "two/0"]
    assert results.runs.run.tolist() == names
    assert results.runs.sweep.tolist() == ["one"] * 4 + ["two"]
    # graph.walk differs only because another graph has another default: it was not swept
    assert results.parameters == ("algorithm", "graph", "algorithm.tokens", "seed")
    assert set(results.summaries) == set(names)


def test_a_single_run_is_a_sweep_of_one(tmp_path: Path) -> None:
    results = dtoken.load(write_run(tmp_path / "alone", config(), trajectory()))
    assert results.runs.run.tolist() == ["alone"]
    assert len(results.trajectories) == 10


def test_the_manifest_knows_what_a_killed_run_could_not_say(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), None, status="running")
    write_run(tmp_path / "1", config(seed=1), trajectory(), status="done")
    write_manifest(
        tmp_path,
        [
            {"folder": "0", "overrides": ["seed=0"], "status": "failed", "error": "its worker was killed 3 times"},
            {"folder": "1", "overrides": ["seed=1"], "status": "running"},
        ],
    )
    runs = dtoken.load(tmp_path).runs
    assert runs.status.tolist() == ["failed", "done"]
    assert runs.error.tolist() == ["its worker was killed 3 times", None]


def test_a_run_refused_before_its_start_has_its_settings(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "0", config("tavr", graph="ring"), None, overrides=["algorithm=tavr", "graph=ring"])
    (folder / "summary.json").unlink()
    (row,) = dtoken.load(tmp_path).runs.to_dict("records")
    assert (row["status"], row["algorithm"], row["graph"]) == ("started", "tavr", "ring")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    one = write_run(tmp_path / "0", config(), trajectory())
    (one / "summary.json").write_text("{")
    two = write_run(tmp_path / "1", config(), trajectory())
    (two / "trajectory.parquet").write_bytes(b"PAR1 cut")
    runs = dtoken.load(tmp_path).runs
    assert runs.status.tolist() == ["damaged", "damaged"]
    assert "summary.json is damaged" in runs.error[0]
    assert "trajectory.parquet is damaged" in runs.error[1]
    assert len(dtoken.load(tmp_path).trajectories) == 0


def test_a_parameter_of_mixed_kinds_is_text(tmp_path: Path) -> None:
    for number, jumps in enumerate((1, "auto", [1, 2])):
        settings = config()
        settings["algorithm"]["jumps"] = jumps
        write_run(tmp_path / str(number), settings, trajectory())
    assert dtoken.load(tmp_path).runs["algorithm.jumps"].tolist() == ["1", "auto", "[1, 2]"]


def test_overrides_are_read_as_hydra_reads_them(tmp_path: Path) -> None:
    words = ["+experiment=paper", "problem=squared", "problem.sigma=1e-3", "data.path='a b'", "hydra.sweep.dir=x"]
    write_manifest(tmp_path, [{"folder": "0", "overrides": words}])
    (run,) = find_runs([tmp_path])
    assert run.given == {"experiment": "paper", "problem.loss": "squared", "problem.sigma": 1e-3, "data.path": "a b"}
    assert swept([run]) == ("algorithm", "experiment", "problem.loss", "problem.sigma", "data.path", "seed")


def test_a_sweep_without_runs_is_empty(tmp_path: Path) -> None:
    (tmp_path / "multirun.yaml").write_text("")
    results = dtoken.load(tmp_path)
    assert (len(results.runs), len(results.trajectories)) == (0, 0)
    assert "suboptimality" in results.trajectories.columns


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: [path / "none"], "none is not a directory"),
        (lambda path: [path], "holds no runs; give the directory of a sweep"),
        (lambda path: [], "no directory was given"),
        (lambda path: [path, path / ".." / path.name], "the same directory was given twice"),
    ],
)
def test_what_is_no_sweep_is_refused(make: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        find_runs(make(tmp_path))  # type: ignore[operator]


def leaves(content: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key in content if isinstance(content, dict) else ():
        yield (*before, key)
        yield from leaves(content[key], (*before, key))


def test_a_damaged_run_does_not_spoil_the_report(tmp_path: Path) -> None:
    """Whatever somebody made of a summary: the page is made, with the run as it is, or shown as damaged."""
    more = {"conditions": {"engine": "local", "threads": 1, "processors": 2, "load": 0.1}}
    for number, algorithm in enumerate(("tvr", "gd")):
        write_run(tmp_path / str(number), config(algorithm), trajectory(), **more)
    file = tmp_path / "0/summary.json"
    good, rng, damaged = file.read_text(), np.random.default_rng(0), 0
    values = [None, "text", 7, -1, [], {}, [None], True, 1e400, {"a": [1]}]
    keys = sorted(leaves(json.loads(good)))
    for key in keys:
        content = json.loads(good)
        inner = content
        for name in key[:-1]:
            inner = inner[name]
        inner[key[-1]] = values[rng.integers(len(values))]
        if rng.random() < 0.2:
            del inner[key[-1]]
        file.write_text(json.dumps(content))
        runs = find_runs([tmp_path])
        assert "gd" in page(study(runs), "title", None, dict, []), key
        write_results(runs, tmp_path)
        damaged += runs[0].status == "damaged"
    assert len(keys) / 4 < damaged < len(keys)


def test_a_trajectory_that_is_not_the_one_of_the_summary(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", config("tvr"), trajectory())
    digest = hashlib.sha256((run / "trajectory.parquet").read_bytes()).hexdigest()
    summary = json.loads((run / "summary.json").read_text()) | {"files": {"trajectory.parquet": digest}}
    (run / "summary.json").write_text(json.dumps(summary))
    assert find_runs([tmp_path])[0].status == "done"
    trajectory(0.4).to_parquet(run / "trajectory.parquet")
    (found,) = find_runs([tmp_path])
    assert found.status == "damaged"
    assert found.error == f"{run / 'trajectory.parquet'} is damaged; delete the folder and run again"


@pytest.mark.parametrize(
    "table",
    [
        trajectory().drop(columns="jumps"),
        trajectory().astype({"objective": str}),
        trajectory().head(0),
        trajectory().assign(wall=[None] * 10),
    ],
    ids=["a column less", "text", "empty", "nulls"],
)
def test_trajectories_of_earlier_versions_are_looked_at(tmp_path: Path, table: pd.DataFrame) -> None:
    table.to_parquet(write_run(tmp_path / "0", config("tvr"), trajectory()) / "trajectory.parquet")
    assert find_runs([tmp_path])[0].status == "damaged"
