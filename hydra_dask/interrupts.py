"""Signals that end a command: SIGTERM, with which batch systems end a job, and SIGHUP, when a terminal is closed.

Both clean up like Ctrl-C: they raise KeyboardInterrupt in the main thread.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)


def listened() -> list[signal.Signals]:
    """Of these signals, and Ctrl-C, those that this process does not ignore, as under ``nohup``."""
    return [number for number in (signal.SIGINT, *ENDING) if signal.getsignal(number) != signal.SIG_IGN]


def hung_up() -> None:
    """The terminal is closed: that is said several times, by the shell and by the system, and nobody reads any more."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (1, 2):
        with suppress(OSError):
            try:
                os.write(number, b"")
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _interrupt(number: int, frame: Any) -> None:
    if number == signal.SIGHUP:
        hung_up()
    signal.default_int_handler(number, frame)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP be like Ctrl-C, unless somebody else listens to them already."""
    if threading.current_thread() is not threading.main_thread():  # signals are not its business
        yield
        return
    ours = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
