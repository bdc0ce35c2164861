"""Which p_comm is chosen, against a search for the shortest run; what a table says of others, against predictions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.loop.prediction import predict, theory_table
from dtoken.theory.dual_descent import Sampling, dual_descent
from dtoken.theory.local_work import LEAST, Times, choose_p_comm, rate_share, reads_a_visit
from tests.engine.loop.test_prediction import Planned
from tests.engine.small import setup, small_shards

seconds = st.floats(1e-7, 1e-1)
now_and_then = st.sampled_from([0.0, 1e-5, 1e-2])


def length(p: Any, balanced: float, times: Times, tokens: int, jumps: int, workers: int, samples: float) -> Any:
    """Seconds of a run by the proved contraction: the slowest of computing, tokens, link and reads, per step."""
    computing = (p * times.visit + (1 - p) * times.local) / workers
    between_visits = 1 / (p + (1 - p) / samples)  # steps in which a given sample of a node is used, or the node visited
    reading = p * (1 - p) * between_visits * times.read
    travelling = np.maximum(p * jumps * times.hop / tokens, p * times.link)
    slowest = np.maximum(computing, np.maximum(travelling, reading))
    return slowest / np.minimum(p / balanced, (1 - p) / (1 - balanced))


@given(
    balanced=st.floats(0.01, 0.9),
    times=st.builds(Times, seconds, seconds, seconds, now_and_then, now_and_then),
    tokens=st.integers(1, 8),
    jumps=st.integers(1, 5),
    workers=st.integers(1, 16),
    samples=st.sampled_from([1.0, 30.0, 1e5]),
)
def test_no_other_p_comm_promises_a_shorter_run(
    balanced: float, times: Times, tokens: int, jumps: int, workers: int, samples: float
) -> None:
    setting = (balanced, times, tokens, jumps, workers, samples)
    chosen = choose_p_comm(*setting)
    assert LEAST * balanced <= chosen <= balanced
    others = np.linspace(0.001, 0.999, 2000)
    best = length(chosen, *setting)
    assert best <= length(others, *setting).min() * (1 + 1e-9)
    if chosen > LEAST * balanced * (1 + 1e-9):  # and a smaller one promises a longer run
        assert length(0.99 * chosen, *setting) > best


@given(
    balanced=st.floats(0.01, 0.9),
    times=st.builds(Times, seconds, seconds, seconds, st.sampled_from([0.0, 1e-5, 1e-2])),
    slower=st.floats(1.0, 1e6),
    workers=st.integers(1, 16),
)
def test_slower_hops_mean_more_local_steps_and_slower_reads_do_not(
    balanced: float, times: Times, slower: float, workers: int
) -> None:
    chosen = choose_p_comm(balanced, times, 2, 1, workers)
    assert choose_p_comm(balanced, times._replace(hop=times.hop * slower), 2, 1, workers) <= chosen
    assert choose_p_comm(balanced, times._replace(read=times.read * slower), 2, 1, workers) >= chosen
    assert choose_p_comm(balanced, times._replace(local=times.local * slower), 2, 1, workers) >= chosen
    assert choose_p_comm(balanced, times, 4, 1, workers) >= chosen  # more tokens, less waiting


@given(
    share=st.floats(1e-3, 3.0), K=st.integers(1, 4), L=st.floats(0.1, 100.0), n=st.integers(2, 20), m=st.integers(1, 50)
)
def test_share_of_the_contraction(share: float, K: int, L: float, n: int, m: int) -> None:
    sampling, pi = Sampling(n * m, n * m * (1 + L), 0.0), np.full(n, 1 / n)
    best = dual_descent(K, 1.0, m * L, sampling, pi)
    p_comm = min(share * best.balanced, 0.99)
    other = dual_descent(K, 1.0, m * L, sampling, pi, p_comm=p_comm)
    assert best.p_comm == best.balanced == other.balanced
    assert other.p_comm == p_comm
    assert other.rate == pytest.approx(best.rate * rate_share(p_comm, best.balanced), rel=1e-9)
    assert other.rate <= best.rate * (1 + 1e-9)
    assert other.rho_comm.max() <= 0.5 * (1 + 1e-12)
    assert other.rho_comp <= (1 + 1e-12) / (1 + L)


@pytest.mark.parametrize("samples", [1, 5, 40])
@pytest.mark.parametrize("p_comm", [0.4, 0.05])
def test_reads_are_what_a_node_uses_between_visits(samples: int, p_comm: float) -> None:
    """Against drawn steps of one node: the number of its different samples from visit to visit."""
    rng, used, found = np.random.default_rng(0), set(), []
    for visit, sample in zip(rng.random(200_000) < p_comm, rng.integers(samples, size=200_000), strict=True):
        if visit:
            found.append(len(used))
            used = set()
        else:
            used.add(int(sample))
    assert np.mean(found) == pytest.approx(reads_a_visit(p_comm, samples), rel=0.03)


@pytest.mark.parametrize("method", [TVR(tokens=2), TAVR(tokens=2), Token(), TVR(block_rows=4), TAVR(jumps=3)], ids=repr)
def test_table_of_other_p_comm(method: Any) -> None:
    """Per factor e: as many visits for every p_comm below the balanced one, and gradients as (1 - p_comm) / p_comm."""
    planned = Planned(setup(small_shards(), method))
    balanced = planned.constants.balanced
    table, visits, gradients, reads = theory_table(planned), [], [], []
    for part in (1, 2, 4, 8):
        other = Planned(setup(small_shards(), replace(method, p_comm=balanced / part)))
        costs, which = predict(other).costs(), f"p_comm balanced / {part}"
        assert costs is not None
        assert table[f"gradients per factor e, {which}"] == pytest.approx(costs["gradients"], rel=1e-9)
        assert table[f"jumps per factor e, {which}"] == pytest.approx(costs["jumps"], rel=1e-9)
        of_other = theory_table(other)
        assert of_other["rows read per factor e"] == pytest.approx(of_other[f"rows read per factor e, {which}"])
        for row in (row for row in table if "p_comm balanced" in row):
            assert of_other[row] == pytest.approx(table[row], rel=1e-9)
        visits.append(costs["jumps"] / other.law.jumps)
        gradients.append(costs["gradients"])
        reads.append(float(table[f"rows read per factor e, {which}"]))
    assert visits[-1] == pytest.approx(visits[0], rel=0.05)
    assert gradients[-1] > 7.5 * gradients[0]
    assert reads[0] <= gradients[0]
    assert 1 <= reads[-1] / reads[0] < 0.9 * gradients[-1] / gradients[0]  # a gradient takes fewer reads
    if isinstance(method, Token):
        assert reads[-1] <= visits[-1] * planned.facts.rows.max()  # a shard at most once a visit
