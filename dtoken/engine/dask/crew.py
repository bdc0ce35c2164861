"""The workers of a Dask cluster that take part in a run: who lives, and how to ask all of them something at once."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed import Client
from distributed.comm.addressing import get_address_host
from distributed.comm.core import CommClosedError

from dtoken.engine.dask import worker
from dtoken.engine.rows.memory import PYTHON
from dtoken.engine.settings import DaskSettings
from dtoken.errors import InputError, RunError
from dtoken.text import show_bytes

MOST_PATIENCE = 8  # times the silence that was asked for
NEWCOMER_SECONDS = 0.3  # a worker that takes longer to answer is not worth waiting for


class WorkersLost(Exception):
    """Some workers did not do what they were asked to."""


def take_turns(before: Sequence[str], living: Sequence[str]) -> list[str]:
    """Who sits where: everybody keeps their seat, newcomers take empty ones, and seats that stay empty are closed.

    Examples
    --------
    >>> take_turns(["a", "b", "c"], ["b", "c", "d", "e"])
    ['d', 'b', 'c', 'e']
    >>> take_turns(["a", "b", "c"], ["a", "c"])
    ['a', 'c']
    """
    fresh = [name for name in living if name not in before]
    kept = [name if name in living else fresh.pop(0) if fresh else None for name in before]
    return [name for name in kept if name is not None] + fresh


class Crew:
    """The workers that a client can reach, on behalf of one run."""

    def __init__(
        self, client: Client, run: str, settings: DaskSettings, trouble: Callable[[], str | None] = lambda: None
    ) -> None:
        if client.asynchronous:
            raise InputError("the client is asynchronous; give one that was made without asynchronous=True")
        self._client: Any = client
        self._run, self._settings, self._trouble = run, settings, trouble
        self._silence = settings.silence
        try:
            client.register_plugin(worker.Seats())
        except OSError:
            if (reason := trouble()) is not None:
                raise RunError(f"there will be no workers: {reason}") from None
            raise RunError(
                "the workers were lost before the run began; a worker needs at least "
                f"{show_bytes(PYTHON)} of memory, and what its nodes need (cluster.memory)"
            ) from None

    def known(self) -> dict[str, str]:
        """Name and address of all workers that the scheduler knows, those of one machine together."""
        try:
            info = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, RuntimeError, TimeoutError) as error:
            raise RunError(f"the scheduler of the cluster does not answer ({error or type(error).__name__})") from error
        running = [address for address in info if info[address].get("status") in (None, "running", "paused")]
        ordered = sorted(running, key=lambda address: (get_address_host(address), _natural(info[address]["name"])))
        return {str(info[address]["name"]): address for address in ordered}

    def living(self, wanted: int) -> dict[str, str]:
        """The workers that answer; waits a while for as many as ``wanted``, and longer for the first one."""
        began = time.monotonic()
        while True:
            known = self.known()
            answers = self.tell(list(known.values()), worker.stays, self._run)
            living = {name: known[name] for name, answer in zip(known, answers, strict=True) if answer is True}
            waited = time.monotonic() - began
            if len(living) >= wanted or (living and waited > self._settings.rejoin):
                return living
            reason = None if living else self._trouble()
            if reason is not None:
                raise RunError(f"there will be no workers: {reason}")
            if not living and waited > self._settings.patience:
                held = f"{len(known)} workers, none of which answers" if known else "no workers"
                raise RunError(f"the cluster has {held}, after {waited:.0f} s of waiting (engine.start)")
            time.sleep(0.1)

    def newcomers(self, known_already: Sequence[str]) -> bool:
        """Whether there are workers that answer and do not take part yet."""
        fresh = [address for name, address in self.known().items() if name not in known_already]
        return bool(fresh) and True in self._client.sync(self._ask, fresh, worker.stays, (self._run,), NEWCOMER_SECONDS)

    def tell(self, addresses: Sequence[str], function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Ask workers something that is answered at once; silence counts as an exception."""
        answers: list[Any] = self._client.sync(self._ask, addresses, function, arguments) if addresses else []
        return answers

    def call(
        self,
        workers: Mapping[str, str],
        generation: int,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Call ``function`` on all ``workers``, watching that they live; WorkersLost if any fails."""
        answers = self._client.sync(self._watched, list(workers.values()), generation, function, arguments)
        lost = []
        for name, answer in zip(workers, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, OSError | asyncio.CancelledError):
                    raise answer  # not the worker's fault: a damaged shard is damaged everywhere
                lost.append(f"worker {name}: {answer or type(answer).__name__}")
        if lost:
            raise WorkersLost("; ".join(lost))
        return list(answers)

    async def _watched(
        self,
        addresses: Sequence[str],
        generation: int,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        calls = [
            asyncio.ensure_future(self._one(address, function, given))
            for address, given in zip(addresses, arguments, strict=True)
        ]
        pending, look = set(calls), time.monotonic() + self._interval(len(calls))
        try:
            while pending:
                wait = max(0.0, look - time.monotonic())
                done, pending = await asyncio.wait(pending, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                there = [a for a, call in zip(addresses, calls, strict=True) if not _is_gone(call)]
                failed = any(isinstance(call.result(), BaseException) for call in done)
                if pending and not failed and time.monotonic() >= look:
                    there = await self._answering(addresses)
                    failed = len(there) < len(addresses)
                    look = time.monotonic() + self._interval(len(calls))
                if failed:  # the others would wait for the lost one for ever
                    await self._ask(there, worker.abort, (self._run, generation))
                    still = [call for a, call in zip(addresses, calls, strict=True) if a in there]
                    if still:
                        await asyncio.wait(still, timeout=self._silence)
                    break
        finally:
            for call in calls:
                call.cancel()
        return [call.result() if call.done() and not call.cancelled() else TimeoutError("no answer") for call in calls]

    def _interval(self, workers: int) -> float:
        """Seconds from one look at the workers to the next: often, but the scheduler has other things to do."""
        return max(self._silence / 4, 0.01 * workers)

    async def _answering(self, addresses: Sequence[str]) -> list[str]:
        """Those who answer; if one is silent, it may be only slow, and there is more patience the next time."""
        answers = await self._ask(addresses, worker.ping, (self._run,))
        if any(isinstance(answer, TimeoutError) for answer in answers):
            self._silence = min(2 * self._silence, MOST_PATIENCE * self._settings.silence)
        return [address for address, answer in zip(addresses, answers, strict=True) if answer is True]

    async def _ask(
        self,
        addresses: Sequence[str],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        seconds: float | None = None,
    ) -> list[Any]:
        async def question(address: str) -> Any:
            return await asyncio.wait_for(self._one(address, function, arguments), seconds or self._silence)

        return list(await asyncio.gather(*map(question, addresses), return_exceptions=True))

    async def _one(self, address: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            answers = await self._client.run(function, *arguments, workers=[address], on_error="return")
        except Exception as error:
            return error if isinstance(error, OSError) else ConnectionError(f"{type(error).__name__}: {error}")
        return answers.get(address, CommClosedError("the worker is gone"))


def _is_gone(call: "asyncio.Future[Any]") -> bool:
    """Whether there is nobody any more at the other end."""
    return call.done() and isinstance(call.result(), CommClosedError)


def _natural(name: Any) -> tuple[int, str]:
    """So that worker 10 comes after worker 9."""
    return len(str(name)), str(name)
