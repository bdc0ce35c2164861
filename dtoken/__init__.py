"""Out-of-core experiments with token algorithms for decentralised optimisation.

The methods and their theory are those of H. Hendrikx, *A principled framework for the design and analysis of
token algorithms* (2022).
"""

from typing import TYPE_CHECKING, Any

from dtoken.version import __version__

if TYPE_CHECKING:
    from dtoken.api import predict, run
    from dtoken.session.result import Result
    from dtoken.sweep.collect import Results, load

__all__ = ["Result", "Results", "__version__", "load", "predict", "run"]


def __getattr__(name: str) -> Any:
    # loaded when first used: numba and scipy take a second to import
    if name in ("predict", "run"):
        from dtoken import api

        return getattr(api, name)
    if name == "Result":
        from dtoken.session.result import Result

        return Result
    if name in ("Results", "load"):
        from dtoken.sweep import collect

        return getattr(collect, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
