"""How a worker leaves when the batch system ends its job: it finishes what it can, hands over what it holds, and goes.

SIGTERM is what comes before the end, be it the time limit, a preemption or a cancellation (of Grid Engine: SIGUSR2, of
some sites: SIGINT); SIGKILL follows some seconds later. It reaches all processes of a job, on some systems only the
first one. Dask's own nanny would take it as an order to stop at once, and the results that its worker holds would be
lost. This module is the class of the workers (``--worker-class``) and the preload of their nannies
(``--preload-nanny``), which also tell how a worker ended that was not asked to. Hydra, when it looks for plugins,
imports all modules whose names do not begin with an underscore, and this one needs ``distributed``.
"""

import asyncio
import logging
import os
import signal
import time
from contextlib import suppress
from typing import Any

import dask
from distributed import Nanny
from distributed.core import Status

from hydra_dask.blame import EXITS, Deaths
from hydra_dask.cluster._signals import die_if_full
from hydra_dask.cluster._silent import SilentWorker
from hydra_dask.cluster.cgroup import out_of_memory_kills
from hydra_dask.worker import STATIONS

SIGNALS = (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT)
TERM_SECONDS = 5.0  # that a running task may still take after a signal, and after it was asked to stop
LIFETIME_SHARE = 1 / 8  # of its lifetime, that a running task may still take after its end
KEEPING_SHARE = 1 / 4  # of that time, that it may then take to keep what it has

_nannies: list[Nanny] = []


class LeavingWorker(SilentWorker):
    """A worker that leaves in good order on a signal and at the end of its lifetime."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        # Nothing here is spilled, and no task waits for memory: a worker has room, or its nanny starts it again.
        with dask.config.set({f"distributed.worker.memory.{key}": False for key in ("target", "spill", "pause")}):
            super().__init__(*arguments, **keywords)

    async def start_unsafe(self) -> Any:
        """Start, and listen for signals."""
        await super().start_unsafe()  # type: ignore[no-untyped-call]
        for each in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self._terminated)
        return self

    def _terminated(self) -> None:
        die_if_full(self)
        self._leaving = asyncio.ensure_future(self._leave(0.0, "signal"))

    async def close_gracefully(self, restart: Any = None, reason: str = "worker-close-gracefully") -> None:
        """Leave; Dask calls this at the end of the lifetime."""
        await self._leave((self.lifetime or 0.0) * LIFETIME_SHARE, reason)

    async def _leave(self, patience: float, reason: str) -> None:
        """Take no more tasks, wait for those that run, then let them stop; hand the results over, and go."""
        if self.status not in (Status.running, Status.paused):
            return
        self.status = Status.closing_gracefully
        holding = [plugin for plugin in self.plugins.values() if hasattr(plugin, "hand_over")]
        await asyncio.gather(self._idle(patience), *(plugin.hand_over() for plugin in holding))
        for station in STATIONS.values():
            station.ask_to_stop()
        await self._idle(max(TERM_SECONDS, KEEPING_SHARE * patience))
        with suppress(OSError):  # no scheduler any more: nobody wants the results
            await self.scheduler.retire_workers(
                workers=[self.address], close_workers=False, remove=True, stimulus_id=f"leave-{time.time()}"
            )
        await self.close(executor_wait=False, reason=reason)

    async def _idle(self, patience: float) -> None:
        """Wait until no task runs, but not for ever."""
        deadline = time.monotonic() + patience
        while self.state.executing and time.monotonic() < deadline:
            await asyncio.sleep(0.05)


def dask_setup(nanny: Nanny) -> None:
    """Let a signal to a nanny be one to its worker, and its end when that has left."""
    if not _nannies:
        logging.getLogger(Deaths.LOGGER).addHandler(_Tells())
    _nannies.append(nanny)
    for each in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(each, _pass_on)


class _Tells(Deaths):
    """Tells the driver how the process of a worker ended that did not end because its job does."""

    def __init__(self) -> None:
        super().__init__()
        self._kills = out_of_memory_kills()

    def died(self, pid: int, code: int) -> None:
        """Take note of a death, and pass it on."""
        before, self._kills = self._kills, out_of_memory_kills()
        told = {"pid": pid, "host": os.uname().nodename, "code": code, "full": self._kills > before}
        if _nannies[0].status == Status.running:
            _nannies[0].log_event(EXITS, told)


def _pass_on() -> None:
    for nanny in _nannies:
        nanny.close_gracefully(reason="signal")  # says only that no other worker is to be started
        with suppress(ProcessLookupError, TypeError):  # there is no process at the moment
            os.kill(nanny.pid, signal.SIGTERM)
