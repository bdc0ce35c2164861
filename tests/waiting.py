"""Waiting for what another thread or process does: no longer than it takes, and not for ever."""

import time
from collections.abc import Callable

NEVER = 600.0  # seconds, far beyond what a busy machine needs: only what will not come at all is given up


def until(condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline, pause = time.monotonic() + NEVER, 0.01
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.2)
