"""The event log tells what happened, and replaying it makes it happen again, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoken
from dtoken.errors import InputError, RunError
from dtoken.schedule.log import LogWriter, even_tables
from dtoken.session.result import Result

COLUMNS = ["kind", "node", "sample", "token", "other", "at"]


@pytest.fixture(autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path_factory.getbasetemp() / "stores"))


def run(directory: Path, **more: Any) -> Result:
    settings: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 61, "features": 4},
        "nodes": 5,
        "partition": {"sizes": "keep"},
        "algorithm": {"_target_": "tvr", "tokens": 2, "start": "zero"},  # all gradients are events
        "graph": "ring",
        "sigma": 0.1,
        "stop": {"passes": 8.0},
        "record": {"events": True},
        "directory": directory,
    }
    return dtoken.run(**settings | more)


def test_log_agrees_with_trajectory_and_graph(tmp_path: Path) -> None:
    result = run(tmp_path)
    log, end = pd.read_parquet(tmp_path / "events.parquet"), result.trajectory.iloc[-1]
    assert list(log.columns) == COLUMNS
    assert set(log.kind) == {"local", "visit"}
    local, visit = log[log.kind == "local"], log[log.kind == "visit"]
    assert (len(log), len(visit), len(local)) == (end.event, end.jumps, end.gradients)
    assert (log[["other", "at"]] == -1).all(axis=None)
    assert (local.token == -1).all()
    assert (visit["sample"] == -1).all()
    sizes = np.array([13, 12, 12, 12, 12])
    assert (local["sample"] >= 0).all()
    assert (local["sample"] < sizes[local.node]).all()
    assert len(set(zip(local.node, local["sample"], strict=True))) == 61  # every sample was used
    for token, start in enumerate(result.constants["token_start"]):
        path = np.array([start, *visit[visit.token == token].node])
        assert set(np.diff(path) % 5) == {1, 4}  # a ring: one step to either side


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"graph": "complete", "algorithm": {"_target_": "token", "tokens": 3}},
        {"graph": {"kind": "ring", "walk": "lazy"}, "algorithm": {"_target_": "tvr", "tokens": 2, "jumps": 3}},
        {"graph": "complete", "algorithm": {"_target_": "tavr", "tokens": 2}},
        {"graph": "complete", "algorithm": {"_target_": "tavr", "tokens": 2, "continuized": True}},
        {"graph": "ring", "algorithm": {"_target_": "tvr", "tokens": 2, "continuized": True}},
        {"graph": "star", "algorithm": {"_target_": "tvr", "tokens": 3, "interactions": 0.8}},
        {"graph": "path", "algorithm": {"_target_": "tvr", "tokens": 3, "interactions_anywhere": 0.2}},
        {"graph": "complete", "algorithm": {"_target_": "tvr", "tokens": 2, "sampling": "permuted", "bucket_rows": 3}},
        {"graph": "complete", "algorithm": {"_target_": "sdca", "bucket_rows": 3}},
        {"graph": "ring", "algorithm": {"_target_": "sdca", "sampling": "uniform"}},
        {"graph": "ring", "algorithm": "extra"},
        {"graph": {"kind": "time_varying"}, "partition": {"sizes": "unequal"}},
    ],
    ids=[
        "tvr",
        "token",
        "jumps",
        "tavr",
        "continuized",
        "continuized tvr",
        "meets",
        "meets anywhere",
        "permuted",
        "sdca",
        "sdca, uniform",
        "extra",
        "varying",
    ],
)
def test_replay_gives_the_same_bits_and_the_same_log(settings: dict[str, Any], tmp_path: Path) -> None:
    first = run(tmp_path / "a", **settings)
    log = tmp_path / "a" / "events.parquet"
    again = run(tmp_path / "b", replay=log, seed=99, threads=1, **settings)
    for name in ("theta", "tokens", "nodes"):
        assert np.array_equal(getattr(first, name), getattr(again, name)), name
    pd.testing.assert_frame_equal(
        first.trajectory.drop(columns="wall"), again.trajectory.drop(columns="wall"), check_exact=True
    )
    pd.testing.assert_frame_equal(
        pd.read_parquet(log), pd.read_parquet(tmp_path / "b" / "events.parquet"), check_exact=True
    )


def test_a_replay_measures_at_visits_also_where_its_tables_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a log may end while a token is on its way; what is measured is what the drawn run measured."""
    settings: dict[str, Any] = {
        "graph": {"kind": "ring", "walk": "lazy"},
        "algorithm": {"_target_": "tvr", "tokens": 2, "jumps": 4},
        "record": {"every_passes": None, "every_jumps": 7, "events": True},
    }
    first = run(tmp_path / "a", **settings)
    monkeypatch.setattr("dtoken.schedule.replay.SEGMENT_STEPS", 23)
    again = run(tmp_path / "b", replay=tmp_path / "a" / "events.parquet", **settings)
    assert set(first.trajectory.jumps % 4) == {0}
    pd.testing.assert_frame_equal(
        first.trajectory.drop(columns="wall"), again.trajectory.drop(columns="wall"), check_exact=True
    )


def test_tokens_of_a_log_that_meet_at_a_distance_are_refused_where_they_must_be_together(tmp_path: Path) -> None:
    def settings(key: str) -> dict[str, Any]:
        return {"graph": "ring", "algorithm": {"_target_": "tvr", "tokens": 2, key: 0.5}}

    run(tmp_path / "a", **settings("interactions_anywhere"))
    with pytest.raises(InputError, match=r"is a meeting of tokens at different nodes, as algorithm\.interactions_"):
        run(tmp_path / "b", replay=tmp_path / "a" / "events.parquet", **settings("interactions"))


def test_a_run_ends_where_its_log_ends(tmp_path: Path) -> None:
    run(tmp_path / "a", stop={"passes": 4.6})
    again = run(tmp_path / "b", replay=tmp_path / "a" / "events.parquet", stop={"passes": 100.0})
    assert again.status == "done"
    longer = run(tmp_path / "c", stop={"passes": 4.6})
    assert again.records[-1].event == longer.records[-1].event
    assert np.array_equal(again.tokens, longer.tokens)


def test_a_replay_is_resumed(tmp_path: Path) -> None:
    full = run(tmp_path / "a")
    log = tmp_path / "a" / "events.parquet"
    run(tmp_path / "b", replay=log, stop={"passes": 3.3})
    again = run(tmp_path / "b", replay=log)
    assert np.array_equal(full.nodes, again.nodes)


@pytest.fixture
def edited(tmp_path: Path) -> Any:
    """A log with one entry of its event 7, or of its metadata, changed."""
    run(tmp_path / "original", stop={"passes": 1.0})

    def edit(metadata: bytes | None = None, drop: str | None = None, **values: Any) -> Path:
        table = pq.read_table(tmp_path / "original" / "events.parquet")
        frame = table.to_pandas().astype({"kind": str})
        for column, value in values.items():
            frame.loc[7, column] = value
        if drop:
            frame = frame.drop(columns=drop)
        changed = pa.Table.from_pandas(frame, preserve_index=False)
        changed = changed.replace_schema_metadata({b"dtoken": metadata} if metadata else None)
        pq.write_table(changed, tmp_path / "edited.parquet")
        return tmp_path / "edited.parquet"

    return edit


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "dance"}, "event 7 is of an unknown kind"),
        ({"kind": "local", "node": 5, "sample": 0}, "event 7 is at node 5, but nodes are 0 to 4"),
        ({"kind": "local", "node": 2, "sample": 12}, "event 7 uses sample 12 of a node with 12 rows"),
        ({"kind": "local", "node": 2, "sample": -1}, "event 7 has no sample, but this method uses one"),
        ({"kind": "visit", "node": 2, "sample": -1, "token": 2}, "event 7 has token 2 of 2"),
        ({"kind": "visit", "node": 2, "sample": 3, "token": 1}, "event 7 has a sample, but this method uses none"),
        ({"kind": "meet", "sample": -1, "token": 0, "other": 1}, "event 7 is of the kind meet, which this method does"),
    ],
)
def test_events_that_cannot_happen_are_refused(
    change: dict[str, Any], sentence: str, edited: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        run(tmp_path / "b", replay=edited(**change))
    assert f"edited.parquet does not fit: {sentence}" in str(error.value)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metadata": b'{"n": 6}'}, "was recorded with nodes=6, this run has nodes=5; use the same"),
        ({"metadata": b'{"tokens": 1}'}, "was recorded with algorithm.tokens=1, this run has algorithm.tokens=2"),
        ({"drop": "sample"}, "is not an event log: it has no column sample"),
    ],
)
def test_logs_of_other_runs_are_refused(change: dict[str, Any], sentence: str, edited: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        run(tmp_path / "b", replay=edited(**change))
    assert sentence in str(error.value)
    assert not (tmp_path / "b").exists()


def test_a_log_of_another_tool_needs_no_metadata(edited: Any, tmp_path: Path) -> None:
    original = Result.load(tmp_path / "original") if (tmp_path / "original").exists() else None
    again = run(tmp_path / "b", replay=edited(), stop={"passes": 1.0})
    original = Result.load(tmp_path / "original")
    assert np.array_equal(original.nodes, again.nodes)


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("local 3")
    with pytest.raises(InputError, match="log is not an event log: it is not a parquet file"):
        run(tmp_path / "b", replay=tmp_path / "log")


def test_a_log_with_a_changed_byte_is_refused_or_is_the_same(tmp_path: Path) -> None:
    expected = run(tmp_path / "a")
    log = (tmp_path / "a/events.parquet").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for trial, place in enumerate(rng.integers(0, len(log), 60).tolist()):
        changed = bytearray(log)
        changed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "log").write_bytes(changed)
        try:
            found = run(tmp_path / f"b{trial}", replay=tmp_path / "log", record={"events": False})
        except InputError:
            refused += 1
        else:
            assert found.tokens.tobytes() == expected.tokens.tobytes()
    assert refused > 30


def test_a_log_that_lost_its_parts_is_noticed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, {}, lambda events: np.empty(0, np.int64), continuized=False)
    with pytest.raises(RunError, match="ends at event 0, its checkpoint at 10; delete both"):
        writer.begin(10)


def test_even_tables_cut_anywhere(tmp_path: Path) -> None:
    whole = pa.table({name: pa.array(np.arange(23)) for name in COLUMNS})
    pq.write_table(whole.slice(0, 9), tmp_path / "1", row_group_size=4)
    pq.write_table(whole.slice(9), tmp_path / "2", row_group_size=3)
    for first, last, size in ((0, 23, 5), (3, 20, 6), (9, 10, 4), (0, 23, 100)):
        tables = list(even_tables([tmp_path / "1", tmp_path / "2"], size, first, last))
        assert [row for table in tables for row in table["node"].to_pylist()] == list(range(first, last))
        assert all(table.num_rows == size for table in tables[:-1])
