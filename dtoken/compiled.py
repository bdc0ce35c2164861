"""The one way in which dtoken compiles its inner loops.

No fast-math, hence a fixed order of every sum and no fused multiply-add: the same bits on every thread and worker.
The GIL is released, so threads run kernels side by side. Machine code is kept on disk between processes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` with numba; it keeps its type for the type checker."""
    kernel: F = numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy")(function)
    return kernel
