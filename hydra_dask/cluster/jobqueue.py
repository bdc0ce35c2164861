"""dask-jobqueue, loaded without what it does to the process that loads it.

Its module ``runner``, which nothing here uses, takes Ctrl-C over for the whole process as soon as it is imported: a
driver would end with status 0 and without a word.
"""

import signal
import threading
from types import ModuleType


def load() -> ModuleType:
    """The package, with Ctrl-C as it was."""
    if threading.current_thread() is not threading.main_thread():
        return _load()  # signals are the main thread's: there the package was loaded before, or cannot take them
    before = signal.getsignal(signal.SIGINT)
    try:
        return _load()
    finally:
        signal.signal(signal.SIGINT, before)


def _load() -> ModuleType:
    import dask_jobqueue

    return dask_jobqueue
