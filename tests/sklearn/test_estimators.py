"""The estimators keep scikit-learn's contract, and find what its own solvers find."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import check_estimator

from dtoken.errors import InputError
from dtoken.sklearn import TokenClassifier, TokenRegressor

rng = np.random.default_rng(2)
X = rng.normal(size=(120, 4))
real = X @ [1.0, -0.5, 0.2, 0.0] + 0.3 * rng.normal(size=120)
classes = np.where(real + 0.5 * rng.normal(size=120) > 0.2, "yes", "no")
ROWS: dict[str, Any] = {"nodes": 4, "sigma": 0.1, "tolerance": 1e-12, "max_passes": 3000}


@pytest.mark.parametrize("kind", [TokenClassifier, TokenRegressor])
def test_scikit_learn_takes_it_for_an_estimator(kind: type[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(kind(), on_fail=None)
    assert len(found) > 40
    assert [check["check_name"] for check in found if check["status"] == "failed"] == []


def with_constant() -> np.ndarray:
    return np.column_stack([X, np.full(120, 3.0)])


def test_a_classifier_finds_what_logistic_regression_finds() -> None:
    ours = TokenClassifier("tavr", **ROWS).fit(X, classes)
    expected = LogisticRegression(C=1 / (120 * 0.1), fit_intercept=False, tol=1e-12, max_iter=1000)
    expected.fit(with_constant(), classes)
    np.testing.assert_allclose(ours.coef_, expected.coef_[:, :-1], atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, 3 * expected.coef_[:, -1], atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), expected.predict_proba(with_constant()), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(sp.csr_array(X)), expected.predict(with_constant()))
    assert ours.classes_.tolist() == ["no", "yes"]


def test_a_regressor_finds_what_ridge_and_poisson_regression_find() -> None:
    ours = TokenRegressor(graph=nx.cycle_graph(4), **ROWS).fit(X, real)
    expected = Ridge(alpha=120 * 0.1, fit_intercept=False, tol=1e-12).fit(with_constant(), real)
    np.testing.assert_allclose(ours.predict(X), expected.predict(with_constant()), atol=1e-5)
    counts = rng.poisson(np.exp(real / 2)).astype(float)
    rates = TokenRegressor("tavr", loss="poisson", fit_intercept=False, **ROWS).fit(X, counts).predict(X)
    expected = PoissonRegressor(alpha=0.1, fit_intercept=False, tol=1e-10).fit(X, counts)
    np.testing.assert_allclose(rates, expected.predict(X), rtol=1e-4)


def test_only_the_logistic_loss_has_probabilities() -> None:
    assert not hasattr(TokenClassifier(loss="smooth_hinge"), "predict_proba")
    assert hasattr(TokenClassifier(), "predict_proba")


def test_cross_validation_and_several_classes() -> None:
    bunch = load_breast_cancer()
    scaled = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    scores = cross_val_score(TokenClassifier("tavr", sigma=0.1, tolerance=1e-4), scaled, bunch.target, cv=3)
    assert scores.min() > 0.94
    three = np.digitize(real, [-0.5, 0.5])
    many = OneVsRestClassifier(TokenClassifier(tolerance=1e-4)).fit(X, three)
    assert many.score(X, three) > 0.6


def test_a_path_over_sigma_starts_where_the_last_one_ended(tmp_path: Path) -> None:
    sigmas = [1.0, 0.3, 0.1, 0.03]
    keywords: dict[str, Any] = {"nodes": 4, "tolerance": 1e-8, "max_passes": 3000}
    model = TokenRegressor("tvr", warm_folder=tmp_path, **keywords)
    search = GridSearchCV(model, {"sigma": sigmas}, cv=KFold(2), refit=False).fit(X, real)
    cold = GridSearchCV(TokenRegressor("tvr", **keywords), {"sigma": sigmas}, cv=KFold(2), refit=False).fit(X, real)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], cold.cv_results_["mean_test_score"], atol=1e-5)
    folds = sorted(tmp_path.iterdir())
    assert len(folds) == 2
    for fold in folds:
        assert sorted(float(each.name) for each in fold.iterdir()) == sorted(sigmas)
    fold = slice(60, 120)  # the rows of the first one
    again = clone_and_fit(model, X[fold], real[fold], 0.1)
    assert again.result_.directory is not None  # found, not fitted
    assert again.result_.directory.parent in folds
    assert again.result_.summary["config"]["algorithm"]["start"] == "warm"
    assert again.result_.summary["config"]["algorithm"]["start_from"].endswith("0.3")


def clone_and_fit(model: Any, rows: np.ndarray, y: np.ndarray, sigma: float) -> Any:
    from sklearn.base import clone

    return clone(model).set_params(sigma=sigma).fit(rows, y)


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only one class"):
        TokenClassifier().fit(X, np.ones(120))
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        TokenClassifier().fit(X, np.arange(120) % 3)
    with pytest.raises(InputError, match="the graph has 3 nodes but partition has 4"):
        TokenRegressor(graph=nx.path_graph(3), partition=np.arange(120) % 4).fit(X, real)
    with pytest.warns(ConvergenceWarning, match=r"after 1 passes, above tolerance=1e-06"):
        TokenRegressor(max_passes=1).fit(X, real)
    model = TokenRegressor({"_target_": "tvr", "tokens": 2}, warm_folder=tmp_path, tolerance=1e-3)
    model.fit(X, real)
    with pytest.raises(InputError, match="warm_folder needs the name of an algorithm"):
        model.set_params(sigma=1.0).fit(X, real)


def test_without_scikit_learn_the_import_is_a_sentence() -> None:
    program = "import sys; sys.modules['sklearn'] = None; import dtoken.sklearn"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "ImportError: dtoken.sklearn needs scikit-learn 1.6 or later" in found.stderr.splitlines()[-1]
