"""Whether the job of this thread is asked to stop, because its worker is about to leave.

A job that looks at this now and then, keeps what it has, and raises KeyboardInterrupt, is started again elsewhere.
One that does not is stopped with its worker, and started again as well.
"""

import threading
from collections.abc import Callable
from contextvars import ContextVar

KEPT: ContextVar[Callable[[], None] | None] = ContextVar("hydra-launcher-kept", default=None)
JOB: ContextVar[threading.Event | None] = ContextVar("hydra-launcher-job", default=None)


def asked_to_stop() -> bool:
    """Whether the job that runs in this thread, if any, is asked to stop."""
    event = JOB.get()
    return event is not None and event.is_set()


def kept() -> None:
    """The job that runs in this thread, if any, has kept what it has: it will go on from here, not from the start.

    A job that loses its worker again and again is given up unless it says so in between.
    """
    if (tell := KEPT.get()) is not None:
        tell()
