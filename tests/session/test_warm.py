"""Runs that go on from the result of an earlier one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dtoken
from dtoken.data.store import ShardStore
from dtoken.errors import InputError
from dtoken.session.result import Result

DATA = {"kind": "synthetic", "rows": 160, "features": 6}
STARTING = ["token", "tvr", "tavr", "dvr"]


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))


def run(algorithm: Any, passes: float = 400, sigma: float = 0.02, **more: Any) -> Result:
    stop = {"passes": passes, "suboptimality": 1e-13}
    return dtoken.run(DATA, 4, algorithm, sigma=sigma, stop=stop, threads=1, **more)


def warm(name: str, directory: Path, **settings: Any) -> dict[str, Any]:
    return {"_target_": name, "start": "warm", "start_from": directory, **settings}


@pytest.mark.parametrize("name", STARTING)
def test_the_same_settings_begin_at_the_end(name: str, tmp_path: Path) -> None:
    """tavr begins with x = v, so exactly there only where that holds: at the optimum."""
    before = run(name, 400 if name == "tavr" else 6, directory=tmp_path / "a").records[-1]
    first = run(warm(name, tmp_path / "a"), 1e-3).records[0]
    assert first.gradients == 0
    if name == "tavr":
        assert first.suboptimality <= 1e-12
    else:
        assert before.suboptimality > 1e-6  # so it did not only begin near the optimum
        assert first.suboptimality == pytest.approx(before.suboptimality, rel=1e-9)


@pytest.mark.parametrize("change", [{"sigma": 0.01}, {"sigma": 0.06}, {"tokens": 3}, {"graph": "ring"}], ids=str)
@pytest.mark.parametrize("name", ["token", "tvr"])
def test_with_other_settings_it_takes_less_than_from_zero(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    run(name, directory=tmp_path / "a")
    tokens = {"tokens": change["tokens"]} if "tokens" in change else {}
    rest = {key: value for key, value in change.items() if key != "tokens"}
    cold = run({"_target_": name, **tokens}, **rest, record={"accuracies": [1e-3]})
    went_on = run(warm(name, tmp_path / "a", **tokens), **rest, record={"accuracies": [1e-3]})
    assert went_on.records[0].suboptimality < 0.25 * cold.records[0].suboptimality
    assert went_on.status == "done"
    assert below(went_on) < 0.7 * below(cold)


def below(result: Result) -> float:
    """Passes after which the suboptimality stays below 1e-3."""
    last = [record.passes for record in result.records if record.suboptimality > 1e-3]
    return max(last, default=0.0)


@pytest.mark.parametrize("earlier", ["gd", "walkman", "tavr", "dvr"])
def test_goes_on_from_any_method(earlier: str, tmp_path: Path) -> None:
    run(earlier, directory=tmp_path / "a")
    for name in STARTING:
        first = run(warm(name, tmp_path / "a"), 1e-3).records[0]
        assert first.suboptimality < 1e-9
        assert first.consensus < 1e-9


@pytest.mark.parametrize("name", ["token", "tvr", "dvr"])
def test_keeps_the_invariant_with_another_regulariser(name: str, tmp_path: Path) -> None:
    """The mean of all models is -G / (n sigma), from what the run leaves: margins, models and data."""
    run("tvr", 5, directory=tmp_path / "a")
    result = run(warm(name, tmp_path / "a"), 1e-9, sigma=0.003, directory=tmp_path / "b")
    store = ShardStore.open(result.summary["data"]["path"])
    z = np.asarray(zarr.open_group(tmp_path / "b/result.zarr")["margins"])
    G, row = np.zeros(store.d), 0
    for node in range(store.n):
        for block in store.blocks(node):
            for j in range(block.rows):
                entries = slice(block.indptr[j], block.indptr[j + 1])
                slope = -block.y[j] / (1 + np.exp(block.y[j] * z[row])) / store.node_rows[node]
                G[block.indices[entries]] += slope * block.data[entries]
                row += 1
    models = result.nodes if name == "dvr" else np.vstack([result.nodes, result.tokens])
    np.testing.assert_allclose(models.mean(axis=0), -G / (4 * 0.003), rtol=1e-10, atol=1e-12)


def outcome(result: Result) -> tuple[bytes, bytes, list[float]]:
    return result.tokens.tobytes(), result.nodes.tobytes(), [record.objective for record in result.records]


def test_resume_replay_threads_and_budgets_give_equal_bits(tmp_path: Path) -> None:
    run("tvr", 30, directory=tmp_path / "a")
    for settings in (warm("tvr", tmp_path / "a", tokens=2), {"_target_": "tavr", "start": "local"}):
        name, more = settings["start"], {"sigma": 0.004, "record": {"events": True}}
        whole = run(settings, 12, directory=tmp_path / f"{name}-whole", **more)
        run(settings, 5, directory=tmp_path / f"{name}-part", checkpoint={"every": 1}, **more)
        rest = run(settings, 12, directory=tmp_path / f"{name}-part", checkpoint={"every": 1}, **more)
        log = tmp_path / f"{name}-whole/events.parquet"
        replayed = run(settings, 12, sigma=0.004, replay=log)
        threads = dtoken.run(DATA, 4, settings, sigma=0.004, stop={"passes": 12, "suboptimality": 1e-13}, threads=3)
        assert outcome(rest) == outcome(replayed) == outcome(threads) == outcome(whole)


def test_the_earlier_result_is_part_of_what_a_run_is(tmp_path: Path) -> None:
    run("tvr", 5, directory=tmp_path / "a")
    settings = warm("tvr", tmp_path / "a")
    first = run(settings, 3, directory=tmp_path / "b")
    assert run(settings, 3, directory=tmp_path / "b").records == first.records
    run("tvr", 9, directory=tmp_path / "a")  # goes on, and has another result
    with pytest.raises(
        InputError, match=r"holds a run that started from what was in .*a before; use another directory"
    ):
        run(settings, 3, directory=tmp_path / "b")
    second = run(settings, 3, directory=tmp_path / "c")
    assert second.summary["start_from"] != first.summary["start_from"]


def test_other_directories_are_refused(tmp_path: Path) -> None:
    run("tvr", 2, directory=tmp_path / "a")
    with pytest.raises(InputError, match=r"algorithm\.start_from=.*nowhere does not hold a run; give the directory"):
        run(warm("tvr", tmp_path / "nowhere"))
    with pytest.raises(
        InputError, match=r"is a run on other data \(.*, 4 nodes; now .*, 5 nodes\); margins belong to "
    ):
        dtoken.run(DATA, 5, warm("tvr", tmp_path / "a"))
    with pytest.raises(InputError, match="is a run on other data"):
        dtoken.run({**DATA, "seed": 1}, 4, warm("tvr", tmp_path / "a"))
    with pytest.raises(InputError, match=r"algorithm\.start_from=.* is not for gd: it keeps no margins"):
        run({"_target_": "gd", "start_from": tmp_path / "a"})
    summary = json.loads((tmp_path / "a/summary.json").read_text())
    (tmp_path / "a/summary.json").write_text(json.dumps(summary | {"status": "interrupted"}))
    with pytest.raises(InputError, match="holds a run that is not done but interrupted; let it end"):
        run(warm("tvr", tmp_path / "a"))
    (tmp_path / "a/summary.json").write_text("{")
    with pytest.raises(InputError, match=r"summary\.json is damaged"):
        run(warm("tvr", tmp_path / "a"))


def test_a_damaged_result_is_told(tmp_path: Path) -> None:
    run("tvr", 2, directory=tmp_path / "a")
    chunk = next(
        path for path in (tmp_path / "a/result.zarr/margins").rglob("*") if path.is_file() and path.name != "zarr.json"
    )
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"result\.zarr is damaged"):
        run(warm("tvr", tmp_path / "a"))
