"""Dual coordinate ascent along a walk: against a plain transcription, by its dual, its rate, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array

import dtoken
from dtoken.algorithms.sdca import SDCA
from dtoken.config.settings import make_settings
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.errors import InputError
from dtoken.problem.optimum import optimum
from dtoken.schedule.permuted import slots
from dtoken.schedule.random import below, event_key
from tests.algorithms.reference import conjugate, slope
from tests.engine.small import InMemory, Setup, setup, small_shards

Floats = NDArray[np.float64]
LOSSES = ("logistic", "squared", "smooth_hinge")
GRAPHS: dict[str, dict[str, Any]] = {
    "complete": {"graph": "complete"},
    "ring": {"graph": "ring"},
    "directed_cycle": {"graph": "directed_cycle"},
    "directed_random": {"graph": "directed_random", "degree": 2},
    "time_varying": {"graph": "time_varying", "period": 3, "hold": 2},
}
SEED = 3


class Transcription:
    """The formulas on dense data, one row at a time."""

    def __init__(self, shards: InMemory, loss: str, sigma: float, method: SDCA, seed: int) -> None:
        self.A, self.y, self.loss, self.scale = shards.A, shards.y, loss, shards.n * sigma
        self.method, self.seed = method, seed
        self.theta, self.g = np.zeros(shards.d), [np.zeros(len(y)) for y in shards.y]
        self.used, self.values = [0] * shards.n, [0.0]

    def visit(self, i: int, t: float) -> None:
        """Use the next rows of a node, or those that the event draws."""
        size = len(self.y[i])
        count = max(1, int(np.ceil(round(self.method.share * size, 9))))
        if self.method.sampling == "permuted":
            chosen = slots(self.seed, i, size, self.method.bucket_rows, self.used[i], count)
        else:
            key = np.uint64(event_key(np.uint64(self.seed), t))
            chosen = np.array([below(key, draw, size) for draw in range(count)])
        for j in chosen:
            self.ascend(i, int(j))
        self.used[i] += count

    def ascend(self, i: int, j: int) -> None:
        a, y, w, g = self.A[i][j], self.y[i][j], 1 / len(self.y[i]), self.g[i][j]
        t0, beta = a @ self.theta, a @ a / self.scale

        def h(u: float) -> float:
            return float((u - t0) + beta * (w * slope(self.loss, u, y) - g))

        if self.loss == "squared":
            u = (t0 + beta * (w * y + g)) / (1 + beta * w)
        else:
            ends = t0 + beta * g, t0 + beta * (g + w * y)
            low, high = min(ends) - 1e-9, max(ends) + 1e-9
            u = brentq(h, low, high, xtol=1e-16, rtol=1e-15)
        delta = w * slope(self.loss, u, y) - g
        self.g[i][j] += delta
        self.theta = self.theta - delta * a / self.scale
        self.values.append(self.dual())

    def dual(self) -> float:
        """D, written out."""
        total = sum(A.T @ g for A, g in zip(self.A, self.g, strict=True))
        conjugates = 0.0
        for y, g in zip(self.y, self.g, strict=True):
            inner = np.clip(-y * g * len(y), 0, 1) if self.loss == "logistic" else None
            if inner is None:
                conjugates += float(np.sum(conjugate(self.loss, g * len(y), y))) / len(y)
            else:
                inside = (inner > 0) & (inner < 1)
                conjugates += float(np.sum(conjugate("logistic", -y[inside] * inner[inside], y[inside]))) / len(y)
        return float(-conjugates - total @ total / (2 * self.scale))


def case_of(method: SDCA, loss: str, graph: str, sigma: float = 0.02) -> Setup:
    return setup(
        small_shards(n=6, m=6, d=4, seed=4, classes=loss != "squared"),
        method,
        loss=loss,
        sigma=sigma,
        seed=SEED,
        **GRAPHS[graph],
    )


METHODS = {
    "default": SDCA(bucket_rows=2),
    "all rows": SDCA(share=1.0, bucket_rows=1),
    "one row": SDCA(share=1e-9),
    "independent": SDCA(share=0.5, sampling="uniform"),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", METHODS)
def test_replay_agrees_and_the_dual_never_decreases(name: str, loss: str, graph: str) -> None:
    method = METHODS[name]
    case = case_of(method, loss, graph)
    assert len(set(case.shards.node_rows)) > 1
    assert any((A == 0).all(axis=1).any() for A in case.shards.A)
    plain = Transcription(case.shards, loss, 0.02, method, 0)  # the seed of facts, unless a run gives another
    events = case.events(60)
    with case.engine(2) as engine:
        engine.run(events)
        for node, t in zip(events.node, events.at, strict=True):
            plain.visit(int(node), float(t))
        np.testing.assert_allclose(engine.tokens.theta[0], plain.theta, rtol=0, atol=1e-12 * np.abs(plain.theta).max())
        g = np.concatenate(plain.g)
        np.testing.assert_allclose(engine.nodes.g, g, rtol=0, atol=1e-12 * np.abs(g).max())
    values, best = np.array(plain.values), optimum(case.problem).objective
    assert np.diff(values).min() >= -1e-14 * abs(best)
    assert values[-1] > values[0]
    assert values[-1] <= best * (1 + 1e-12)  # weak duality


@pytest.mark.parametrize("loss", LOSSES)
def test_reaches_the_optimum_and_replays_from_its_log(loss: str, tmp_path: Path) -> None:
    """F - F* <= 1e-10; the log says which nodes, the seed in which order their rows."""
    data = {"kind": "synthetic", "rows": 90, "features": 5, "seed": 1, "store": tmp_path / "stores"}
    result = dtoken.run(
        data,
        4,
        {"_target_": "sdca", "bucket_rows": 4},
        loss=loss,
        sigma=1e-2,
        seed=SEED,
        stop={"passes": 400, "suboptimality": 1e-10},
        record={"events": True},
        directory=tmp_path / "run",
    )
    assert result.status == "done"
    assert result.records[-1].suboptimality <= 1e-10
    log, end = pd.read_parquet(tmp_path / "run" / "events.parquet"), result.records[-1]
    assert set(log.kind) == {"visit"}
    assert len(log) == end.jumps == end.event
    store = ingest(Synthetic(rows=90, features=5, seed=1), Partition(4), root=tmp_path / "stores")
    plain = Transcription(dense(store), loss, 1e-2, SDCA(bucket_rows=4), SEED)
    for number, node in enumerate(log.node):
        plain.visit(int(node), number + 1.0)
    assert sum(plain.used) == end.gradients
    np.testing.assert_allclose(result.theta, plain.theta, rtol=0, atol=1e-12 * np.abs(plain.theta).max())


def dense(store: ShardStore) -> InMemory:
    """The rows of a store."""
    parts = [store.shard(node) for node in range(store.n)]
    matrices = [csr_array((part.data, part.indices, part.indptr), (part.rows, store.d)).toarray() for part in parts]
    return InMemory(matrices, [part.y for part in parts])


def test_the_rate_is_proved_for_one_independent_row_a_visit_and_holds() -> None:
    """The mean of F - F* over seeds is below the bound at every time."""
    shards, sigma = small_shards(n=4, m=5, d=3, seed=6), 0.1
    method = SDCA(share=1e-9, sampling="uniform")
    case = setup(shards, method, sigma=sigma)
    c, best = case.constants, optimum(case.problem)
    promise, L = method.promise(c, case.facts), [case.problem.smoothness(i) for i in range(4)]
    expected = min(1 / 4 / len(L_i) / (1 + L_ij / (4 * sigma)) for L_i in L for L_ij in L_i)
    assert promise == (pytest.approx(expected, rel=1e-12), "proved", None)
    bound = method.bound(c, case.facts, case.problem, best.theta)
    assert bound == pytest.approx(best.objective / expected)
    times, gaps = (1, 20, 60, 200), np.zeros(4)
    for seed in range(30):
        run = setup(shards, method, sigma=sigma, seed=seed)
        constants = run.constants._replace(seed=np.uint64(seed))
        with Setup(shards, run.problem, method, run.facts, constants, run.schedule).engine() as engine:
            for place, (start, stop) in enumerate(zip((0, *times), times, strict=False)):
                engine.run(run.events(200).between(start, stop))
                gaps[place] += (run.problem.objective(engine.tokens.theta[0]) - best.objective) / 30
    assert (gaps <= bound * (1 - promise.rate) ** np.array(times)).all()


@pytest.mark.parametrize(
    ("method", "graph", "basis"),
    [
        (SDCA(), "complete", "observed: proved for one independent row a visit"),
        (SDCA(share=1e-9), "complete", "observed: proved for one independent row a visit"),
        (SDCA(share=1.0, sampling="uniform"), "complete", "observed: proved for one independent row a visit"),
        (SDCA(share=1e-9, sampling="uniform"), "ring", "no rate: visits of this walk are not independent"),
    ],
)
def test_nothing_else_is_proved(method: SDCA, graph: str, basis: str) -> None:
    case = case_of(method, "logistic", graph)
    promise = method.promise(case.constants, case.facts)
    assert promise.basis.startswith(basis)
    assert (promise.rate is None) == (graph == "ring")
    assert method.bound(case.constants, case.facts, case.problem, np.zeros(4)) is None


def test_a_visit_uses_its_share_of_rows() -> None:
    facts = case_of(SDCA(), "logistic", "complete").facts
    rows = facts.rows
    assert SDCA(share=1.0).visited(facts).tolist() == rows.tolist()
    assert (SDCA(share=1e-9).visited(facts) == 1).all()
    assert SDCA(share=0.5).visited(facts).tolist() == [-(-m // 2) for m in rows]
    object.__setattr__(facts, "rows", np.array([10, 20, 100]))
    assert SDCA(share=0.7).visited(facts).tolist() == [7, 14, 70]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"share": 0.0}, r"algorithm\.share=0\.0 is the share of a node's rows; it must lie in \(0, 1\]"),
        ({"share": 1.5}, r"algorithm\.share=1\.5 is"),
        ({"share": float("nan")}, r"algorithm\.share=nan is"),
        ({"bucket_rows": 0}, r"algorithm\.bucket_rows=0, but a bucket has at least one row"),
        ({"sampling": "importance"}, r"algorithm\.sampling=importance is not known; use one of permuted, uniform"),
        ({"tokens": 2}, r"algorithm\.tokens=2 is not for sdca: .* there is one token"),
        ({"start": "local"}, r"algorithm\.start=local is not for sdca"),
        ({"smoothness": "batch"}, r"algorithm\.smoothness=batch is not for sdca: its steps are exact"),
    ],
)
def test_bad_input(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_settings(algorithm={"_target_": "sdca", **keys})
