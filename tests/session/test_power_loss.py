"""The power fails at every step that reaches the disk: what is there then is whole, and the work goes on from it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import dtoken
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.data.verify import verify
from dtoken.engine.loop.checkpoint import load_checkpoint
from dtoken.session.files import DONE, load_summary
from hydra_dask.manifest import Job, Manifest, read_manifest, read_record, write_record
from tests.session.power import Disk, watched

SETTINGS: dict[str, Any] = {
    "data": {"kind": "synthetic", "rows": 60, "features": 4},
    "nodes": 4,
    "algorithm": {"_target_": "tvr", "tokens": 2},
    "sigma": 0.1,
    "stop": {"passes": None, "events": 1500},
    "record": {"events": True},
    "checkpoint": {"every": 2},
    "threads": 1,
}
AT_ONCE = pytest.mark.parametrize("at_once", [False, True], ids=["file by file", "at once"])


@AT_ONCE
def test_a_run_goes_on_from_whatever_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    expected = dtoken.run(**SETTINGS, directory=tmp_path / "whole")
    root, copy = tmp_path / "run", tmp_path / "left"
    root.mkdir()
    events, states, kept = -1, [], []

    def failed(disk: Disk) -> None:
        """Nothing that is there is half there, and no checkpoint is lost that was there a moment ago."""
        nonlocal events
        for early in (False, True):
            disk.left(copy, early)
            summary, checkpoint = load_summary(copy), load_checkpoint(copy)
            reached = checkpoint[0].clock.events if checkpoint else -1
            assert reached >= events
            if summary is not None and summary["status"] == DONE:
                assert dtoken.Result.load(copy).tokens.tobytes() == expected.tokens.tobytes()
            state = (early, reached, summary and summary["status"])
            if state not in states:
                states.append(state)
                kept.append(shutil.copytree(copy, tmp_path / f"kept-{len(kept)}"))
        events = reached if not early else events

    with watched(root, monkeypatch, failed, at_once):
        dtoken.run(**SETTINGS, directory=root)
    assert len(kept) > 6
    for directory in kept:
        found = dtoken.run(**SETTINGS, directory=directory)
        assert found.tokens.tobytes() == expected.tokens.tobytes()
        log = (directory / "events.parquet").read_bytes()
        assert log == (tmp_path / "whole/events.parquet").read_bytes()


@AT_ONCE
def test_a_store_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    root, copy, seen = tmp_path / "stores", tmp_path / "left", set()
    root.mkdir()

    def failed(disk: Disk) -> None:
        for early in (False, True):
            disk.left(copy, early)
            stores = list(copy.glob("*.zarr"))
            assert [fault for store in stores for fault in verify(ShardStore.open(store))] == []
            seen.add((early, len(stores)))

    with watched(root, monkeypatch, failed, at_once):
        ingest(Synthetic(rows=30, features=3), Partition(2), root=root)
    assert seen == {(False, 0), (False, 1), (True, 0), (True, 1)}


@AT_ONCE
def test_records_vouch_for_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """As a worker does: the run, then its record, then the manifest."""
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    root, copy, job = tmp_path / "sweep", tmp_path / "left", Job("id", 0, "0", [])
    (root / ".jobs").mkdir(parents=True)
    expected = dtoken.run(**SETTINGS, directory=tmp_path / "whole")
    manifest, told = Manifest(root, jobs=[job]), set()
    manifest.save()

    def failed(disk: Disk) -> None:
        for early in (False, True):
            disk.left(copy, early)
            found = read_manifest(copy)
            assert found is not None
            record = read_record(copy, job) or {"status": None}
            told.add((record["status"], found.jobs[0].status))
            if DONE in (record["status"], found.jobs[0].status):
                assert dtoken.Result.load(copy / "0").tokens.tobytes() == expected.tokens.tobytes()

    with watched(root, monkeypatch, failed, at_once):
        dtoken.run(**SETTINGS, directory=root / "0")
        write_record(root, 0, {"id": "id", "status": DONE}, durable=True)
        job.status = DONE
        manifest.save()
    assert told == {(None, "waiting"), (DONE, "waiting"), (DONE, DONE)}
