"""Two estimators: a linear classifier and a linear regressor, trained by a token method.

``fit`` is one run: the rows become the shards of ``nodes`` nodes, in a folder that is gone afterwards, and the model is
the mean of the tokens.
"""

import hashlib
import json
import math
import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from dtoken.api import run
from dtoken.data.arrays import Arrays
from dtoken.data.labels import Labels
from dtoken.errors import InputError
from dtoken.session.files import DONE, load_summary
from dtoken.session.result import Result

SPARSE = ("csr", "csc", "coo")


class _TokenModel(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    def __init__(
        self,
        algorithm: Any = "tvr",
        graph: Any = "complete",
        nodes: int = 4,
        *,
        sigma: float = 1e-2,
        loss: Any = "logistic",
        fit_intercept: bool = True,
        intercept_scale: float = 3.0,
        partition: Any = "shuffled",
        tolerance: float = 1e-6,
        max_passes: float = 500.0,
        seed: int = 0,
        warm_folder: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.graph = graph
        self.nodes = nodes
        self.sigma = sigma
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.partition = partition
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.seed = seed
        self.warm_folder = warm_folder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, X: Any, y: Any, labels: Labels) -> Result:
        """Run the method on rows that are checked already."""
        keywords = {
            "nodes": min(self.nodes, X.shape[0]) if isinstance(self.graph, str) else None,
            "graph": self.graph,
            "partition": self.partition,
            "seed": self.seed,
            "stop": {"suboptimality": self.tolerance, "passes": self.max_passes},
        }
        problem = {
            "loss": self.loss,
            "sigma": self.sigma,
            "intercept": self.fit_intercept,
            "intercept_scale": self.intercept_scale,
        }
        own, nearest = self._earlier(X, y, keywords, problem)
        if own is not None and _is_done(own):
            result = Result.load(own)
        else:
            with TemporaryDirectory() as stores:
                data = {"X": X, "y": y, "labels": labels, "store": Path(stores)}
                algorithm = self.algorithm if nearest is None else self._started(nearest)
                result = run(data, algorithm=algorithm, problem=problem, directory=own, **keywords)
        self.n_iter_ = max(1, math.ceil(result.records[-1].passes))
        if not result.records[-1].suboptimality <= self.tolerance:
            warnings.warn(
                f"F - F* is {result.records[-1].suboptimality:.1g} after {self.max_passes:g} passes, above "
                f"tolerance={self.tolerance:g}; scale the features, or use a larger sigma or max_passes",
                ConvergenceWarning,
                stacklevel=3,
            )
        return result

    def _earlier(
        self, X: Any, y: Any, keywords: dict[str, Any], problem: dict[str, Any]
    ) -> tuple[Path | None, Path | None]:
        """Where this run belongs, and the run on the same rows with the nearest sigma; None: there is none."""
        if self.warm_folder is None:
            return None, None
        rest = {key: value for key, value in problem.items() if key != "sigma"} | keywords
        edges = sorted(self.graph.edges) if hasattr(self.graph, "edges") else None
        content = [Arrays(X, y).identity(), rest, str(self.algorithm), edges]
        name = hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()[:16]
        folder = Path(self.warm_folder) / name
        own = folder / repr(float(self.sigma))
        if not _is_done(own):
            shutil.rmtree(own, ignore_errors=True)  # it was interrupted, and may have had another start
        done = [each for each in folder.glob("*") if _is_done(each)]
        nearest = min(done, key=lambda each: abs(math.log(float(each.name) / self.sigma)), default=None)
        return own, nearest

    def _started(self, nearest: Path) -> dict[str, str]:
        if not isinstance(self.algorithm, str):
            raise InputError("warm_folder needs the name of an algorithm, because it adds the start to its keys")
        return {"_target_": self.algorithm, "start": "warm", "start_from": str(nearest)}

    def _margins(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=SPARSE, reset=False)
        return safe_sparse_dot(X, np.ravel(self.coef_)) + np.ravel(self.intercept_)[0]


def _is_done(directory: Path) -> bool:
    return (load_summary(directory) or {}).get("status") == DONE


def _is_logistic(estimator: Any) -> bool:
    return bool(estimator.loss == "logistic")


class TokenClassifier(ClassifierMixin, _TokenModel):  # type: ignore[misc]
    """A linear classifier of two classes, trained by a token method; more classes by ``OneVsRestClassifier``.

    Parameters
    ----------
    algorithm, graph, nodes, partition, seed
        As for ``dtoken.run``; fewer nodes where there are fewer rows.
    sigma
        Regularisation of each node: the mean loss of a node's rows + sigma/2 times the squared norm of the weights.
    loss
        ``logistic`` (which alone has probabilities), ``smooth_hinge``, or a loss of your own for classes.
    fit_intercept, intercept_scale
        As ``problem.intercept``: the intercept is regularised 1 / intercept_scale^2 as much as a weight.
    tolerance, max_passes
        The run ends when F - F* is at most the tolerance, or after so many passes, with a ``ConvergenceWarning``.
    warm_folder
        A folder in which fits leave their runs. One that finds the same rows there with another sigma starts from the
        nearest one, which makes a path over sigma in ``GridSearchCV`` cheap; the same sigma is not fitted again.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
    n_iter_ : int
        Passes over the data.
    result_ : dtoken.Result

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), TokenClassifier("tavr", sigma=0.1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Run the method on the rows; the estimator itself."""
        X, y = validate_data(self, X, y, accept_sparse=SPARSE, dtype=np.float64)
        check_classification_targets(y)
        if type_of_target(y, input_name="y", raise_unknown=True) not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {type_of_target(y)}")
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass; "
                "OneVsRestClassifier makes several classes of two"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}")
        self.result_ = self._fit(X, numbers, "classes")
        self.coef_ = self.result_.coefficients[None, :]
        self.intercept_ = np.array([self.result_.intercept])
        return self

    def decision_function(self, X: Any) -> Any:
        """The margin of each row: positive for the second class."""
        return self._margins(X)

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        margins = self._margins(X)
        return self.classes_[(margins > 0).astype(int)]

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The probabilities of both classes, (rows, 2); of the logistic loss only."""
        from scipy.special import expit

        margins = self._margins(X)
        return np.column_stack([expit(-margins), expit(margins)])


class TokenRegressor(RegressorMixin, _TokenModel):  # type: ignore[misc]
    """A linear regressor, trained by a token method.

    Parameters
    ----------
    algorithm, graph, nodes, partition, seed, sigma, fit_intercept, intercept_scale, tolerance, max_passes, warm_folder
        As for ``TokenClassifier``.
    loss
        ``squared``, ``huber``, ``poisson`` (which predicts rates), or a loss of your own for numbers.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Passes over the data.
    result_ : dtoken.Result

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
    >>> model = TokenRegressor(sigma=1e-4, nodes=2, tolerance=1e-9).fit(X, y)
    >>> model.predict([[4.0]]).round(2)
    array([9.])
    """

    def __init__(
        self,
        algorithm: Any = "tvr",
        graph: Any = "complete",
        nodes: int = 4,
        *,
        sigma: float = 1e-2,
        loss: Any = "squared",
        fit_intercept: bool = True,
        intercept_scale: float = 3.0,
        partition: Any = "shuffled",
        tolerance: float = 1e-6,
        max_passes: float = 500.0,
        seed: int = 0,
        warm_folder: Any = None,
    ) -> None:
        super().__init__(
            algorithm,
            graph,
            nodes,
            sigma=sigma,
            loss=loss,
            fit_intercept=fit_intercept,
            intercept_scale=intercept_scale,
            partition=partition,
            tolerance=tolerance,
            max_passes=max_passes,
            seed=seed,
            warm_folder=warm_folder,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Run the method on the rows; the estimator itself."""
        X, y = validate_data(self, X, y, accept_sparse=SPARSE, dtype=np.float64, y_numeric=True)
        self.result_ = self._fit(X, y, "real")
        self.coef_ = self.result_.coefficients
        self.intercept_ = self.result_.intercept
        return self

    def predict(self, X: Any) -> Any:
        """The number that each row is predicted to have."""
        margins = self._margins(X)
        return np.exp(margins) if self.loss == "poisson" else margins
