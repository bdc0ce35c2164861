"""Losses in files of their own: found, checked, and the same to every method as those that are compiled in."""

import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import PoissonRegressor, Ridge

import dtoken
from dtoken.config.settings import make_settings
from dtoken.data.arrays import Arrays
from dtoken.data.build import Watcher
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.errors import InputError
from dtoken.problem.examples.huber import Huber
from dtoken.problem.examples.poisson import Poisson
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import optimum
from dtoken.session.prepare import prepare_run
from dtoken.testing import LossFailed, check_loss

rng = np.random.default_rng(3)
X = rng.normal(size=(60, 5)) / 2
weights = np.array([1.0, -0.5, 0.3, 0.0, 0.8])
real = X @ weights + rng.standard_t(2, size=60)
counts = rng.poisson(np.exp(X @ weights)).astype(float)

LOG_COSH = """
import math

class LogCosh:
    curvature = 1.0
    classification = False

    @staticmethod
    def value(t, y):
        size = abs(t - y)
        return size + math.log1p(math.exp(-2 * size)) - math.log(2)

    @staticmethod
    def derivative(t, y):
        return math.tanh(t - y)

    @staticmethod
    def second(t, y):
        return 1 - math.tanh(t - y) ** 2
"""


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "losses_of_mine.py"
    file.write_text(LOG_COSH)
    yield file
    sys.modules.pop("losses_of_mine", None)


@pytest.mark.parametrize("kind", [Huber, Poisson])
def test_examples_are_what_they_say(kind: type[Any]) -> None:
    check_loss(kind)


def minimum(loss: str, y: np.ndarray, sigma: float, tmp_path: Path) -> np.ndarray:
    store = ingest(Arrays(X, y), Partition(3), root=tmp_path, labels="real")
    return optimum(FiniteSum(store, get_loss(loss), sigma)).theta


def test_poisson_is_the_regression_of_scikit_learn(tmp_path: Path) -> None:
    expected = PoissonRegressor(alpha=0.1, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X, counts)
    np.testing.assert_allclose(minimum("poisson", counts, 0.1, tmp_path), expected.coef_, atol=1e-9)


def test_huber_is_the_minimum_that_scipy_finds(tmp_path: Path) -> None:
    def objective(theta: np.ndarray) -> float:
        size = np.abs(X @ theta - real)
        return float(np.mean(np.where(size <= 1, size**2 / 2, size - 0.5)) + 0.05 * theta @ theta)

    expected = minimize(objective, np.zeros(5), tol=1e-12)
    np.testing.assert_allclose(minimum("huber", real, 0.1, tmp_path), expected.x, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["tvr", "tavr", "sdca", "gd"])
def test_methods_reach_the_optimum_of_a_loss_in_a_file(algorithm: str, own_file: Path, tmp_path: Path) -> None:
    data = {"X": X, "y": real, "store": tmp_path}
    loss = {"loss": "losses_of_mine.LogCosh", "sigma": 0.2}
    stop = {"suboptimality": 1e-10, "passes": 3000}
    found = dtoken.run(data, nodes=3, algorithm=algorithm, problem=loss, stop=stop)

    def objective(theta: np.ndarray) -> float:
        return float(np.mean(np.log(np.cosh(X @ theta - real))) + 0.1 * theta @ theta)

    expected = minimize(objective, np.zeros(5), tol=1e-12)
    assert found.trajectory.objective.iloc[-1] / 3 == pytest.approx(expected.fun, abs=1e-9)
    np.testing.assert_allclose(found.theta, expected.x, atol=1e-4)


def test_the_same_bits_with_any_number_of_threads(own_file: Path, tmp_path: Path) -> None:
    data = {"X": X, "y": real, "store": tmp_path}
    loss = {"loss": "losses_of_mine.LogCosh"}
    one, three = (
        dtoken.run(data, nodes=4, algorithm="tavr", problem=loss, threads=threads, stop={"passes": 5})
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one.nodes, three.nodes)


def test_what_was_computed_with_another_file_is_not_taken(own_file: Path, tmp_path: Path) -> None:
    before = get_loss("losses_of_mine.LogCosh")
    assert get_loss("losses_of_mine.LogCosh").key == before.key
    sys.modules.pop("losses_of_mine")
    own_file.write_text(LOG_COSH.replace("math.log(2)", "0.5"))
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    assert get_loss("losses_of_mine.LogCosh").key != before.key


class Falling(Huber):
    @staticmethod
    def derivative(t: float, y: float) -> float:
        return y - t


class Concave(Huber):
    @staticmethod
    def second(t: float, y: float) -> float:
        return -1.0


class Flat(Huber):
    curvature = 0.5


class WrongSecond(Huber):
    @staticmethod
    def second(t: float, y: float) -> float:
        return 0.5


class Infinite(Huber):
    @staticmethod
    def value(t: float, y: float) -> float:
        return math.log(math.cosh(t - y))

    @staticmethod
    def derivative(t: float, y: float) -> float:
        return math.tanh(t - y)

    @staticmethod
    def second(t: float, y: float) -> float:
        return 1.0 - math.tanh(t - y) ** 2


class NoCurvature(Huber):
    curvature = None


class NoStatic(Huber):
    def value(self, t: float, y: float) -> float:
        return 0.0


class NotCompiled(Huber):
    @staticmethod
    def value(t: float, y: float) -> float:
        return missing_name(t)  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Falling, "derivative is .* but value grows at"),
        (Concave, "phi'' is -1 .* not convex"),
        (Flat, "phi'' is 1 .* more than curvature=0.5"),
        (WrongSecond, "second is 0.5 .* but derivative grows at"),
        (Infinite, "value is inf at t=-10000"),
        (NoCurvature, "has curvature=None; give a number"),
        (NoStatic, r"needs a static function value\(t, y\)"),
        (NotCompiled, "value cannot be compiled .*missing_name"),
    ],
)
def test_mistakes_in_a_loss_are_found(kind: type[Any], words: str) -> None:
    with pytest.raises(LossFailed, match=words):
        check_loss(kind)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hubber", "problem.loss=hubber is not known; did you mean huber"),
        ("nowhere.Loss", "problem.loss=nowhere.Loss cannot be imported"),
        ("losses_of_mine.Missing", "cannot be imported"),
        ("losses_of_mine.math", "has curvature=None"),
    ],
)
def test_losses_that_are_not_there(name: str, words: str, own_file: Path) -> None:
    with pytest.raises(InputError, match=words):
        make_settings(problem={"loss": name})


def test_counts_are_not_negative(tmp_path: Path) -> None:
    for y in (real, np.where(counts > 0, 1, 0)):  # two values are classes, -1 and +1
        with pytest.raises(InputError, match=r"needs labels of at least 0, but one is -.*data.labels=real"):
            dtoken.run({"X": X, "y": y, "store": tmp_path}, nodes=3, loss="poisson")


def test_a_run_says_where_poisson_is_no_poisson(tmp_path: Path) -> None:
    notes: list[str] = []
    for scale in (1, 100):
        data = {"X": X, "y": scale * counts, "store": tmp_path}
        prepare_run(make_settings(data, 3, problem={"loss": "poisson", "sigma": 1e-3}), Watcher(note=notes.append))
    (note,) = notes
    assert "problem.loss=poisson is another function above the margin 3, and at the optimum" in note


def test_an_intercept_is_a_column_of_threes(tmp_path: Path) -> None:
    y = X @ weights + 2.0
    problem = {"loss": "squared", "sigma": 0.1, "intercept": True}
    stop = {"suboptimality": 1e-14, "passes": 3000}
    found = dtoken.run({"X": X, "y": y, "store": tmp_path}, nodes=3, problem=problem, stop=stop)
    expected = Ridge(alpha=60 * 0.1, fit_intercept=False, tol=1e-12).fit(np.column_stack([X, np.full(60, 3.0)]), y)
    np.testing.assert_allclose(found.coefficients, expected.coef_[:-1], atol=1e-6)
    assert found.intercept == pytest.approx(3 * expected.coef_[-1], abs=1e-6)
    assert dtoken.run({"X": X, "y": y, "store": tmp_path}, nodes=3, loss="squared", stop={"passes": 1}).intercept == 0


def test_an_intercept_needs_data_to_be_ingested() -> None:
    with pytest.raises(InputError, match=r"problem.intercept=true adds a column at ingest"):
        make_settings({"kind": "synthetic", "store": "s3://bucket/store.zarr"}, problem={"intercept": True})
