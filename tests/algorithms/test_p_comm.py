"""Any share of visits: the formulas, the promised rate, the optimum; and the choice by measured times."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtoken
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.synthetic import Synthetic
from dtoken.engine import timing
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.rows import memory
from dtoken.engine.rows.memory import memory_need
from dtoken.errors import InputError
from dtoken.session import engines
from dtoken.theory.local_work import Times
from tests.algorithms import test_tavr
from tests.algorithms.blocked import blocked, written_out
from tests.algorithms.test_rate import expected_lyapunov, proved_rate
from tests.algorithms.test_tavr import Dual, Eager, assert_models
from tests.engine.small import Setup, setup, small_shards, solve

SHARES = (0.05, 0.4, 1.7)  # of the balanced p_comm / p_comp


def with_share(share: float, method: Any, **settings: Any) -> Setup:
    """A setup whose p_comm / p_comp is ``share`` of the balanced one."""
    case = setup(small_shards(n=5, m=4, d=3, seed=4, classes=False), method, loss="squared", **settings)
    odds = share * case.constants.p_comm / case.constants.p_comp
    return setup(case.shards, replace(method, p_comm=float(odds / (1 + odds))), loss="squared", **settings)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("block", [1, 3])
def test_tvr_follows_the_formulas_and_contracts(share: float, block: int) -> None:
    case = with_share(share, TVR(start="zero", tokens=2, smoothness="theory", block_rows=block))
    reference, events, best = blocked(case), case.events(400), solve(case.shards, "squared", 0.05)
    rate = proved_rate(reference)
    assert case.constants.rate == pytest.approx(rate, rel=1e-9)
    with case.engine() as engine:
        for number, event in enumerate(written_out(engine, events, block)):
            if number % 100 == 0:
                assert expected_lyapunov(reference, best) <= (1 - rate) * reference.lyapunov(best)
            reference.happen(*event)
        engine.run(events)
        for mine, theirs in ((engine.nodes.theta, reference.theta), (engine.tokens.theta, reference.tokens)):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())


def with_p_comm(k: test_tavr.Constants, case: Setup) -> test_tavr.Constants:
    """The constants of tavr for the p_comm of a case, from the balanced ones: rho <= p c for both kinds of edges."""
    c_comm, c_comp, pi = k.rho / (1 - k.p_comp), k.rho / k.p_comp, case.facts.walk.stationary
    p_comm = case.method.p_comm
    k.p_comp, k.rho = 1 - p_comm, min(p_comm * c_comm, (1 - p_comm) * c_comp)
    k.p_e = p_comm * pi / case.method.tokens
    return k


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("continuized", [False, True])
def test_tavr_follows_the_formulas(share: float, continuized: bool) -> None:
    case = with_share(share, TAVR(start="zero", tokens=2, continuized=continuized))
    events, eager = case.events(600), Eager(case)
    eager.k = with_p_comm(eager.k, case)
    assert case.constants.rate == pytest.approx(eager.k.rho, rel=1e-10)
    with case.engine() as engine:
        engine.run(events)
        for event, at in zip(test_tavr.written_out(engine, events), events.at, strict=True):
            eager.relax_until(float(at))
            eager.happen(*event)
        assert_models(case, engine, float(events.at[-1]), eager.nodes[0], eager.tokens[0], 1e-11)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("method", [TVR(start="zero", tokens=2), TAVR(start="zero", tokens=2)], ids=["tvr", "tavr"])
def test_rate_holds_on_average_over_seeds(method: Any, share: float) -> None:
    """Mean over seeds of the squared distance of all models, against what follows from the proved contraction."""
    case = with_share(share, method, sigma=0.1)
    best, found = solve(case.shards, "squared", 0.1), []
    cuts = tuple(int(factor / case.constants.rate) for factor in (1, 3, 6))
    for seed in range(20):
        events = replace(case, schedule=case.method.schedule(case.constants, case.facts, seed)).events(cuts[-1])
        with case.engine() as engine:
            distances = []
            for start, stop in pairwise((0, *cuts)):
                engine.run(events.between(start, stop))
                models = engine.models(float(events.at[stop - 1]))
                distances.append(np.sum((np.concatenate([models.nodes, models.tokens]) - best) ** 2))
        found.append(distances)
    bound = constant(case, best) * (1 - case.constants.rate) ** np.array(cuts)
    assert (np.mean(found, axis=0) <= bound).all()


def constant(case: Setup, best: Any) -> float:
    """C with E (squared distance after t steps) <= C (1 - rate)^t."""
    if isinstance(case.method, TVR):
        reference = blocked(case)
        return float(2 * reference.R_p() / (reference.sigma_t * reference.eta) * reference.lyapunov(best))
    # at x = v = 0: F(0) - F* = min of the primal, and |lambda*|^2 in the norm of A^+ A from the values at the vertices
    dual = Dual(case)
    s, n = dual.k.sigma_t, case.shards.n
    slopes = [(A @ best - y) / len(y) for A, y in zip(case.shards.A, case.shards.y, strict=True)]
    edges = [slopes[i][j] * case.shards.A[i][j] for kind, i, j in dual.edges if kind == "local"]
    values = np.concatenate([np.tile(s * best, (n + case.method.tokens, 1)), edges])
    size = np.sum((np.linalg.pinv(dual.A) @ values) ** 2)
    np.testing.assert_allclose(dual.A @ np.linalg.pinv(dual.A) @ values, values, atol=1e-10)
    return float(2 / s * (case.problem.objective(best) + dual.k.sigma_A / 2 * size))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("method", [TVR(tokens=2), TAVR(tokens=2), Token(tokens=2)], ids=["tvr", "tavr", "token"])
def test_reaches_the_optimum(method: Any, share: float) -> None:
    case = with_share(share, method, sigma=0.2)
    best = solve(case.shards, "squared", 0.2)
    with case.engine() as engine:
        events = case.events(400_000)
        engine.run(events)
        models = engine.models(float(events.at[-1]))
        assert max(np.abs(models.nodes - best).max(), np.abs(models.tokens - best).max()) <= 1e-10


@pytest.mark.parametrize("method", [TVR(p_comm=0.1), TAVR(p_comm=0.02)], ids=repr)
def test_share_of_visits(method: Any) -> None:
    events = setup(small_shards(), method).events(50_000)
    share = np.count_nonzero(events.token >= 0) / 50_000
    assert share == pytest.approx(method.p_comm, abs=5 * np.sqrt(method.p_comm / 50_000))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: TVR(p_comm=0.0), r"p_comm=0\.0 is neither balanced nor auto nor between 0 and 1"),
        (lambda: TAVR(p_comm=1.0), "p_comm=1.0 is neither"),
        (lambda: TAVR(p_comm=float("nan")), "p_comm=nan is neither"),
        (lambda: Token(p_comm="often"), "p_comm=often is neither balanced nor auto"),
        (
            lambda: TVR(tokens=2, p_comm=0.5, interactions_anywhere=0.5),
            "leave no local steps; their sum must be below 1",
        ),
        (lambda: TVR(p_comm="auto", compute="on_arrival"), "every step is a visit; use compute=independent"),
    ],
)
def test_what_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make()


def test_measured_times() -> None:
    """One thread never waits for another; shards are only read where they are read again."""
    case = setup(small_shards(), TVR(block_rows=2))
    arguments: Any = (case.problem, case.method, case.facts.walk, case.facts, case.constants, None, None, None, 0, None)
    alone = timing.measure_times(Experiment(*arguments), threads=1, reads=False)
    assert min(alone.local, alone.visit) > 0
    assert alone.hop == alone.read == 0.0


@pytest.mark.parametrize("method", [TVR(), TVR(block_rows=2), Token()], ids=repr)
def test_times_are_measured_in_little_memory(tmp_path: Path, method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is short, on the first rows of two nodes; a step that uses all of them is scaled up."""
    store = ingest(Synthetic(rows=4000, features=10), Partition(4), root=tmp_path)
    case = setup(store, method)
    arguments: Any = (case.problem, case.method, case.facts.walk, case.facts, case.constants, None, None, None, 0, None)
    hosted: list[int] = []

    class Engine(timing.LocalEngine):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            hosted.append(len(self.rows.data))

    monkeypatch.setattr(timing, "LocalEngine", Engine)
    monkeypatch.setattr(timing, "_seconds_each", lambda run: run(10) or 1.0)
    timing.measure_times(Experiment(*arguments), 1, reads=False)
    assert max(hosted) == sum(store.node_nonzeros[:2])
    hosted.clear()
    times = timing.measure_times(Experiment(*arguments), 1, reads=True, entries=500)
    assert max(hosted) <= 1000
    assert times.read > 0
    share = max(hosted) / sum(store.node_nonzeros[:2])
    assert times.local == pytest.approx(1 / share if isinstance(method, Token) else 1.0)


@pytest.mark.parametrize("fits", [True, False])
def test_reads_count_where_rows_do_not_fit(tmp_path: Path, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BUFFERS", 0)
    monkeypatch.setattr(memory, "LEAST_ENTRIES", 60)
    settings: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 300, "features": 12, "store": tmp_path / "stores"},
        "nodes": 3,
        "algorithm": {"_target_": "tvr", "p_comm": "auto"},
    }
    need = memory_need(TVR(), 3, 12, [100] * 3, [1200] * 3)
    engine = {"memory": need.everything if fits else need.least}
    seconds = dtoken.run(**settings, engine=engine, stop={"passes": 2}).summary["p_comm"]["seconds"]
    assert (seconds["read"] == 0.0) == fits


class TestAuto:
    """algorithm.p_comm=auto, with times that are given instead of measured."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = tmp_path, monkeypatch

    def run(self, name: str, hop: float | None, p_comm: Any = "auto", passes: float = 10, **settings: Any) -> Any:
        def measured(*_: Any) -> Times:
            assert hop is not None, "measured again"
            return Times(local=1e-6, visit=1e-6, hop=hop)

        self.patch.setattr(engines, "measure_times", measured)
        return dtoken.run(
            data={"kind": "synthetic", "rows": 90, "features": 6, "store": str(self.folder / "stores")},
            nodes=4,
            sigma=0.05,
            algorithm={"_target_": "tvr", "p_comm": p_comm},
            record={"every_passes": 2.0, "events": True},
            checkpoint={"every": 1},
            directory=self.folder / name,
            stop={"passes": passes},
            **settings,
        )

    def same(self, a: Any, b: Any) -> bool:
        equal = a.trajectory.drop(columns="wall").equals(b.trajectory.drop(columns="wall"))
        return bool(equal and a.theta.tobytes() == b.theta.tobytes())

    def test_choice_is_recorded_and_used(self) -> None:
        quick, slow = self.run("quick", 0.0), self.run("slow", 1.0)
        constants = slow.summary["constants"]
        assert quick.summary["constants"]["p_comm"] == constants["balanced"]
        assert constants["p_comm"] == constants["balanced"] / 4
        assert constants["p_comm"] == slow.summary["p_comm"]["value"]
        assert slow.summary["p_comm"]["seconds"] == {"local": 1e-6, "visit": 1e-6, "hop": 1.0, "read": 0.0, "link": 0.0}
        assert slow.summary["config"]["algorithm"]["p_comm"] == "auto"
        assert slow.trajectory.jumps.iloc[-1] < 0.5 * quick.trajectory.jumps.iloc[-1]
        assert slow.summary["predicted_rate"] < quick.summary["predicted_rate"]

    def test_same_value_same_bits(self) -> None:
        chosen = self.run("chosen", 1.0)
        given = self.run("given", None, p_comm=chosen.summary["p_comm"]["value"])
        assert self.same(chosen, given)
        assert given.summary["p_comm"] is None

    def test_a_resumed_run_takes_the_recorded_value(self) -> None:
        whole = self.run("whole", 1.0, passes=20)
        self.run("parts", 1.0, passes=8)
        rest = self.run("parts", None, passes=20, threads=2)
        assert self.same(whole, rest)
        assert rest.summary["p_comm"] == whole.summary["p_comm"]

    def test_a_checkpoint_with_another_value_is_refused(self) -> None:
        self.run("lost", 1.0, passes=8)
        (self.folder / "lost" / "summary.json").unlink()
        with pytest.raises(InputError, match="holds the checkpoint of a run with other settings"):
            self.run("lost", 0.0, passes=20)

    def test_a_replayed_run_takes_the_recorded_value(self) -> None:
        first = self.run("first", 1.0)
        again = self.run("again", None, replay=self.folder / "first" / "events.parquet")
        assert self.same(first, again)
        assert again.summary["p_comm"] == {"value": first.summary["p_comm"]["value"], "seconds": {}, "workers": None}

    def test_an_interrupted_choice_is_made_again(self) -> None:
        """A run that ended before anything was measured has recorded nothing."""
        with pytest.raises(AssertionError, match="measured again"):
            self.run("early", None)
        assert json.loads((self.folder / "early" / "summary.json").read_text())["p_comm"] is None
        assert self.run("early", 1.0).summary["p_comm"]["seconds"]["hop"] == 1.0
