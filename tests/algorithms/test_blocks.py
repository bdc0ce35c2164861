"""Blocks of rows as samples of tvr, against a transcription with general f_ij that is fed the same events."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtoken
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.loop.experiment import exact_costs, prepare
from dtoken.engine.loop.run import run
from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel, advance, start_clock
from tests.algorithms.blocked import Blocked, blocked, written_out
from tests.algorithms.test_rate import expected_lyapunov, proved_rate
from tests.engine.small import InMemory, Setup, setup, small_shards, solve

# rows of nodes differ: some last blocks are shorter, and with 50 rows a node is one block
GRAPHS: tuple[dict[str, Any], ...] = ({"graph": "complete"}, {"graph": "ring"}, {"graph": "star"})
LOSSES = ("logistic", "squared", "smooth_hinge")
CASES = [
    (block, sampling, smoothness, GRAPHS[turn % 3], LOSSES[(turn + turn // 3) % 3], (1, 3)[turn % 2], 1 + turn % 2)
    for turn, (block, sampling, smoothness) in enumerate(
        product((2, 3, 50), ("importance", "uniform"), ("batch", "theory", "factor"))
    )
]


def assert_same(engine: Any, reference: Blocked, tolerance: float) -> None:
    for mine, theirs in (
        (engine.nodes.theta, reference.theta),
        (engine.tokens.theta, reference.tokens),
        (engine.nodes.z, np.concatenate([reference.margins(i) for i in range(reference.n)])),
        (engine.nodes.g, np.concatenate([reference.g(i) for i in range(reference.n)])),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * np.abs(theirs).max(initial=1e-3))


@pytest.mark.parametrize(("block", "sampling", "smoothness", "graph", "loss", "K", "threads"), CASES)
def test_follows_the_formulas(
    block: int, sampling: str, smoothness: str, graph: dict[str, Any], loss: str, K: int, threads: int
) -> None:
    """Eigenvalues of blocks have a margin of 1e-8, sums have none."""
    shards = small_shards(classes=loss != "squared", seed=1)
    method = TVR(start="zero", tokens=K, block_rows=block, sampling=sampling, smoothness=smoothness, factor=0.3)
    case = setup(shards, method, loss=loss, seed=K, **graph)
    events, reference, c = case.events(1200), blocked(case), case.constants
    tolerance = 1e-6 if smoothness == "batch" else 1e-12
    for mine, theirs in ((c.kappa, reference.kappa), (c.p_comm, reference.p_comm), (c.eta, reference.eta)):
        assert mine == pytest.approx(theirs, rel=min(tolerance, 3e-8))
    with case.engine(threads) as engine:
        assert_same(engine, reference, 1e-12)
        for start, stop in pairwise(range(0, 1201, 400)):
            stretch = events.between(start, stop)
            engine.run(stretch)
            for event in written_out(engine, stretch, block):
                reference.happen(*event)
            assert_same(engine, reference, tolerance)


@pytest.mark.parametrize("graph", ["complete", "directed_cycle"])
@pytest.mark.parametrize(("loss", "smoothness"), [("logistic", "batch"), ("squared", "theory")])
def test_every_step_descends_on_the_dual_and_keeps_the_invariant(loss: str, smoothness: str, graph: str) -> None:
    shards = small_shards(seed=2, classes=loss != "squared")
    case = setup(shards, TVR(start="zero", tokens=2, block_rows=3, smoothness=smoothness), loss=loss, graph=graph)
    reference, matrix = blocked(case), np.concatenate(shards.A)
    events, before = case.events(800), np.inf
    with case.engine() as engine:
        for number, event in enumerate(written_out(engine, events, 3)):
            reference.happen(*event)
            now = reference.dual_objective()
            assert now <= before + 1e-12 * abs(now)
            before = now
            if number % 50 == 0:
                engine.run(events.between(max(0, number - 49), number + 1))
                total = reference.sigma_t * (engine.nodes.theta.sum(axis=0) + engine.tokens.theta.sum(axis=0))
                size = np.abs(engine.nodes.theta).sum() * reference.sigma_t
                np.testing.assert_allclose(total + matrix.T @ engine.nodes.g, 0, atol=1e-13 * (1 + size))


@pytest.mark.parametrize(("sampling", "smoothness"), [("importance", "theory"), ("uniform", "batch")])
@pytest.mark.parametrize("K", [1, 3])
def test_one_step_contracts_in_expectation(sampling: str, smoothness: str, K: int) -> None:
    """E L_{t+1} <= (1 - eta mu) L_t, the expectation taken exactly, at states along a run."""
    shards = small_shards(n=4, m=5, d=3, seed=4)
    case = setup(shards, TVR(start="zero", tokens=K, block_rows=2, sampling=sampling, smoothness=smoothness))
    reference, best = blocked(case), solve(shards, "logistic", 0.05)
    rate = proved_rate(reference)
    assert case.constants.rate == pytest.approx(rate, rel=1e-7)
    with case.engine() as engine:
        for number, event in enumerate(written_out(engine, case.events(300), 2)):
            if number % 50 == 0:
                assert expected_lyapunov(reference, best) <= (1 - rate) * reference.lyapunov(best)
            reference.happen(*event)


@pytest.mark.parametrize("block", [2, 4])
def test_rate_holds_on_average_over_seeds(block: int) -> None:
    """Mean over seeds of the squared distance, against what follows from the proved contraction."""
    shards = small_shards(n=5, m=6, d=3, seed=5, classes=False)
    best, cuts, found = solve(shards, "squared", 0.1), (100, 400, 1000), []
    case = setup(shards, TVR(start="zero", tokens=2, block_rows=block), loss="squared", sigma=0.1)
    reference = blocked(case)
    for seed in range(30):
        events = replace(case, schedule=case.method.schedule(case.constants, case.facts, seed)).events(cuts[-1])
        with case.engine() as engine:
            distances = []
            for start, stop in pairwise((0, *cuts)):
                engine.run(events.between(start, stop))
                distances.append(np.sum((np.concatenate([engine.nodes.theta, engine.tokens.theta]) - best) ** 2))
        found.append(distances)
    bound = (1 - proved_rate(reference)) ** np.array(cuts) * reference.lyapunov(best)
    assert (np.mean(found, axis=0) <= 2 * reference.R_p() / (reference.sigma_t * reference.eta) * bound).all()


@pytest.mark.parametrize(
    "method",
    [
        TVR(tokens=2, block_rows=2),
        TVR(tokens=2, block_rows=3, sampling="uniform", smoothness="theory"),
        TVR(tokens=2, block_rows=100),
        TVR(tokens=2, block_rows=4, compute="on_arrival"),
        TVR(tokens=3, block_rows=4, compute="on_arrival", interactions_anywhere=0.2, sampling="uniform"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_reaches_the_optimum(method: TVR, loss: str) -> None:
    shards = small_shards(seed=6, classes=loss != "squared")
    case, best = setup(shards, method, loss=loss, sigma=0.2), solve(shards, loss, 0.2)
    with case.engine() as engine:
        engine.run(case.events(200_000))
        assert np.abs(engine.nodes.theta - best).max() <= 1e-10
        assert np.abs(engine.tokens.theta - best).max() <= 1e-10


@pytest.mark.parametrize("compute", ["independent", "on_arrival"])
def test_one_block_a_node_is_token_gd(compute: str) -> None:
    found = []
    for method in (
        Token(tokens=2, smoothness="theory", compute=compute),
        TVR(start="zero", tokens=2, smoothness="theory", compute=compute, block_rows=10**6, sampling="uniform"),
    ):
        shards = small_shards(n=6, unequal=False)  # on arrival tvr uses each node's own smoothness, token the largest
        case = setup(replace(shards, A=[shards.A[0]] * 6, y=[shards.y[0]] * 6), method)
        with case.engine() as engine:
            engine.run(case.events(2000))
            found.append((case.constants.rate, engine.nodes.theta.copy(), engine.tokens.theta.copy()))
    for token, tvr in zip(*found, strict=True):
        np.testing.assert_allclose(tvr, token, rtol=1e-11, atol=1e-12)


def test_blocks_with_one_row_that_is_not_empty_are_rows() -> None:
    """The same run, whether empty rows are skipped or lie in the blocks of others."""
    shards, found = small_shards(n=5, m=4, empty=False), []
    A = [np.stack([A, np.zeros_like(A)], axis=1).reshape(-1, A.shape[1]) for A in shards.A]
    spread = InMemory(A, [np.repeat(y, 2) for y in shards.y])
    for block in (1, 2):
        case = setup(spread, TVR(tokens=2, block_rows=block, smoothness="theory"))
        with case.engine() as engine:
            engine.run(case.events(2000))
            found.append((engine.nodes.theta.copy(), engine.nodes.z[::2].copy()))
    for rows, blocks in zip(*found, strict=True):
        np.testing.assert_allclose(blocks, rows, rtol=0, atol=1e-12 * np.abs(rows).max())


def test_blocks_of_empty_rows_are_never_drawn() -> None:
    shards = small_shards(n=4, m=9, unequal=False, empty=False)
    for A in shards.A:
        A[3:6] = 0.0
    for sampling in ("importance", "uniform"):
        case = setup(shards, TVR(block_rows=3, sampling=sampling))
        assert case.facts.samples.tolist() == [2] * 4
        with case.engine() as engine:
            drawn = {block for kind, _, block, _ in written_out(engine, case.events(3000), 3) if kind == "local"}
            assert drawn == {0, 2}


def test_frequencies_follow_the_smoothness_of_blocks() -> None:
    case = setup(small_shards(n=3, m=8, seed=3), TVR(block_rows=3), sigma=0.01)
    reference, events = blocked(case), case.events(200_000)
    with case.engine() as engine:
        counts = [np.zeros(len(p)) for p in reference.p]
        for kind, node, block, _ in written_out(engine, events, 3):
            if kind == "local":
                counts[node][block] += 1
    total = sum(count.sum() for count in counts)
    for count, p, L in zip(counts, reference.p, reference.L, strict=True):
        p = np.where(L > 0, p, 0.0)
        assert (np.abs(count / total - p) <= 5 * np.sqrt(p / total)).all()


@pytest.mark.parametrize("sampling", ["importance", "uniform"])
@pytest.mark.parametrize("compute", ["independent", "on_arrival"])
def test_gradients_and_ideal_time_count_rows(compute: str, sampling: str) -> None:
    case = setup(small_shards(n=4, m=10, seed=9), TVR(block_rows=4, sampling=sampling, compute=compute))
    events, rows = case.events(5000), np.array(case.shards.node_rows)
    costs = exact_costs(case.problem, case.method, case.constants, case.facts)
    assert (rows % 4 != 0).any()
    clock = start_clock(4, 1)
    advance(clock, events, costs, TimeModel(tau_comp=2.0, tau_comm=0.0, rule="token_clock"))
    used = np.zeros(4, np.int64)
    with case.engine() as engine:
        for event, draw in enumerate(events.draw):
            if draw >= 0:
                node = events.node[event]
                slot = draw * (engine.samples().first[node + 1] - engine.samples().first[node])
                position = engine.samples().first[node] + int(slot)
                if len(engine.samples().accept) and slot % 1 >= engine.samples().accept[position]:
                    position = engine.samples().first[node] + engine.samples().alias[position]
                used[node] += min(4, rows[node] - engine.samples().kept[position])
    assert clock.gradients == used.sum()
    if compute == "independent":
        assert clock.nodes.max() >= 2.0 * used.max()
    steps = costs.expected()
    weights = np.bincount(events.node[events.draw >= 0], minlength=4)
    mean = weights @ (steps.local if compute == "independent" else steps.visit)
    assert used.sum() == pytest.approx(mean, rel=0.02)


def run_once(stop: Stop, threads: int, directory: Path | None = None) -> Any:
    problem = FiniteSum(small_shards(seed=11), get_loss("logistic"), 0.2)
    method = TVR(tokens=2, block_rows=3)
    experiment = prepare(problem, method, walk(build("complete", problem.n)), TimeModel(), 7)
    case = Setup(problem.shards, problem, method, experiment.facts, experiment.constants, experiment.schedule)
    with case.engine(threads) as engine:
        recording = Recording(every_passes=2.0)
        found = run(
            experiment, engine, stop, recording, directory=directory, identity="x", checkpointing=Checkpointing(None, 2)
        )
        return found, {name: array.tobytes() for name, array in engine.part().arrays.items()}


def test_equal_bits_for_any_number_of_threads_and_after_a_resume(tmp_path: Path) -> None:
    whole, state = run_once(Stop(passes=30), 1)
    run_once(Stop(passes=13), 2, tmp_path)
    rest, resumed = run_once(Stop(passes=30), 3, tmp_path)
    assert resumed == state
    assert [replace(r, wall=0.0) for r in rest.records] == [replace(r, wall=0.0) for r in whole.records]
    assert run_once(Stop(passes=30), 4)[1] == state


def test_log_names_the_first_row_of_a_block_and_replays_to_the_same_bits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 90, "features": 6, "store": str(tmp_path / "stores")},
        "nodes": 4,
        "sigma": 0.05,
        "record": {"every_passes": 2.0, "events": True},
    }
    method = {"_target_": "tvr", "block_rows": 5}
    first = dtoken.run(algorithm=method, directory=tmp_path / "a", stop={"passes": 10}, **settings)
    log = tmp_path / "a" / "events.parquet"
    again = dtoken.run(algorithm=method, directory=tmp_path / "b", replay=log, stop={"passes": 10}, **settings)
    assert again.theta.tobytes() == first.theta.tobytes()
    assert again.trajectory.drop(columns="wall").equals(first.trajectory.drop(columns="wall"))
    with pytest.raises(InputError, match=r"uses row \d+, in which no block of 4 rows begins"):
        dtoken.run(algorithm={"_target_": "tvr", "block_rows": 4}, replay=log, **settings)


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ({"_target_": "tvr", "block_rows": 0}, "block_rows=0, but a block has at least one row"),
        ({"_target_": "tvr", "block_rows": 2.5}, r"block_rows=2\.5 is not an integer"),
        ({"_target_": "tavr", "block_rows": 2}, "block_rows=2 is not for tavr: its local step solves an equation"),
        ({"_target_": "token", "block_rows": 0}, "block_rows=0, but a block has at least one row"),
        ({"_target_": "gd", "block_rows": -1}, "block_rows=-1, but a block has at least one row"),
        ({"_target_": "walkman", "block_rows": 2}, "block_rows=2 is not for walkman: its steps need all rows of a"),
        ({"_target_": "nids", "block_rows": 2}, "block_rows=2 is not for nids: its steps need all rows of a node"),
    ],
)
def test_what_is_refused(algorithm: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dtoken.run(algorithm=algorithm)
