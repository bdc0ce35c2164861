"""Between a command and its result, no line of Python is executed for every node, token or row."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dtoken
from dtoken.config.settings import make_settings
from dtoken.engine.rows import memory
from dtoken.session.memory_estimate import memory_estimate

PACKAGE = str(Path(dtoken.__file__).parent)
SAMPLED = {"every_passes": None, "sample": 50, "tokens": 2, "exact_ends": False}
FEW, MANY, MORE_TOKENS, MORE_ROWS = (36, 6, 4000), (2000, 6, 4000), (2000, 1500, 4000), (2000, 6, 40_000)
CASES: dict[str, tuple[dict[str, Any], list[tuple[int, int, int]]]] = {
    "all rows": ({}, [MANY, MORE_ROWS]),  # and all tokens, whose losses are added up one token after the other
    "a sample": ({"record": SAMPLED}, [MANY, MORE_TOKENS, MORE_ROWS]),
    "two threads": ({"threads": 2, "algorithm": {"_target_": "tavr", "smoothness": "theory"}}, [MANY]),
    "out of core": ({"threads": 2, "budget": True, "algorithm": {"sampling": "permuted"}}, [MANY]),
    "a sample, out of core": ({"record": SAMPLED, "budget": True}, [MANY, MORE_TOKENS]),
}


@contextmanager
def counted_lines() -> Iterator[Counter[str]]:
    """How often each line of dtoken is executed, in all threads; each turn of a comprehension counts."""
    counts: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        counts[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += event == "line"
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield counts
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]


def run(nodes: int, tokens: int, rows: int, folder: Path, **settings: Any) -> Counter[str]:
    """Data, graph, constants, optimum, run and files; a budget is the smallest one that is enough."""
    given: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": rows, "features": 4, "store": str(folder / "stores")},
        "nodes": nodes,
        "graph": {"kind": "random_regular"},
        "algorithm": {"_target_": "tvr", "smoothness": "theory"} | settings.get("algorithm", {}) | {"tokens": tokens},
        "sigma": 0.1,
        "stop": {"events": 500, "passes": None},
        "record": settings.get("record", {"every_passes": None}),
        "engine": {"threads": settings.get("threads", 1)},
    }
    if "budget" in settings:
        need = memory_estimate(make_settings(**given))
        assert need is not None
        given["engine"]["memory"] = need.least
    with counted_lines() as counts:
        dtoken.run(**given, directory=folder / f"{nodes}-{tokens}-{rows}")
    return counts


@pytest.mark.parametrize(("settings", "sizes"), CASES.values(), ids=CASES)
def test_no_line_is_executed_for_every_node_token_or_row(
    settings: dict[str, Any], sizes: list[tuple[int, int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BUFFERS", 0)
    monkeypatch.setattr(memory, "LEAST_ENTRIES", 4000)
    few = run(*FEW, tmp_path, **settings)
    for more in sizes:
        often = run(*more, tmp_path, **settings) - few
        found = "\n".join(f"{line}: {count}" for line, count in often.most_common() if count > 400)
        assert not found, f"{more}: {found}"
