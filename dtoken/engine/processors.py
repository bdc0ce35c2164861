"""How many processors a run may use."""

import os
import sys


def processors() -> int:
    """Processors that a run may use: those of the worker if it is a job of a sweep, else those of this process."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        try:
            return int(get_worker().state.nthreads)
        except ValueError:
            pass
    return own_processors()


def own_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
