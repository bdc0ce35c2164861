"""Signals of workers. For those on this machine this is a preload: Ctrl-C is their driver's business."""

import asyncio
import os
import signal
import threading

import psutil
from distributed import Worker

FULL = 0.9  # of its memory limit: at a bit more a nanny sends SIGTERM, and no task of such a worker is to go on


def die_if_full(worker: Worker) -> None:
    """End at once if the signal is that of a nanny whose worker needs too much memory."""
    limit = getattr(worker.memory_manager, "memory_limit", None)
    if limit and psutil.Process().memory_info().rss > FULL * limit:
        os.kill(os.getpid(), signal.SIGKILL)


def dask_setup(worker: Worker) -> None:
    """Ctrl-C and the end of a terminal reach all processes: the driver ends its workers. SIGTERM: leave in order."""
    if threading.current_thread() is not threading.main_thread():
        return
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    closing: list[asyncio.Future[object]] = []  # or it would be collected

    def leave() -> None:
        die_if_full(worker)
        closing.append(asyncio.ensure_future(worker.close(nanny=False, executor_wait=False, reason="signal")))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
