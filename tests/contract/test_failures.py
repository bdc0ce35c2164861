"""Runs that lose and fork tokens: the same bits on threads and Dask workers, after a resume and a replay."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dtoken
from dtoken.errors import InputError
from dtoken.report.payload import payload
from dtoken.report.study import study
from dtoken.session.lines import closing
from dtoken.sweep.runs import find_runs
from dtoken.testing.case import bits_of, keys
from dtoken.testing.workers import Workers

EVENTS = 6000
REGULATED = {
    "burst": 2,
    "burst_at": 250,
    "token": 0.01,
    "control": "decafork_plus",
    "learn": 100,
    "below": 1.4,
    "above": 2.9,
}
CASES: dict[str, dict[str, Any]] = {
    "token": {"algorithm": {"_target_": "token", "tokens": 3}, "failures": {"burst": 2, "burst_at": 60}},
    "tvr": {"algorithm": {"_target_": "tvr", "tokens": 3}, "failures": REGULATED},
    "tavr": {"algorithm": {"_target_": "tavr", "tokens": 3, "jumps": 2, "continuized": True}, "failures": REGULATED},
}


def go(folder: Path, name: str, case: dict[str, Any], *, events: int = EVENTS, **more: Any) -> dtoken.Result:
    options: dict[str, Any] = {"threads": 1, "checkpoint": {"every": 2}} | more
    return dtoken.run(
        **keys(folder),
        **case,
        graph="complete",
        stop={"passes": None, "events": events},
        directory=folder / name,
        **options,
    )


def outcome(result: dtoken.Result) -> tuple[str, list[Any]]:
    return bits_of({"nodes": result.nodes, "tokens": result.tokens}), result.trajectory.drop(
        columns="wall"
    ).values.tolist()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with ExitStack() as stack:
        yield Workers(None, stack)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bits_depend_on_nothing_but_the_seed(case: dict[str, Any], tmp_path: Path, workers: Workers) -> None:
    found = go(tmp_path, "whole", case, record={"events": True})
    whole, last = outcome(found), found.trajectory.tokens.iloc[-1]
    kinds = pq.read_table(tmp_path / "whole/events.parquet")["kind"].to_pylist()
    assert last == 3 - kinds.count("die") + kinds.count("fork") == len(found.tokens)
    assert kinds.count("die") >= 2
    assert (kinds.count("fork") > 0) == ("control" in case["failures"])
    assert outcome(go(tmp_path, "threads", case, threads=2)) == whole
    go(tmp_path, "half", case, events=EVENTS // 2)
    assert outcome(go(tmp_path, "half", case))[0] == whole[0]
    log = str(tmp_path / "whole/events.parquet")
    again = go(tmp_path, "replayed", case, replay=log, record={"events": True})
    assert outcome(again) == whole
    assert pq.read_table(tmp_path / "replayed/events.parquet").equals(pq.read_table(log))
    with pytest.raises(InputError, match=r"of the kind die|failures\.most=6"):
        go(tmp_path, "refused", {**case, "failures": None}, replay=log)
    assert outcome(go(tmp_path, "dask", case, threads=None, engine="dask", client=workers.client)) == whole


def test_a_report_draws_the_tokens_that_are_left(tmp_path: Path) -> None:
    case = CASES["token"]
    lossy = go(tmp_path / "sweep", "0", case, events=600).trajectory
    go(tmp_path / "sweep", "1", case | {"failures": {}}, events=600)
    page = payload(study(find_runs([tmp_path / "sweep"])))
    curve, plain = (cell["curves"]["jumps"] for cell in page["cells"])
    assert (page["measures"]["tokens"], "tokens" in page["linear"]) == ("living tokens", True)
    ((*left, last),) = curve["tokens"]
    assert (left[0], last) == (3, 1) == (lossy.tokens.iloc[0], lossy.tokens.iloc[-1])
    assert set(plain["tokens"][0]) == {None}
    assert "tokens" not in payload(study(find_runs([tmp_path / "sweep" / "1"])))["measures"]


def test_a_run_ends_with_its_last_token_and_says_so(tmp_path: Path) -> None:
    case = {"algorithm": {"_target_": "tvr", "tokens": 2}, "failures": {"burst": 2, "burst_at": 40}}
    found = go(tmp_path, "lost", case)
    assert (found.status, found.summary["stopped"], found.trajectory.tokens.iloc[-1]) == ("done", "tokens", 0)
    assert found.trajectory.jumps.iloc[-1] == 40
    assert any(line.startswith("ended after 40 jumps: all tokens are lost") for line in closing(found))
    assert go(tmp_path, "lost", case, events=2 * EVENTS).trajectory.equals(found.trajectory)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"algorithm": "gd"}, "gd has none; use algorithm=token, tvr or tavr"),
        ({"algorithm": "sdca"}, "sdca has none; use algorithm=token, tvr or tavr"),
        ({"algorithm": {"_target_": "tvr", "tokens": 2, "interactions": 0.5}}, "use algorithm.interactions=0"),
        ({"graph": {"kind": "ring", "walk": "levy"}}, "graph.walk=levy remembers what its tokens did"),
        ({"failures": {"burst": 3, "burst_at": 9}}, "failures.burst=3, but there are only 2 tokens"),
    ],
)
def test_what_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    case: dict[str, Any] = {"algorithm": {"_target_": "tvr", "tokens": 2}, "failures": {"token": 0.01}}
    with pytest.raises(InputError, match=message):
        dtoken.run(**keys(tmp_path), **(case | more), directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()
