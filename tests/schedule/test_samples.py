"""From uniform numbers to samples: the exact law, as the measure of the numbers that lead to each sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.schedule.events import GIVEN, NO_SAMPLE
from dtoken.schedule.samples import no_samples, row_of, uniform_samples, weighted_samples
from tests.engine.small import InMemory, setup, small_shards

FIRST = np.array([0, 4, 9], np.int64)  # two nodes with 4 and 5 rows
COUNTED = [np.array([0, 2, 3], np.int32), np.array([1, 4], np.int32)]  # those that are not empty
KEPT = np.array([0, 3, 5]), np.concatenate(COUNTED)


def law(samples: object, node: int, size: int, numbers: int = 60_000) -> np.ndarray:
    """Share of an even grid of numbers in [0, 1) that leads to each row of the node."""
    rows = [row_of(samples, FIRST, node, (k + 0.5) / numbers) - FIRST[node] for k in range(numbers)]
    return np.bincount(rows, minlength=size) / numbers


def test_uniform() -> None:
    samples = uniform_samples(*KEPT)
    np.testing.assert_allclose(law(samples, 0, 4), [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-4)
    np.testing.assert_allclose(law(samples, 1, 5), [0, 0.5, 0, 0, 0.5], atol=1e-4)


def test_weighted() -> None:
    samples = weighted_samples(*KEPT, np.array([1.0, 5.0, 2.0, 3.0, 1.0]))
    np.testing.assert_allclose(law(samples, 0, 4), [1 / 8, 0, 5 / 8, 2 / 8], atol=1e-4)
    np.testing.assert_allclose(law(samples, 1, 5), [0, 3 / 4, 0, 0, 1 / 4], atol=1e-4)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30))
def test_alias_table_has_the_given_law(weights: list[float]) -> None:
    """Slot j is hit with probability 1/m and kept with accept[j]: add up where the weight goes, without sampling."""
    w = np.array(weights)
    samples = weighted_samples(np.array([0, len(w)]), np.arange(len(w), dtype=np.int32), w)
    share = np.zeros(len(w))
    for slot in range(len(w)):
        assert 0 <= samples.accept[slot] <= 1
        share[slot] += samples.accept[slot] / len(w)
        share[samples.alias[slot]] += (1 - samples.accept[slot]) / len(w)
    np.testing.assert_allclose(share, w / w.sum(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("draw", [0.0, np.nextafter(1.0, 0.0)])
def test_ends_of_the_interval_stay_inside(draw: float) -> None:
    for samples in (uniform_samples(*KEPT), weighted_samples(*KEPT, np.ones(5))):
        for node in (0, 1):
            assert row_of(samples, FIRST, node, draw) - FIRST[node] in COUNTED[node]


def test_draws_that_name_the_sample() -> None:
    for samples in (uniform_samples(*KEPT), weighted_samples(*KEPT, np.ones(5))):
        assert [row_of(samples, FIRST, 1, GIVEN - j) for j in range(5)] == [4, 5, 6, 7, 8]
        assert row_of(samples, FIRST, 1, NO_SAMPLE) == -1


def test_methods_on_all_rows_draw_none() -> None:
    assert row_of(no_samples(2), FIRST, 1, 0.3) == -1
    with setup(small_shards(), Token()).engine() as engine:
        assert row_of(engine.samples(), engine.rows.first, 2, 0.3) == -1


@pytest.mark.parametrize("sampling", ["uniform", "importance"])
def test_law_of_node_and_sample_together(sampling: str) -> None:
    """p_ij = (1 + L_ij / sigma~) / N_c, or 1 over the number of samples: law of the node times law inside the node."""
    shards = small_shards(n=4, m=6, seed=9)
    case = setup(shards, TVR(tokens=2, sampling=sampling), sigma=0.02)
    sigma_t = 4 * 0.02 / 6
    with case.engine() as engine:
        samples, rows = engine.samples(), engine.rows
    inside = []
    for i in range(4):
        draws = [row_of(samples, rows.first, i, (k + 0.5) / 20_000) - rows.first[i] for k in range(20_000)]
        inside.append(np.bincount(draws, minlength=len(shards.y[i])) / 20_000)
    p = np.concatenate([case.schedule.law.nodes[i] * inside[i] for i in range(4)])
    L = np.concatenate([0.25 * (A**2).sum(axis=1) / len(A) for A in shards.A])
    weight = (L > 0) * (1 + L / sigma_t if sampling == "importance" else 1.0)
    assert (p[L == 0] == 0).all()
    np.testing.assert_allclose(p, weight / weight.sum(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("sampling", ["uniform", "importance"])
def test_a_node_with_empty_rows_only_takes_no_steps(sampling: str) -> None:
    shards = small_shards(n=4, seed=10)
    shards = InMemory([np.zeros_like(shards.A[0]), *shards.A[1:]], shards.y)
    case = setup(shards, TVR(tokens=2, sampling=sampling))
    events = case.events(5000)
    assert not (events.node[events.kind == 0] == 0).any()
    with case.engine(2) as engine:
        engine.run(events)
        assert np.isfinite(engine.nodes.theta).all()
