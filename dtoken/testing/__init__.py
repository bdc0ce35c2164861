"""Checks of a method or a loss of one's own: does it keep what dtoken promises of all of them?

``check_method`` runs a class through everything that its bits must not depend on, and says what fails; ``check_loss``
compares a loss with what methods and theory take it for.
"""

import sys
from contextlib import ExitStack
from multiprocessing import current_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dtoken.testing.case import make_case
from dtoken.testing.checks import CHECKS, ON_WORKERS, Failed, check_members, check_optimum
from dtoken.testing.loss import LossFailed, check_loss
from dtoken.testing.workers import Workers

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LossFailed", "MethodFailed", "check_loss", "check_method"]


class MethodFailed(AssertionError):
    """Checks that a method did not pass: ``failures`` has the reason of each."""

    def __init__(self, title: str, failures: dict[str, str]) -> None:
        self.failures = failures
        super().__init__(f"{title} failed " + "; ".join(f"{name}: {why}" for name, why in failures.items()))


def check_method(kind: type[Any], *, converges: bool = True, client: "Client | None" = None, **parameters: Any) -> None:
    """Run a method through the contract, print a line for each check, and raise ``MethodFailed`` if one fails.

    Parameters
    ----------
    kind
        The class of the method.
    converges
        Whether it is to reach the optimum of a small, well-conditioned problem.
    client
        Of a Dask cluster with two or more workers; None: two are started on this machine.
    **parameters
        Values of the method's keys; the others have their defaults.

    Examples
    --------
    >>> from dtoken.algorithms.tvr import TVR
    >>> check_method(TVR, tokens=0)
    Traceback (most recent call last):
        ...
    dtoken.testing.MethodFailed: TVR failed members: algorithm.tokens=0, but a token method needs at least one
    """
    if getattr(current_process(), "_inheriting", False):
        return  # a worker process, which runs the user's script once more before it begins
    failures: dict[str, str] = {}

    def passes(name: str, check: Any, *arguments: Any) -> Any:
        try:
            found = check(*arguments)
        except Failed as failure:
            failures[name] = str(failure)
        except Exception as error:  # of the method: what it is belongs to the list
            text = str(error).strip().splitlines() or [""]
            failures[name] = text[0] if isinstance(error, ValueError) else f"{type(error).__name__}: {text[0]}"
        else:
            _say(f"{name:<12} ok")
            return found
        _say(f"{name:<12} FAILED: {failures[name]}")
        return None

    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        method = passes("members", check_members, kind, parameters)
        case = None if method is None else passes("parts", make_case, method, folder)
        if case is not None:
            for name, check in CHECKS.items():
                passes(name, check, case)
            if converges:
                passes("optimum", check_optimum, case)
            workers = Workers(client, stack)
            for name, on_workers in ON_WORKERS.items():
                passes(name, on_workers, case, workers)
    if failures:
        raise MethodFailed(getattr(kind, "__name__", str(kind)), failures)


def _say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)
