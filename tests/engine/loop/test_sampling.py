"""Record points on a sample: estimates with the errors that they say, the same on every engine, exact at the ends."""

import math

import numpy as np
import pytest

import dtoken
from dtoken.engine.loop.sampling import draw, estimate
from dtoken.engine.loop.settings import Recording
from dtoken.errors import InputError
from dtoken.problem.kernels import exact_parts

RUN = {
    "data": {"kind": "synthetic", "rows": 600, "features": 8, "seed": 1},
    "nodes": 12,
    "sigma": 1e-2,
    "algorithm": {"_target_": "tvr", "tokens": 6, "start": "zero"},
    "stop": {"passes": 4},
}


def run(**record):
    return dtoken.run(**RUN, record=record).trajectory


def test_estimates_are_within_their_errors_and_exact_at_the_ends():
    exact, sampled = run(every_passes=0.1), run(every_passes=0.1, sample=120, tokens=3)
    assert "objective_error" not in exact
    off = (sampled.suboptimality - exact.suboptimality).to_numpy()
    error = sampled.objective_error.to_numpy()
    assert error[0] == error[-1] == off[0] == off[-1] == 0
    assert (error[1:-1] > 0).all()
    scores = off[1:-1] / error[1:-1]
    assert abs(scores.mean()) < 4 / math.sqrt(len(scores))
    assert 0.5 < scores.std() < 1.6  # normal, as far as some forty independent samples tell
    for name in ("distance", "consensus", "event", "time"):
        np.testing.assert_array_equal(sampled[name], exact[name])
    np.testing.assert_allclose(sampled.objective - sampled.suboptimality, exact.objective[0] - exact.suboptimality[0])


def test_a_sample_of_everything_is_exact():
    exact, sampled = run(), run(sample=10**6, tokens=100)
    np.testing.assert_allclose(sampled.suboptimality, exact.suboptimality, rtol=1e-9, atol=1e-12)
    assert (sampled.objective_error == 0).all()


def test_the_end_is_an_estimate_only_where_that_is_asked_for():
    sampled = run(sample=50, exact_ends=False)
    assert (sampled.objective_error > 0).all()


def test_samples_depend_on_seed_and_event_only():
    rows = np.array([3, 1, 4, 2])
    first = draw(Recording(sample=5), rows, 4, seed=1, event=7)
    again = draw(Recording(sample=5), rows, 4, seed=1, event=7)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert (first.rows < rows[first.nodes]).all()
    assert len(set(zip(first.nodes, first.rows, strict=True))) == 5
    everything = draw(Recording(tokens=2), rows, 4, seed=1, event=7)
    assert list(zip(everything.nodes.tolist(), everything.rows.tolist(), strict=True)) == [
        (node, row) for node in range(4) for row in range(rows[node])
    ]


def test_the_standard_error_is_that_of_many_samples():
    """Rows alone, tokens alone: the textbook's variance of a mean without replacement, by drawing very often."""
    rng = np.random.default_rng(0)
    excess, ridge = rng.gamma(1.0, size=(40, 6)), rng.gamma(1.0, size=6)
    truth = excess.mean(axis=1).sum() + ridge.mean()
    for size, count in ((10, 6), (40, 3)):
        found = []
        for _ in range(4000):
            rows, tokens = rng.choice(40, size, replace=False), rng.choice(6, count, replace=False)
            found.append(estimate(excess[np.ix_(rows, tokens)], 40, ridge[tokens], 6))
        values, errors = np.array(found).T
        assert values.mean() == pytest.approx(truth, abs=4 * values.std() / math.sqrt(4000))
        assert np.mean(errors**2) == pytest.approx(values.var(), rel=0.1)


@pytest.mark.parametrize("key", ["sample", "tokens"])
@pytest.mark.parametrize("value", [1, 0, -5])
def test_samples_without_a_standard_error_are_refused(key, value):
    with pytest.raises(InputError, match=rf"record.{key}={value} has no standard error; use at least 2"):
        Recording(**{key: value})


def test_parts_have_the_sum_of_all():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((500, 3)) * 10.0 ** rng.integers(-30, 30, (500, 3))
    parts = exact_parts(values)
    assert [math.fsum(column) for column in parts.T] == [math.fsum(column) for column in values.T]


def test_many_models_on_many_nodes_have_the_bits_of_few(monkeypatch):
    whole = run()
    monkeypatch.setattr("dtoken.engine.runner.TABLE", 24)
    np.testing.assert_array_equal(run().objective, whole.objective)
