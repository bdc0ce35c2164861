"""Worker processes as forks of one process that has loaded everything: they start several times as fast.

A new Python needs about a second to load what a worker needs, for each worker and again for each one that replaces a
dead one. The server is started early, so that it loads while the driver composes configurations.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

METHOD = "forkserver"
PRELOAD = ["distributed.nanny", "distributed.dashboard", "hydra_dask.worker"]
ENVIRON = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",  # a token.py in the current directory is not Python's own
}


def available() -> bool:
    """Whether processes can be made in this way: elsewhere forks of a process that has loaded much are not safe."""
    return sys.platform == "linux"


def start(more: Sequence[str] = ()) -> None:
    """Start the server, unless it runs; it loads ``more`` modules, those of the application."""
    if not available():
        return
    from multiprocessing import forkserver

    added = {name: value for name, value in ENVIRON.items() if name not in os.environ}
    os.environ.update(added)  # threads as Dask does for its workers; here libraries are loaded before it can
    try:
        server: Any = multiprocessing.get_context(METHOD)
        server.set_forkserver_preload([*PRELOAD, *more])
        with _deaf():
            forkserver.ensure_running()
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that begin here not end with a terminal: Python's server itself ignores only Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def running() -> bool:
    """Whether the server was started by this process."""
    if not available():
        return False
    from multiprocessing import forkserver

    server: Any = forkserver._forkserver
    return server._forkserver_pid is not None


def configuration() -> dict[str, str]:
    """What Dask has to be told."""
    return {"distributed.worker.multiprocessing-method": METHOD} if available() else {}
