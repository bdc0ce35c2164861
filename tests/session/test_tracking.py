"""Trackers: who is told of every record and of the result."""

import json
from pathlib import Path
from typing import Any

import pytest

import dtoken
from dtoken.errors import InputError
from dtoken.session.mlflow import MLflow
from dtoken.session.objective import objective
from dtoken.session.tracking import TRACKERS, JsonLines, Tracker

PROBLEM: dict[str, Any] = {"data": {"kind": "synthetic", "rows": 60, "features": 4}, "nodes": 4, "sigma": 0.1}


def test_a_stream_has_every_record_and_the_end(tmp_path: Path) -> None:
    tracker = JsonLines()
    tracker.on_job_start()
    result = dtoken.run(**PROBLEM, stop={"passes": 5}, directory=tmp_path)
    tracker.on_job_end()
    assert tracker not in TRACKERS
    begin, *records, end = [json.loads(line) for line in (tmp_path / "stream.jsonl").read_text().splitlines()]
    assert (begin["what"], begin["events"], begin["config"]["nodes"]) == ("begin", 0, 4)
    assert [line["suboptimality"] for line in records] == [record.suboptimality for record in result.records]
    assert (end["what"], end["status"], end["stopped"]) == ("end", "done", "passes")
    assert end["to_accuracy"] == result.summary["to_accuracy"]
    dtoken.run(**PROBLEM, stop={"passes": 5}, directory=tmp_path / "other")
    assert not (tmp_path / "other/stream.jsonl").exists()


@pytest.mark.filterwarnings("ignore")  # of MLflow's own
def test_runs_lie_in_a_file_store_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")  # the tracker sets it; monkeypatch takes that back
    place = (tmp_path / "mlruns").as_uri()
    tracker = MLflow(place, "mine")
    tracker.on_job_start()
    try:
        result = dtoken.run(**PROBLEM, stop={"passes": 60}, record={"accuracies": [1e-3]}, directory=tmp_path / "run")
    finally:
        tracker.on_job_end()
    client = MlflowClient(place)
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert (run.info.status, run.data.tags["stopped"]) == ("FINISHED", "passes")
    assert (run.data.params["problem.sigma"], run.data.params["nodes"]) == ("0.1", "4")
    logged = client.get_metric_history(run.info.run_id, "suboptimality")
    assert [(each.step, each.value) for each in logged] == [(r.event, r.suboptimality) for r in result.records]
    assert run.data.metrics["jumps to 0.001"] == objective("jumps to 1e-3", result)


def test_a_tracker_that_cannot_begin_hides_nothing() -> None:
    told = []

    class Broken(Tracker):
        def begin(self, *_: Any) -> None:
            raise OSError("no server there")

        def end(self, result: Any) -> None:
            told.append(result)

    tracker = Broken()
    tracker.on_job_start()
    try:
        with pytest.raises(OSError, match="no server there"):
            dtoken.run(**PROBLEM, stop={"passes": 1})
    finally:
        tracker.on_job_end()
    assert not told


def test_mlflow_that_is_not_installed_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtoken.session.mlflow.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs mlflow-skinny; install it, or dtoken with its extra \[mlflow\]"):
        MLflow("mlruns")


def test_what_a_run_returns() -> None:
    result = dtoken.run(**PROBLEM, stop={"passes": 60})
    assert objective("suboptimality", result) == result.records[-1].suboptimality
    assert objective("passes to 1e-2", result) == result.to_accuracy(1e-2)["stays_below"]["passes"]
    assert objective("passes to 1e-9", dtoken.run(**PROBLEM, stop={"passes": 3})) == float("inf")
