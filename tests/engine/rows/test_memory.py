"""Budgets: what is needed, what is refused, and what a run with a budget leaves."""

import json
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dask.utils import parse_bytes

import dtoken
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.gd import GD
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.algorithms.walkman import Walkman
from dtoken.cli.dry_run import dry_run
from dtoken.config.settings import make_settings
from dtoken.data.chunks import DamagedStore
from dtoken.data.row_files import ENTRY_BYTES
from dtoken.engine.rows import memory
from dtoken.engine.rows.memory import MemoryNeed, memory_need, parse_memory
from dtoken.engine.settings import LocalSettings
from dtoken.errors import InputError
from dtoken.session.memory_estimate import memory_estimate, memory_line, memory_text
from dtoken.session.prepare import check_run
from dtoken.sweep.estimate import estimate
from tests.waiting import until

MB = 10**6


@pytest.fixture
def tiny_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems of a test fit into what is set aside for buffers; without it, budgets matter to them."""
    monkeypatch.setattr(memory, "BUFFERS", 0)
    monkeypatch.setattr(memory, "LEAST_ENTRIES", 60)


def paper_size(nodes: int = 500, **changes: Any) -> MemoryNeed:
    return memory_need(TVR(tokens=4, **changes), nodes, 47_236, [400] * nodes, [29_000] * nodes)


def test_the_state_is_that_of_the_method() -> None:
    need = paper_size()
    theta, margins, copies = (500 + 4) * 47_236 * 8, 2 * 200_000 * 8, (500 + 8) * 47_236 * 8
    assert need.state == theta + margins + copies
    assert need.tables == 200_000 * (41 + 16)
    assert need.graph == 240 * 500
    assert need.everything == need.state + need.tables + need.graph + 16 * MB + 12 * 29_000 * 500
    assert (need.rows, need.nonzeros, need.largest) == (200_000, 14_500_000, 0)


def test_the_graph_counts(tmp_path: Path) -> None:
    """Two jumps an edge, on every host."""
    data = {"kind": "synthetic", "rows": 3000, "store": tmp_path}
    for options in ({}, {"engine": "dask", "cluster": {"kind": "local", "workers": 2}}):
        need = memory_estimate(make_settings(data=data, nodes=1000, graph="ring", **options))
        assert need is not None
        assert need.graph == 17 * 2 * 1000 + 240 * 1000
        assert need.fixed == need.state + need.tables + need.graph + 16 * MB


def test_many_nodes_stay_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that Python's allocators hand out in a run, beside what the same run takes with few nodes."""
    monkeypatch.setattr(memory, "BUFFERS", 4 * MB)
    monkeypatch.setattr(memory, "LEAST_ENTRIES", 60)

    def peak(nodes: int) -> tuple[int, int]:
        options: dict[str, Any] = {
            "data": {"kind": "synthetic", "rows": 2 * nodes, "features": 4, "density": 0.5, "store": tmp_path},
            "nodes": nodes,
            "graph": {"kind": "random_regular", "degree": 10},
            "algorithm": {"_target_": "tvr", "tokens": 10, "smoothness": "theory", "start": "zero"},
            "stop": {"events": 50_000, "passes": None},
            "record": {"every_passes": None, "sample": 1000, "tokens": 5, "exact_ends": False},
        }
        need = memory_estimate(make_settings(**options))
        assert need is not None
        tracemalloc.start()
        dtoken.run(**options, engine={"memory": need.least})
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found, need.least

    for nodes in (100, 30_000):
        peak(nodes)  # makes the data, compiles, imports
    (few, _), (many, budget) = peak(100), peak(30_000)
    assert budget / 3 < many - few < budget


def test_steps_on_whole_nodes_need_two_of_them() -> None:
    need = memory_need(Walkman(), 3, 10, [100] * 3, [300_000, 900_000, 100])
    assert need.least - need.fixed == 12 * 1_200_100  # two of the largest are more than there is
    need = memory_need(Walkman(), 3, 10, [100] * 3, [300_000, 400_000, 10**6])
    assert need.least - need.fixed == 12 * 1_700_000


@pytest.mark.parametrize("method", [Token(tokens=4, block_rows=50), GD(block_rows=50), EXTRA(block_rows=50)])
def test_steps_in_blocks_need_two_of_them(method: Any) -> None:
    need = memory_need(method, 3, 10, [1000] * 3, [300_000, 400_000, 10**7])
    assert need.least - need.fixed == 12 * 2 * 50 * 10_000


def test_a_budget_leaves_room_for_rows() -> None:
    need = paper_size(20)
    assert need.room(None) is None
    assert need.room(need.everything) is None
    room = need.room(need.everything - 1)
    assert room is not None
    assert room.entries == need.nonzeros - 1
    room = need.room(need.least, read_ahead=False)
    assert room is not None
    assert (room.entries, room.read_ahead) == (memory.LEAST_ENTRIES, False)


def test_too_small_a_budget_is_refused_with_the_arithmetic() -> None:
    need = paper_size()
    with pytest.raises(InputError) as refused:
        need.room(200 * MB)
    assert str(refused.value) == (
        "The state of 500 nodes with 47,236 features and 200,000 rows needs 386 MB, the tables of the rows 11 MB, "
        "the graph and its nodes 0.12 MB, buffers 16 MB and the rows of two steps 3 MB: 416 MB of the 200 MB budget. "
        "Use engine.memory>=458MB, or fewer nodes"
    )


def test_remedies_are_those_that_help() -> None:
    def remedies(need: MemoryNeed, budget: int, workers: bool = False) -> str:
        return need.refusal(budget, workers).partition("Use engine.memory>=")[2].partition("MB")[2]

    need = paper_size()
    assert remedies(need, 200 * MB, workers=True) == ", fewer nodes, or more workers"
    assert remedies(need, 10 * MB, workers=True) == ""  # less than the buffers
    assert remedies(paper_size(20, block_rows=400), need.least) == ", or fewer nodes"
    blocks = memory_need(TVR(block_rows=3000), 20, 47_236, [3000] * 20, [219_000] * 20)
    assert remedies(blocks, blocks.least - MB) == ", or smaller blocks"
    nodes = memory_need(Walkman(), 2, 10, [10_000] * 2, [10**6] * 2)
    assert remedies(nodes, nodes.least - MB) == ", more nodes, or a method that draws samples"


def test_a_block_has_at_most_the_rows_of_a_node() -> None:
    whole, more = (memory_need(TVR(block_rows=rows), 2, 10, [3000, 100], [219_000, 300]) for rows in (3000, 10**5))
    assert whole.largest == more.largest == 219_000


def test_a_node_of_which_nothing_is_known_is_not_estimated(tmp_path: Path) -> None:
    settings = make_settings(data={"kind": "svmlight", "path": tmp_path / "a.svm", "store": tmp_path})
    assert memory_text(settings) == "unknown until the data are ingested"
    (tmp_path / "a.svm").write_text("+1 1:1\n-1 2:1\n")
    assert memory_estimate(settings) is None
    assert memory_text(settings) == "unknown until the data are ingested"


def test_budgets_of_workers_are_checked_before_the_run(tmp_path: Path) -> None:
    data = {"kind": "rcv1_like", "rows": 200_000, "store": tmp_path}
    options: dict[str, Any] = {"data": data, "nodes": 500, "engine": "dask"}
    little = {"kind": "local", "workers": 2, "memory": "300MB"}
    with pytest.raises(InputError) as refused:
        check_run(make_settings(**options, cluster=little))
    assert str(refused.value) == (
        "cluster.memory=300MB is too little for a worker: Python and its libraries take 250 MB, and 60% is for its "
        "nodes, which need 217 MB at least. Use cluster.memory>=607MB"
    )
    check_run(make_settings(**options, cluster=little | {"memory": "607MB"}))
    with pytest.raises(InputError, match=r"Use cluster\.memory>=607MB, or engine\.memory=250MB"):
        check_run(make_settings(**options, cluster=little | {"memory": "500MB"}))
    check_run(
        make_settings(**options | {"engine": {"kind": "dask", "memory": "250MB"}}, cluster=little | {"memory": "500MB"})
    )
    with pytest.raises(InputError, match=r"cluster\.memory=lots is not a size"):
        make_settings(**options, cluster=little | {"memory": "lots"})
    with pytest.raises(InputError, match=r"of the 1 MB budget"):
        check_run(make_settings(**options | {"engine": {"kind": "dask", "memory": "1MB"}}))
    check_run(make_settings(**options, cluster={"kind": "local", "workers": 2, "memory": "1GB"}))


@pytest.mark.parametrize(("text", "size"), [("300MB", 300 * MB), ("2 GiB", 2 * 2**30), (5000, 5000), (None, None)])
def test_sizes(text: str | int | None, size: int | None) -> None:
    assert parse_memory("engine.memory", text) == size


@pytest.mark.parametrize("text", ["300MB", "2 GiB", "1.5kB", "7", "12b", "3e8", "1e3 MB", "0.5TiB", "4k", "1.5 pb"])
def test_sizes_are_read_as_dask_reads_them(text: str) -> None:
    assert parse_memory("engine.memory", text) == parse_bytes(text)


@pytest.mark.parametrize("text", ["much", "3iB", "1e400MB", "-3MB", 0, "MB3"])
def test_what_is_not_a_size(text: str | int) -> None:
    with pytest.raises(InputError, match=r"engine\.memory="):
        make_settings(engine={"kind": "local", "memory": text})


def test_the_estimate_needs_no_data(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "data": {"kind": "rcv1_like", "rows": 200_000, "store": tmp_path},
        "nodes": 500,
        "algorithm": {"_target_": "tvr", "tokens": 4},
    }
    need = memory_estimate(make_settings(**options, engine={"memory": "1GB"}))
    assert need is not None
    assert need.state == paper_size().state
    assert need.nonzeros == 500 * 400 * 73
    workers = memory_estimate(make_settings(**options, engine="dask", cluster={"kind": "local", "workers": 4}))
    assert workers is not None
    assert workers.nodes == 125
    assert not list(tmp_path.iterdir())


def run(folder: Path, **options: Any) -> Any:
    data = {"kind": "synthetic", "rows": 300, "features": 12, "store": folder / "stores"}
    return dtoken.run(data=data, nodes=3, stop={"passes": 6}, record={"every_passes": 1}, **options)


def test_a_run_leaves_its_memory(tmp_path: Path, tiny_buffers: None) -> None:
    expected = run(tmp_path)
    settings = make_settings(
        data={"kind": "synthetic", "rows": 300, "features": 12, "store": tmp_path / "stores"}, nodes=3
    )
    need = memory_estimate(settings)
    assert need is not None
    budget = need.least
    found = run(tmp_path, engine={"memory": budget, "threads": 2}, directory=tmp_path / "run")
    np.testing.assert_array_equal(expected.nodes, found.nodes)
    assert expected.trajectory.objective.tolist() == found.trajectory.objective.tolist()
    frame = pd.read_parquet(tmp_path / "run" / "memory.parquet")
    assert list(frame.columns) == ["wall", "resident", "budget"]
    assert (frame.budget == budget).all()
    assert (frame.resident > 10 * MB).all()
    assert frame.wall.is_monotonic_increasing
    line = memory_line(make_settings(engine={"memory": budget}), need)
    assert line is not None
    assert "at a time: a pass reads about 0.1 MB in stretches of 1 rows" in line


def test_memory_is_noted_from_the_start(tmp_path: Path, tiny_buffers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there only while the run is prepared is in the notes."""
    from dtoken.session import memory_samples
    from dtoken.session import prepare as preparation

    monkeypatch.setattr(memory_samples, "EVERY", 0.005)
    optimum, take = preparation.prepare, memory_samples.MemorySamples._take
    taken: list[object] = []

    def count(self: Any) -> None:
        take(self)
        taken.append(self)

    def with_ballast(*arguments: Any) -> Any:
        ballast, before = np.ones(40_000_000), len(taken)
        until(lambda: len(taken) > before + 1)  # the first one may have begun earlier
        found = optimum(*arguments)
        del ballast
        return found

    monkeypatch.setattr(memory_samples.MemorySamples, "_take", count)
    monkeypatch.setattr(preparation, "prepare", with_ballast)
    run(tmp_path, engine={"memory": 10**6}, directory=tmp_path / "run")
    resident = pd.read_parquet(tmp_path / "run" / "memory.parquet").resident
    assert resident.max() > resident.iloc[-1] + 200 * MB


def test_a_peak_is_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from dtoken.session import memory_samples

    monkeypatch.setattr(memory_samples, "EVERY", 0.001)
    monkeypatch.setattr(memory_samples, "MOST", 8)
    sizes = iter([1, 2, 900, *range(3, 10**6)])
    monkeypatch.setattr(memory_samples.MemorySamples, "_take", lambda self: self.taken.append((0.0, next(sizes))))
    with memory_samples.MemorySamples() as samples:
        until(lambda: samples._every > 4 * memory_samples.EVERY)  # some were dropped three times
    assert len(samples.taken) <= 10
    assert max(size for _, size in samples.taken) == 900


def test_a_budget_that_is_too_small_is_refused_before_any_work(tmp_path: Path, tiny_buffers: None) -> None:
    with pytest.raises(InputError, match=r"of the 0.1 MB budget\. Use engine\.memory>="):
        run(tmp_path, engine={"memory": 1000}, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").iterdir())
    assert not list((tmp_path / "stores").glob("*.facts"))  # no constants, no optimum


@pytest.mark.parametrize("seed", range(3))
def test_damage_keeps_the_checkpoint_and_a_mended_run_goes_on(
    tmp_path: Path, tiny_buffers: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    expected, chance = run(tmp_path), random.Random(seed)
    damaged, after = f"packs/0/X/{chance.choice(['data', 'indices'])}/c/0", chance.randint(2, 5)
    file = next((tmp_path / "stores").glob("*.zarr")) / damaged
    content = file.read_bytes()
    records = 0
    from dtoken.engine.local import LocalEngine

    measure = LocalEngine.measure

    def measure_and_damage(self: Any, *arguments: Any) -> Any:
        nonlocal records
        found = measure(self, *arguments)
        records += 1
        if records == after:
            file.write_bytes(bytes([content[0] ^ 1]) + content[1:-1] + b"!")
        return found

    need = memory_need(TVR(), 3, 12, [100] * 3, [1200] * 3)
    options: dict[str, Any] = {
        "engine": {"memory": need.least},
        "checkpoint": {"every": 1},
        "directory": tmp_path / "run",
    }
    with monkeypatch.context() as patch:
        patch.setattr(LocalEngine, "measure", measure_and_damage)
        with pytest.raises(DamagedStore, match=f"{damaged} is damaged: its checksum does not match"):
            run(tmp_path, **options)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "failed"
    assert (tmp_path / "run" / "checkpoint.bin").exists()
    file.write_bytes(content)
    found = run(tmp_path, **options)
    np.testing.assert_array_equal(expected.nodes, found.nodes)
    assert expected.trajectory.objective.tolist() == found.trajectory.objective.tolist()


def test_what_will_be_read_is_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty passes over what the budget does not hold; nothing where it holds all."""
    monkeypatch.chdir(tmp_path)
    words = ["data=rcv1_like", "data.rows=300000", "stop.passes=20", "algorithm.sampling=permuted"]
    settings = make_settings(
        data={"kind": "rcv1_like", "rows": 300_000},
        algorithm={"_target_": "tvr", "sampling": "permuted"},
        stop={"passes": 20},
        engine={"memory": "100MB"},
    )
    need = memory_estimate(settings)
    assert need is not None
    room = need.room(100 * MB)
    assert room is not None
    assert estimate(settings).reads == 20 * ENTRY_BYTES * (need.nonzeros - room.entries)
    assert estimate(replace(settings, engine=LocalSettings())).reads == 0
    assert dry_run([*words, "engine.memory=100MB", "seed=0,1"]) == 0
    assert "reads      about " in capsys.readouterr().out
    assert dry_run([*words, "seed=0,1"]) == 0
    assert "reads" not in capsys.readouterr().out
