"""Losses of a user's own: a class in a file, found by its name, checked, and compiled for all kernels to call."""

import hashlib
import inspect
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from traceback import extract_tb
from typing import Any, NamedTuple

import numba
import numpy as np

from dtoken.errors import InputError

FUNCTIONS = ("value", "derivative", "second")
SIGNATURE = "float64(float64, float64)"


class Compiled(NamedTuple):
    """The functions of a loss as machine code."""

    code: int  # address of the table of their addresses
    digest: str  # of what they were compiled from
    kept: tuple[Any, ...]  # what must stay in memory as long as the address is used


def imported(target: str, key: str) -> type[Any]:
    """The class ``package.module.Class``; ``key`` says what asks for it.

    A user's own may lie in the current directory, which is looked at last, and for this alone.
    """
    module, _, attribute = target.rpartition(".")
    if not target.startswith("dtoken.") and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: type[Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{key}={target} cannot be imported ({error})") from None
    except Exception as error:  # in the user's own file
        place = extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        raise InputError(f"{key}={target} cannot be imported ({where}: {type(error).__name__}: {error})") from error
    return found


@cache
def compile_loss(kind: Any) -> Compiled:
    """Check the members of a loss and compile its functions; once for each class."""
    title = f"problem.loss={getattr(kind, '__qualname__', kind)}"
    curvature = getattr(kind, "curvature", None)
    if not isinstance(curvature, int | float) or isinstance(curvature, bool) or not 0 < curvature < math.inf:
        raise InputError(f"{title} has curvature={curvature}; give a number that phi'' never exceeds")
    if not isinstance(getattr(kind, "classification", None), bool):
        raise InputError(f"{title} has no classification; say True for labels -1 and +1, False for numbers")
    functions = [_function(kind, name, title) for name in FUNCTIONS]
    pointers = tuple(_pointer(function, f"{title}: {function.__name__}") for function in functions)
    table = np.array([pointer.address for pointer in pointers], np.int64)
    return Compiled(int(table.ctypes.data), _digest(kind, functions), (table, *pointers))


def _function(kind: type[Any], name: str, title: str) -> Callable[..., Any]:
    found = getattr(kind, name, None)
    found = getattr(found, "py_func", found)
    if not inspect.isfunction(found) or list(inspect.signature(found).parameters) != ["t", "y"]:
        raise InputError(f"{title} needs a static function {name}(t, y)")
    return found


def _pointer(function: Callable[..., Any], title: str) -> Any:
    try:
        return numba.cfunc(SIGNATURE, nopython=True, error_model="numpy")(function)
    except numba.core.errors.NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
        raise InputError(f"{title} cannot be compiled ({lines[0] if lines else error})") from None


def _digest(kind: type[Any], functions: list[Callable[..., Any]]) -> str:
    """A hash of the file of a loss, and of what it does, for where there is none: results are kept under it."""
    parts: list[Any] = [kind.curvature, kind.classification]
    for function in functions:
        code = function.__code__
        known = {name: function.__globals__.get(name) for name in code.co_names}
        numbers = {name: value for name, value in known.items() if isinstance(value, int | float)}
        parts += [code.co_code, code.co_consts, sorted(numbers.items())]
    with suppress(OSError, TypeError):  # typed in at a prompt
        parts.append(inspect.getsource(inspect.getmodule(kind) or kind))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
