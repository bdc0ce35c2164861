"""Out-of-core experiments with token algorithms for decentralised optimisation.

The methods and their theory are those of H. Hendrikx, *A principled framework for the design and analysis of
token algorithms* (2022).

    run         run a method, on a dataset that comes with dtoken, a file, or arrays of your own
    predict     what the theory says about methods, without running them
    Result      what a run found
    collect     several results in one table and one figure
    load        the same for the runs of a sweep, from its directory
    Results     what both return

    dtoken.sklearn      TokenClassifier and TokenRegressor, estimators of scikit-learn
    dtoken.testing      check_method and check_loss, for a method or a loss of your own
    dtoken.report       make_report, the page about a sweep
    dtoken.errors       InputError (what was asked for cannot be done), RunError (the machine or a file failed)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from dtoken.api import predict, run
    from dtoken.session.result import Result
    from dtoken.sweep.collect import collect, load
    from dtoken.sweep.results import Results

__all__ = ["Result", "Results", "__version__", "collect", "load", "predict", "run"]

# loaded when first used: numba and scipy take a second to import
_MODULES = {
    "Result": "dtoken.session.result",
    "Results": "dtoken.sweep.results",
    "collect": "dtoken.sweep.collect",
    "load": "dtoken.sweep.collect",
    "predict": "dtoken.api",
    "run": "dtoken.api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("dtoken")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
