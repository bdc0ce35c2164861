"""Runs with walks by laws of their own: the same bits on threads and Dask workers, after a resume and a replay."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import dtoken
from dtoken.testing.case import bits_of, keys
from dtoken.testing.workers import Workers

WALKS: dict[str, dict[str, Any]] = {
    "self_repelling": {"kind": "ring", "walk": "self_repelling", "alpha": 3.0},
    "levy": {"kind": "ring", "walk": "levy", "p_jump": 0.5, "weights": "smoothness"},
    "weighted": {"kind": "ring", "walk": "weighted"},
    "rounds": {"kind": "complete", "walk": "rounds"},
    "of the user": {"kind": "ring", "walk": "my_walks.NonBacktracking", "back": 0.3},
}
EVENTS = 3000
PAGE = Path(__file__).parents[2] / "docs" / "add-a-walk.md"
OWN = PAGE.read_text().partition("```python\n")[2].partition("```")[0]  # the example of the page, as it is


def go(folder: Path, name: str, graph: dict[str, Any], *, events: int = EVENTS, **more: Any) -> str:
    options: dict[str, Any] = {"threads": 1, "checkpoint": {"every": 2}} | more
    result = dtoken.run(
        **keys(folder),
        graph=graph,
        algorithm={"_target_": "tvr", "tokens": 2},
        stop={"passes": None, "events": events},
        directory=folder / name,
        **options,
    )
    return bits_of({"nodes": result.nodes, "tokens": result.tokens})


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with ExitStack() as stack:
        yield Workers(None, stack)


@pytest.mark.parametrize("graph", WALKS.values(), ids=WALKS)
def test_bits_depend_on_nothing_but_the_seed(
    graph: dict[str, Any], tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_walks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    whole = go(tmp_path, "whole", graph, record={"events": True})
    assert go(tmp_path, "threads", graph, threads=2) == whole
    go(tmp_path, "half", graph, events=EVENTS // 2)
    assert go(tmp_path, "half", graph) == whole
    assert go(tmp_path, "replayed", graph, replay=str(tmp_path / "whole/events.parquet")) == whole
    assert go(tmp_path, "dask", graph, threads=None, engine="dask", client=workers.client) == whole
    assert go(tmp_path, "seed", graph | {"walk": "simple"} if len(graph) == 2 else {"kind": "ring"}) != whole
