"""Walk SGD, private and not, against plain numpy; what its summary says of privacy."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client

import dtoken
from dtoken.data.store import ShardStore
from dtoken.errors import InputError
from dtoken.schedule.random import event_key, normal
from dtoken.testing.case import bits_of, keys
from dtoken.testing.workers import Workers
from dtoken.theory.privacy import ASSUMPTIONS, epsilon, losses

PRIVATE = {"clip": 0.3, "noise": 2.0}
EVENTS = 400


def go(
    folder: Path, name: str, *, events: int = EVENTS, decay: str = "inverse", graph: Any = "ring", **more: Any
) -> Any:
    return dtoken.run(
        **keys(folder),
        graph=graph,
        algorithm={"_target_": "walk_sgd", "decay": decay},
        stop={"passes": None, "events": events},
        record={"events": True},
        directory=folder / name,
        **({"threads": 1} | more),
    )


def bits(result: Any) -> str:
    return bits_of({"nodes": result.nodes, "tokens": result.tokens})


@pytest.mark.parametrize("privacy", [{}, {"clip": 0.3}, PRIVATE], ids=["plain", "cut", "noisy"])
@pytest.mark.parametrize("decay", ["constant", "sqrt", "inverse"])
def test_is_the_formula_in_plain_numpy(privacy: dict[str, float], decay: str, tmp_path: Path) -> None:
    result = go(tmp_path, "run", decay=decay, privacy=privacy)
    events = pd.read_parquet(tmp_path / "run/events.parquet")
    store, c, sigma = ShardStore.open(result.summary["data"]["path"]), result.summary["constants"], 0.2
    parts = [list(store.blocks(i)) for i in range(6)]
    x, d = np.zeros(4), 4
    rows = []
    for blocks in parts:
        A = np.zeros((sum(block.rows for block in blocks), d))
        y, first = np.concatenate([block.y for block in blocks]), 0
        for block in blocks:
            for r in range(block.rows):
                a, b = block.indptr[r], block.indptr[r + 1]
                A[first + r, block.indices[a:b]] = block.data[a:b]
            first += block.rows
        rows.append((A, y))
    for t, i in enumerate(events.node.tolist(), start=1):
        A, y = rows[i]
        gradients = (-y / (1 + np.exp(y * (A @ x))))[:, None] * A
        if privacy:
            norms = np.linalg.norm(gradients, axis=1)
            gradients *= np.minimum(1, privacy["clip"] / norms)[:, None]
        gamma = {
            "constant": c["step"],
            "sqrt": c["step"] / np.sqrt(1 + (t - 1) / 6),
            "inverse": 1 / (1 / c["step"] + sigma * t / 2),
        }[decay]
        key = np.uint64(event_key(np.uint64(3), float(t)))
        noise = privacy.get("noise", 0.0) * privacy.get("clip", 0.0) * np.array([normal(key, s) for s in range(d)])
        x = x - gamma * (gradients.mean(axis=0) + sigma * x + noise)
    np.testing.assert_allclose(result.tokens[0], x, rtol=0, atol=1e-12 * max(1.0, np.abs(x).max()))


def test_private_runs_have_the_same_bits_everywhere(tmp_path: Path) -> None:
    whole = bits(go(tmp_path, "whole", privacy=PRIVATE))
    assert bits(go(tmp_path, "threads", privacy=PRIVATE, threads=2)) == whole
    go(tmp_path, "half", privacy=PRIVATE, events=EVENTS // 2)
    assert bits(go(tmp_path, "half", privacy=PRIVATE)) == whole
    assert bits(go(tmp_path, "again", privacy=PRIVATE, replay=str(tmp_path / "whole/events.parquet"))) == whole
    with ExitStack() as stack:
        client: Client = Workers(None, stack).client
        assert bits(go(tmp_path, "dask", privacy=PRIVATE, threads=None, engine="dask", client=client)) == whole
    assert bits(go(tmp_path, "plain")) != whole


def test_summary_has_the_account_of_the_walk_that_was_walked(tmp_path: Path) -> None:
    go(tmp_path, "run", privacy=PRIVATE, decay="constant")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    found, nodes = summary["privacy"], pd.read_parquet(tmp_path / "run/events.parquet").node.to_numpy(np.int32)
    expected = losses(nodes, np.ones(EVENTS), 6, 2.0)  # of constant steps, whatever their size
    np.testing.assert_allclose(found["rho"], np.nan_to_num(expected.pairwise), rtol=1e-12)
    np.testing.assert_allclose(found["epsilon"], np.nan_to_num(epsilon(expected.pairwise, 1e-5)), rtol=1e-12)
    assert found["amplified"]
    assert found["visits"] == EVENTS
    assert found["assumptions"] == list(ASSUMPTIONS)
    by_distance = found["epsilon_by_distance"]
    assert list(by_distance) == ["1", "2", "3"]  # on a ring of 6
    assert by_distance["1"] == max(found["epsilon"][i][(i + s) % 6] for i in range(6) for s in (1, 5))


def test_long_steps_are_not_said_to_hide_anything(tmp_path: Path) -> None:
    result = dtoken.run(
        **keys(tmp_path),
        algorithm={"_target_": "walk_sgd", "step": 1.5},
        privacy=PRIVATE,
        stop={"passes": None, "events": 60},
    )
    found = result.summary["privacy"]
    assert not found["amplified"]
    assert "hides nothing" in found["in_words"]
    local = np.array(found["rho_local"])
    np.testing.assert_array_equal(np.array(found["rho"])[0, 1:], local[0])


def test_a_token_that_passes_through_is_seen(tmp_path: Path) -> None:
    """Of a walk with jumps, nodes between see the token, too, and add no noise."""
    graph = {"kind": "ring", "walk": "levy", "p_jump": 1.0, "longest": 3}
    result = go(tmp_path, "run", privacy=PRIVATE, graph=graph, decay="constant")
    events = pd.read_parquet(tmp_path / "run/events.parquet")
    steps = (events.kind == "visit").to_numpy(float)
    expected = losses(events.node.to_numpy(np.int32), steps, 6, 2.0).pairwise
    np.testing.assert_allclose(result.summary["privacy"]["rho"], np.nan_to_num(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"algorithm": "tvr", "privacy": PRIVATE},
            r"privacy\.clip=0\.3, but tvr neither cuts gradients nor adds noise",
        ),
        ({"algorithm": "walk_sgd", "privacy": {"noise": 1.0}}, "give privacy.clip, too"),
        ({"algorithm": {"_target_": "walk_sgd", "step": 0.0}}, r"algorithm\.step=0\.0 must be positive"),
        ({"algorithm": {"_target_": "walk_sgd", "decay": "cubic"}}, "algorithm.decay=cubic is not known"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        dtoken.run(nodes=4, **options)
