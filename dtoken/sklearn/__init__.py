"""Token methods as scikit-learn estimators: nodes and tokens inside, ``fit`` and ``predict`` outside."""

try:
    from dtoken.sklearn.estimators import TokenClassifier, TokenRegressor
except ImportError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ImportError(
        "dtoken.sklearn needs scikit-learn 1.6 or later; install it, or dtoken with its extra [sklearn]"
    ) from error

__all__ = ["TokenClassifier", "TokenRegressor"]
