"""What ``compiled`` adds to numba: kernels that are called by kernels, and what is kept between processes."""

import os
import subprocess
import sys
from typing import Any

import numpy as np

from dtoken.algorithms.registry import METHODS
from dtoken.compiled import _Cache, compiled
from tests.waiting import NEVER


@compiled
def inner(x: Any) -> Any:
    return x[0] + 1.0


@compiled
def outer(x: Any) -> Any:
    return 2.0 * inner(x)


def test_a_kernel_that_kernels_have_called_can_be_called_from_python() -> None:
    x = np.array([3.0])
    assert outer(x) == 8.0
    assert inner.signatures == []  # type: ignore[attr-defined]  # compiled without a way in from Python
    assert inner(x) == 4.0


def test_what_kernels_call_is_kept_apart_from_what_python_calls() -> None:
    """A process that found the one in place of the other would call address 0."""
    files = {_Cache(inner.py_func, kind)._cache_file._index_path for kind in ("", "inner")}  # type: ignore[attr-defined]
    assert len(files) == 2


def test_another_dispatcher_of_the_same_function_finds_the_machine_code() -> None:
    x = np.array([3.0])
    outer(x)
    again = compiled(outer.py_func)  # type: ignore[attr-defined]
    assert again(x) == 8.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert sum(again.stats.cache_misses.values()) == 0


KEYS = """
from dtoken.algorithms.registry import METHODS, method_class
from dtoken.engine.events.executor import executor

for name in sorted(METHODS):
    method = method_class(name)()
    run = executor(method.local, method.visit, method.meet)
    print(name, run._cache._index_key((), run.targetctx.codegen())[-1])
"""


def test_another_process_finds_the_executor_of_every_method() -> None:
    """Something in it that has a random name, or is hashed in a random order, would be compiled in every process."""
    told = [
        subprocess.run(
            [sys.executable, "-c", KEYS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=NEVER,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(told[0].splitlines()) == len(METHODS)
    assert told[0] == told[1]
