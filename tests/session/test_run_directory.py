"""The files of a run say what happened, and a run that is taken up again ends as if it had never stopped."""

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

import dtoken
from dtoken.engine.loop.recorder import COLUMNS
from dtoken.errors import InputError
from dtoken.session.result import Result

FILES = ("trajectory.parquet", "result.zarr", "summary.json")


@pytest.fixture(autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path_factory.getbasetemp() / "stores"))


def run(directory: Path | None = None, passes: float = 12.0, **more: Any) -> Result:
    settings: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 60, "features": 4},
        "nodes": 4,
        "algorithm": {"_target_": "tvr", "tokens": 2, "start": "zero"},
        "sigma": 0.1,
        "stop": {"passes": passes},
        "checkpoint": {"every": 2},
        "directory": directory,
    }
    return dtoken.run(**settings | more)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTOKEN_STORE", str(tmp_path_factory.getbasetemp() / "stores"))
        run(folder, record={"accuracies": [1.0, 1e-3, 1e-30], "events": True})
    return folder


def summary_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


def test_trajectory_has_the_columns_of_the_contract(finished: Path) -> None:
    table = pd.read_parquet(finished / "trajectory.parquet")
    assert tuple(table.columns) == COLUMNS
    assert table.passes.tolist() == [float(passes) for passes in range(13)]
    assert (table.gradients == 60 * table.passes).all()
    assert table.event.is_monotonic_increasing
    assert table.suboptimality.iloc[-1] < 1e-3 * table.suboptimality.iloc[0]


def test_result_is_what_the_last_record_measured(finished: Path) -> None:
    """F by numpy from the shards, at the models of result.zarr."""
    group = zarr.open_group(finished / "result.zarr", mode="r")
    tokens, nodes, theta = (np.asarray(group[name]) for name in ("tokens", "nodes", "theta"))
    assert (tokens.shape, nodes.shape) == ((2, 4), (4, 4))
    assert np.array_equal(theta, tokens.mean(axis=0))
    store = zarr.open_group(summary_of(finished)["data"]["path"], mode="r")
    values = []
    for model in tokens:
        total = 0.0
        for node in range(4):
            own = slice(15 * node, 15 * node + 15)
            X, y = np.asarray(store["packs/0/X/data"]).reshape(60, 4)[own], np.asarray(store["packs/0/y"])[own]
            total += np.logaddexp(0, -y * (X @ model)).mean() + 0.05 * model @ model
        values.append(total)
    last = pd.read_parquet(finished / "trajectory.parquet").iloc[-1]
    assert last.objective == pytest.approx(np.mean(values), rel=1e-13)


def test_summary_says_what_it_took(finished: Path) -> None:
    summary, table = summary_of(finished), pd.read_parquet(finished / "trajectory.parquet")
    assert (summary["status"], summary["failure"]) == ("done", None)
    below = table.suboptimality <= 1e-3
    first, stays = table[below].iloc[0], table[below & below[::-1].cummin()[::-1]].iloc[0]
    for name, row in (("reached", first), ("stays_below", stays)):
        taken = summary["to_accuracy"]["0.001"][name]
        assert taken["events"] == row.event
        for cost in ("jumps", "messages", "gradients", "passes", "time", "wall"):
            assert taken[cost] == row[cost]
    assert summary["to_accuracy"]["1e-30"] == {"reached": None, "stays_below": None}
    assert Result.load(finished).to_accuracy(1e-3) == summary["to_accuracy"]["0.001"]
    assert summary["end"] == {name: table[name].iloc[-1] for name in COLUMNS}


def test_summary_says_under_which_conditions_seconds_were_counted(finished: Path) -> None:
    summary = summary_of(finished)
    conditions = summary["conditions"]
    assert conditions.pop("load") >= 0
    threads = summary["engine"]["threads"]
    assert conditions == {"engine": "local", "threads": threads, "processors": os.cpu_count()}


def test_constants_are_those_of_the_paper(finished: Path) -> None:
    """Section 3 of the specification, from kappa on."""
    c = summary_of(finished)["constants"]
    n, K, sigma = 4, 2, 0.1
    assert c["sigma_t"] == pytest.approx(n * sigma / (n + K), rel=1e-15)
    assert c["kappa"] == pytest.approx(1 + c["L_b"] / c["sigma_t"], rel=1e-15)
    assert c["alpha"] == pytest.approx(2 * K / (c["sigma_t"] * c["kappa"]), rel=1e-15)
    assert c["p_comm"] + c["p_comp"] == pytest.approx(1, rel=1e-15)
    assert c["rho_comm"] == pytest.approx(c["eta"] * K * n / (c["p_comm"] * c["sigma_t"]), rel=1e-13)
    assert c["token_start"] == [0, 2]


def test_rates_are_proved_or_measured(finished: Path) -> None:
    summary, table = summary_of(finished), pd.read_parquet(finished / "trajectory.parquet")
    c = summary["constants"]
    assert summary["paper_rate"] == pytest.approx(c["eta"] * c["alpha"] / 2)
    assert summary["predicted_rate"] < summary["paper_rate"]
    slope = np.polyfit(table.event, np.log(table.suboptimality), 1)[0]
    assert summary["measured_rate"] == pytest.approx(-np.expm1(slope))


def test_provenance_tells_where_it_comes_from(finished: Path) -> None:
    summary = summary_of(finished)
    found = summary["provenance"]
    assert found["dtoken"] == dtoken.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["data"] == Path(summary["data"]["path"]).name
    assert found["started"] <= found["ended"]
    assert found["seeds"] == {"schedule": found["seed"], "data": 0, "partition": 0}
    assert found["host"] == platform.node()
    assert found["command"] == sys.argv
    assert {"git", "batch_job"} <= set(found)
    assert summary["graph"]["spectral_gap"] == 1.0
    assert summary["config"]["algorithm"] == {**summary["config"]["algorithm"], "tokens": 2}


def same(one: Path, other: Path) -> None:
    """Equal bits but for the times on the wall."""
    tables = [pd.read_parquet(folder / "trajectory.parquet").drop(columns="wall") for folder in (one, other)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    groups = [zarr.open_group(folder / "result.zarr", mode="r") for folder in (one, other)]
    for name in ("tokens", "nodes", "theta"):
        assert np.array_equal(*(np.asarray(group[name]) for group in groups)), name
    logs = [folder / "events.parquet" for folder in (one, other)]
    assert logs[0].exists() == logs[1].exists()
    if logs[0].exists():
        pd.testing.assert_frame_equal(*map(pd.read_parquet, logs), check_exact=True)
        assert not list(other.glob(".events*"))


EVENTS = {"accuracies": [1.0, 1e-3, 1e-30], "events": True}


@pytest.mark.parametrize("stop", [{"passes": 7.3}, {"passes": 8.0}, {"jumps": 50}, {"events": 333}])
def test_a_later_stop_continues(stop: dict[str, float], finished: Path, tmp_path: Path) -> None:
    run(tmp_path, record=EVENTS, stop={"passes": None, **stop})
    run(tmp_path, record=EVENTS, threads=2)
    same(finished, tmp_path)


def test_a_killed_run_continues(finished: Path, tmp_path: Path, run_child: Any) -> None:
    code = """
import os, signal
import dtoken, dtoken.engine.loop.run as engine
os.environ["DTOKEN_STORE"] = stores
save, saved = engine.save_checkpoint, []
def save_and_die(*arguments):
    save(*arguments)
    saved.append(1)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
engine.save_checkpoint = save_and_die
algorithm = {"_target_": "tvr", "tokens": 2, "start": "zero"}
dtoken.run({"kind": "synthetic", "rows": 60, "features": 4}, 4, algorithm, sigma=0.1,
           stop={"passes": 12.0}, checkpoint={"every": 2}, directory=directory, record=record)
"""
    stores = os.environ["DTOKEN_STORE"]
    assert run_child(code, stores=stores, directory=str(tmp_path), record=EVENTS) == -9
    assert summary_of(tmp_path)["status"] == "running"
    assert not (tmp_path / "trajectory.parquet").exists()
    run(tmp_path, record=EVENTS)
    same(finished, tmp_path)


def test_a_run_that_stops_above_its_start_is_diverged_and_continues_with_a_later_stop(tmp_path: Path) -> None:
    """Long steps make the first passes rise; where exactly, the trajectory of the whole run tells."""
    more = {"sigma": 1e-4, "passes": 60.0}
    whole = run(tmp_path / "whole", **more)
    gap = whole.trajectory.suboptimality.to_numpy()
    above = int(np.flatnonzero(gap > gap[0])[0])
    assert (whole.status, gap[-1] < gap[0] < gap[above]) == ("done", True)
    short = run(tmp_path / "short", **more | {"passes": float(above)})
    assert short.status == "diverged"
    assert short.summary["failure"] == (
        f"diverged: F - F* is {gap[above]:.3g} at the end and was {gap[0]:.3g} at the start; "
        "a later stop continues the run"
    )
    assert run(tmp_path / "short", **more | {"passes": float(above)}).trajectory.equals(short.trajectory)
    longer = run(tmp_path / "short", **more)
    assert longer.status == "done"
    assert longer.trajectory.drop(columns="wall").equals(whole.trajectory.drop(columns="wall"))


def test_an_interrupted_run_says_so_and_continues(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtoken.engine.local import LocalEngine

    happen, calls = LocalEngine.run, []

    def interrupted(self: LocalEngine, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        happen(self, *arguments)

    monkeypatch.setattr(LocalEngine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, record=EVENTS)
    assert summary_of(tmp_path)["status"] == "interrupted"
    monkeypatch.undo()
    run(tmp_path, record=EVENTS)
    same(finished, tmp_path)


def test_a_finished_run_is_read_back(finished: Path) -> None:
    before = (finished / "summary.json").stat().st_mtime_ns
    again = run(finished, record=EVENTS)
    assert (finished / "summary.json").stat().st_mtime_ns == before
    loaded = Result.load(finished)
    assert np.array_equal(again.tokens, loaded.tokens)
    assert again.records == loaded.records


def test_other_settings_are_refused(finished: Path) -> None:
    with pytest.raises(InputError, match=r"holds a run with other settings: seed=0 \(now 1\); use another directory"):
        run(finished, seed=1, record=EVENTS)


def test_a_folder_without_a_run_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not hold a finished run: it has no summary.json"):
        Result.load(tmp_path)


def test_a_damaged_summary_is_named(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(InputError, match=r"summary.json is damaged; delete it"):
        run(tmp_path)


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(None)
    assert (result.status, result.directory) == ("done", None)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"record.events=true needs a directory"):
        run(None, record=EVENTS)


def test_result_is_typed_and_plots(tmp_path: Path) -> None:
    result = run(None)
    assert tuple(result.trajectory.columns) == COLUMNS
    assert result.theta.shape == (4,)
    assert result.constants["kappa"] > 1
    ax = result.plot("jumps")
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "communications (jumps)"
    (line,) = ax.get_lines()
    positive = result.trajectory[result.trajectory.suboptimality > 0]
    assert np.array_equal(np.asarray(line.get_xdata()), positive.jumps.to_numpy())
    with pytest.raises(InputError, match="x=joy is not a column to plot against"):
        result.plot("joy")


def test_more_nodes_than_memory_holds_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    data = {"kind": "synthetic", "rows": 10**9, "features": 1000, "density": 0.01, "store": str(tmp_path / "store")}
    with pytest.raises(InputError, match=r"nodes=100000000 .* take 800 GB, and this machine has .*; use nodes<=\d+"):
        dtoken.run(data=data, nodes=10**8)
    assert not (tmp_path / "store").exists()


def test_summaries_of_many_tokens_have_quantiles() -> None:
    data, tokens = {"kind": "synthetic", "rows": 2400, "features": 2}, {"_target_": "tvr", "tokens": 1200}
    stop = {"events": 100, "passes": None}
    result = dtoken.run(data=data, nodes=1200, algorithm=tokens, graph="star", stop=stop, sigma=0.1)
    start = result.summary["constants"]["token_start"]
    assert start == {"entries": 1200, "quantiles": {"0": 0, "0.25": 299.75, "0.5": 599.5, "0.75": 899.25, "1": 1199}}
    assert set(result.summary["constants"]["rho_comm"]) == {"entries", "quantiles"}
