"""The one way in which dtoken compiles its inner loops.

No fast-math, hence a fixed order of every sum and no fused multiply-add: the same bits on every thread and worker.
The GIL is released, so threads run kernels side by side. Kernels are inlined into the kernels that call them: passing a
few dozen arrays by value costs more than many a step. Those that are called by kernels only have no way in from Python:
unpacking the same few dozen arrays takes longer to compile than most steps. Machine code is kept on disk between
processes.

numba notices that a cached function is out of date only by its own file. Here the stamp also covers all compiled
sources of the package, so a change to a loss is never hidden by cached code of a method that calls it; and a compiled
function has a name made from its source file, so that a function that closes over others (``engine.executor``) is
cached, too, and is out of date when a method outside the package changes.
"""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from numba import extending
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

F = TypeVar("F", bound=Callable[..., Any])


OPTIONS = {"nopython": True, "nogil": True, "fastmath": False, "error_model": "numpy", "forceinline": True}
INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: F) -> F:
    """Compile ``function`` with numba; it keeps its type for the type checker."""
    kernel: Any = _Kernel(function, targetoptions=OPTIONS)
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
        kernel._cache = _Cache(function)
    except (OSError, RuntimeError):
        return kernel  # type: ignore[no-any-return]  # typed in at a prompt: compiled anew in every session
    inner = [kernel._uuid for kernel in _closed_over(function)]
    name = f"{function.__module__}.{function.__qualname__}\n{source}\n{inner}\n{package_digest()}"
    kernel._set_uuid(hashlib.sha256(name.encode()).hexdigest())
    return kernel  # type: ignore[no-any-return]


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """numba's intrinsic under a fixed name: its own is random, and what calls it would never be found in the cache."""
    made = extending.intrinsic(function)
    made._set_uuid(f"{function.__module__}.{function.__qualname__}")
    return made  # type: ignore[no-any-return]


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function. Python calls this one, other kernels call its twin, which Python cannot call."""

    @cached_property
    def _twin(self) -> CPUDispatcher:
        twin = CPUDispatcher(self.py_func, targetoptions=OPTIONS | INNER)
        if isinstance(self._cache, _Cache):
            twin._cache = _Cache(self.py_func, "inner")
        return twin

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The types of a call by another kernel."""
        return self._twin.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The code for a call by another kernel."""
        return self._twin.get_overload(sig)


def is_cached(kernel: Any) -> bool:
    """Whether machine code of a compiled function is there, so that its next call does not have to compile."""
    if kernel.signatures:
        return True  # this process has called it before
    if not isinstance(kernel._cache, _Cache):
        return False
    wanted = kernel._cache._index_key((), kernel.targetctx.codegen())[1:]  # all but the types of the arguments
    return any(key[1:] == wanted for key in kernel._cache._cache_file._load_index())


def _closed_over(function: Callable[..., Any]) -> list[Any]:
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    return [content for content in contents if hasattr(content, "_uuid")]


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, out of date as soon as any source of the package changed.

    A function that closes over others has a file for each set of them: a file can only be read where the types in it,
    among them those of methods outside the package, can be imported.
    """

    def __init__(self, function: Callable[..., Any], kind: str = "") -> None:
        super().__init__(function)
        stamp = (self._impl.locator.get_source_stamp(), package_digest())
        codes = [kernel.py_func.__code__ for kernel in _closed_over(function)]
        places = "\n".join([kind, *(f"{code.co_filename} {code.co_qualname}" for code in codes)])
        name = f"{self._impl.filename_base}-{hashlib.sha256(places.encode()).hexdigest()[:12]}"
        self._cache_file = _CacheFile(self._cache_path, name if places else self._impl.filename_base, stamp)


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]
    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):  # a file of a method that is not there any more
            return {}


@cache
def package_digest() -> str:
    """A hash of the sources of the package that have compiled functions."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for file in sorted(root.rglob("*.py")):
        source = file.read_bytes()
        if b"@compiled" in source:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + source + b"\0")
    return digest.hexdigest()
