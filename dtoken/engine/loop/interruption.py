"""Signals that end a run, put off until a cut: SIGTERM, SIGHUP, Ctrl-C, and a worker of a sweep that leaves."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dtoken.algorithms.contract import Models, Vector
from hydra_dask.interrupts import hung_up, listened
from hydra_dask.stopping import asked_to_stop

PATIENCE = 10.0  # seconds to come to a cut; a second signal ends the wait


class Cut(KeyboardInterrupt):
    """A run was stopped at a cut, of which there is a checkpoint."""

    def __init__(self, models: Models, margins: Vector | None) -> None:
        super().__init__()
        self.models, self.margins = models, margins  # as they were then


@contextmanager
def put_off(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Give a function that says whether the run is to stop at the next cut, and is to raise `Cut` there.

    Outside of the main thread signals are not ours, and nothing is put off where nothing is kept at a cut.
    """
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked_to_stop
        return
    asked = False
    main = threading.main_thread().ident or 0
    timer = threading.Timer(PATIENCE, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.daemon = True

    def ask(number: int, _: Any) -> None:
        nonlocal asked
        if number == signal.SIGHUP:
            hung_up()
        if asked:
            raise KeyboardInterrupt
        asked = True
        timer.start()

    before = {number: signal.signal(number, ask) for number in listened()}
    try:
        yield lambda: asked
    finally:
        timer.cancel()
        for number in set(listened()) & set(before):  # who was hung up on does not listen any more
            signal.signal(number, before[number])
    if asked:  # it came too late to be seen
        raise KeyboardInterrupt
