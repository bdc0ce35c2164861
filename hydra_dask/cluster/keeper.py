"""Keeps as many jobs in the batch system as were asked for: submits them, notices those that are lost, replaces them.

Dask's own means see only workers that had reported once, and take their time. Here a job is lost when it has no worker
and the batch system does not know it any more; it is asked rarely, and only while there is a job without a worker.
Every job has a name of its own, so that nobody takes a new one for an old one.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from hydra_dask.cluster.arrays import Array, Form
from hydra_dask.cluster.queue import Entry, Queue, number
from hydra_dask.cluster.reach import Reach
from hydra_dask.cluster.reach import in_words as unreachable
from hydra_dask.cluster.size import Wanted
from hydra_dask.cluster.waiting import Wait, in_words
from hydra_dask.manifest import now

ROUND_SECONDS = 1.0  # between two looks at the workers, which cost nothing
MOST_SECONDS = 60.0  # between two questions to the batch system, which others use too
NOTE_SECONDS = 60.0  # without a worker, after which a job is worth a word
EXPLAINED = 3  # jobs about which the batch system is asked in detail
END_SECONDS = 60.0  # for a submission that is on its way
GIVE_UP = 5  # times in a row that jobs end before their worker has reported, without any worker there

log = logging.getLogger(__name__)


class Keeper:
    """Keeps as many jobs of a cluster as are ``wanted``.

    Without any worker for ``start_timeout`` seconds it gives up; ``evidence`` says what the jobs printed. With a
    ``form`` jobs that are submitted at the same time are an array.
    """

    def __init__(
        self,
        cluster: Any,
        kind: str,
        wanted: Wanted,
        queue: Queue,
        start_timeout: float | None = None,
        evidence: Callable[[], str] = str,
        form: Form | None = None,
    ) -> None:
        self._cluster, self._kind, self._wanted, self._queue = cluster, kind, wanted, queue
        self._start_timeout, self._evidence, self._form = start_timeout, evidence, form
        self._alone_since = time.monotonic()  # or before, there was a worker
        self._entries: dict[str, Entry] = {}  # what the batch system says of jobs without a worker
        self._since: dict[str, float] = {}  # when jobs were submitted
        self._submitted: dict[str, str] = {}  # the same, in UTC
        self._told: set[str] = set()
        self._news: str | None = None
        self._numbers = itertools.count()
        self._seen: set[str] = set()  # jobs whose workers have reported once
        self._absent: set[str] = set()  # jobs that the batch system did not know at the last look
        self._silent: set[str] = set()  # jobs without a worker at the last round
        self._pause, self._next_look, self._next_submission = ROUND_SECONDS, 0.0, 0.0
        self._failures = 0  # in a row
        self.over = asyncio.Event()
        self.trouble: str | None = None  # why there will be no workers
        self.waits: list[Wait] = []  # all jobs, as they are
        self._ids: dict[str, tuple[str, str]] = {}  # of all jobs that there were, by name: in commands and in lists
        self._reach = Reach(cluster.scheduler)
        self._released: set[str] = set()  # addresses of workers that nobody needs any more

    def news(self) -> str | None:
        """What is new about jobs that do not start, once."""
        found, self._news = self._news, None
        return found

    def fate(self, worker: str) -> str | None:
        """How the job of a worker of this name ended, in the system's words; None: it may still be there."""
        name = next((name for name in self._ids if worker in self._names(name)), "")
        return asyncio.run(self._queue.fate(*self._ids.get(name, ("", ""))))

    def demand(self, workers: int | None, idle: Collection[str]) -> None:
        """So many workers are needed (None: as many as there can be), and these addresses are not."""
        self._wanted.need(workers)
        self._released = self._released | set(idle)

    async def fill(self) -> None:
        """Submit what lacks; RuntimeError: the batch system refuses."""
        before = set(self._cluster.worker_spec)
        self._cluster.worker_spec.update(self._specs(self._wanted.jobs - len(before)))
        try:
            await self._cluster
        finally:
            for name in set(self._cluster.worker_spec) - before:
                job = self._cluster.workers.get(name)
                self._since[name], self._submitted[name] = time.monotonic(), now()
                self._ids[name] = ("", "") if job is None else (str(job.job_id), _key(job))
                if job is None or job.job_id is None:
                    await self._forget(name)
                elif before or self._seen:
                    log.info("%s job %s was submitted", self._kind, job.job_id)

    def _specs(self, count: int) -> dict[str, dict[str, Any]]:
        """What so many more jobs are made of, by their names."""
        spec = self._cluster.new_spec
        if self._form is not None and count > 1:
            return Array(self._form, spec["cls"], count, f"{self._kind}-{next(self._numbers)}").specs(spec)
        return {f"{self._kind}-{next(self._numbers)}": spec for _ in range(count)}

    async def run(self) -> None:
        """Look after the jobs until ``over``; never stops halfway through a submission."""
        while not await self._is_over():
            try:
                await self._round()
            except (OSError, RuntimeError) as error:
                self._failed(f"{self._kind} refuses a job: {refusal(error)}")

    async def _is_over(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), ROUND_SECONDS)
        return self.over.is_set()

    async def _round(self) -> None:
        stillborn = []
        for name in await self._lost():
            job = self._cluster.workers.get(name)
            log.info("%s job %s is lost", self._kind, job.job_id if job else name)
            if name not in self._seen and job is not None:
                stillborn.append(job.job_id)
            await self._forget(name)
        if stillborn:
            jobs = f"{self._kind} job{'s' if len(stillborn) > 1 else ''} {', '.join(stillborn)}"
            self._failed(f"{jobs} ended before a worker had reported")
        await self._try_workers()
        await self._release()
        if set(self._cluster.workers) == self._working():
            self._wanted.all_started()
        if len(self._cluster.worker_spec) < self._wanted.jobs and time.monotonic() >= self._next_submission:
            await self.fill()
        self._take_stock()

    async def _try_workers(self) -> None:
        """Give up jobs whose workers cannot be reached; all, if none ever was."""
        there = {address: name for name in self._cluster.workers for address in self._addresses(name)}
        for address in self._reach.missed(there):
            reason = f"{self._kind} job {self._ids[there[address]][0]} {unreachable(address)}"
            if not self._reach.any:
                self.trouble = reason
            else:
                await self._forget(there[address])
                self._failed(reason)

    async def _release(self) -> None:
        """Cancel jobs whose workers nobody needs, and those that wait in the queue for work that there is not."""
        busy = {name for name in self._working() if any(a not in self._released for a in self._addresses(name))}
        for name in self._working() - busy:
            log.info("%s job %s is not needed any more", self._kind, self._ids[name][0])
            await self._forget(name)
        waiting = [name for name in self._cluster.workers if name not in self._working()]
        surplus = len(self._cluster.worker_spec) - self._wanted.jobs
        for name in waiting[::-1][: max(surplus, 0)]:
            await self._forget(name)

    def _take_stock(self) -> None:
        """See which jobs have no worker yet, and whether that has lasted too long."""
        working, present = self._working(), time.monotonic()
        self._entries = {name: entry for name, entry in self._entries.items() if name not in working}
        waits = {
            name: Wait(
                str(job.job_id),
                name in working,
                self._entries.get(name, Entry()),
                present - self._since.get(name, present),
                self._submitted.get(name, ""),
            )
            for name, job in self._cluster.workers.items()
        }
        self.waits = list(waits.values())
        late = [wait for name, wait in waits.items() if wait.seconds > NOTE_SECONDS and name in self._entries]
        if new := [wait for wait in late if str(wait.entry) not in self._told]:
            self._told |= {str(wait.entry) for wait in new}
            self._news = in_words(self._kind, new)
            log.info("%s", self._news)
        if working:
            self._alone_since = present
        elif self._start_timeout is not None and present - self._alone_since > self._start_timeout:
            self.trouble = (
                f"no job of {self._kind} has started within cluster.start_timeout={self._start_timeout:g} seconds; "
                f"{in_words(self._kind, self.waits)}{self._evidence() if self._failures else ''}"
            )

    async def _explain(self, known: Mapping[str, Entry]) -> None:
        """Keep what the batch system says of jobs without a worker; of a few, in detail."""
        jobs = {name: _key(job) for name, job in self._cluster.workers.items()}
        silent = sorted(set(jobs) - self._working(), key=lambda name: self._since[name])
        found = {name: known[jobs[name]] for name in silent if jobs[name] in known}
        for name in [*found][:EXPLAINED]:
            found[name] = await self._queue.explained(self._ids[name][0], found[name])
        self._entries = found

    async def _lost(self) -> set[str]:
        """Jobs that are neither at work nor in the queue."""
        self._look_at_workers()
        jobs = self._cluster.workers
        given_up = set(self._cluster.worker_spec) - set(jobs)  # by Dask: a worker that had left long ago
        silent = set(jobs) - self._working()
        if silent != self._silent:
            self._silent, self._pause, self._next_look = silent, ROUND_SECONDS, 0.0
        if not silent or time.monotonic() < self._next_look:
            return given_up
        known = await self._queue.jobs()
        self._pause = min(self._pause * 1.5, MOST_SECONDS)
        self._next_look = time.monotonic() + self._pause
        if known is None:
            return given_up
        await self._explain(known)
        absent = {name for name in silent - self._working() if name in jobs and _key(jobs[name]) not in known}
        lost, self._absent = absent & self._absent, absent  # twice: the first time it may have been too new
        if absent - lost:
            self._next_look = 0.0
        return given_up | lost

    def _look_at_workers(self) -> None:
        fresh = self._working() - self._seen
        if fresh:
            self._seen |= fresh
            self._failures, self.trouble, self._next_submission = 0, None, 0.0

    def _working(self) -> set[str]:
        """The jobs that have a worker."""
        return {name for name in self._cluster.workers if self._addresses(name)}

    def _addresses(self, name: str) -> list[str]:
        """Where the workers of a job are reached."""
        own = self._names(name)
        return [worker.address for worker in self._cluster.scheduler.workers.values() if str(worker.name) in own]

    def _names(self, job: str) -> set[str]:
        """What the workers of a job are called."""
        return {job + ending for ending in self._cluster.new_spec.get("group", [""])}

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self._next_submission = time.monotonic() + min(2.0**self._failures, MOST_SECONDS)
        log.warning("%s", reason)
        if self._failures >= GIVE_UP and not self._working():
            self.trouble = f"{reason}; that was the failure number {self._failures} in a row{self._evidence()}"

    async def _forget(self, name: str) -> None:
        from distributed.core import Status

        self._cluster.worker_spec.pop(name, None)
        self._since.pop(name, None)
        self._submitted.pop(name, None)
        job = self._cluster.workers.pop(name, None)
        if job is not None:
            await job.close()  # cancels it, should it exist all the same
            job.status = Status.closed


@contextmanager
def keeping(keeper: Keeper) -> Iterator[Keeper]:
    """Submit its jobs, and keep them until the end of the context; ValueError: the batch system refuses them."""
    cluster, kind = keeper._cluster, keeper._kind
    try:
        cluster.sync(keeper.fill)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{kind} refuses the job: {refusal(error)}") from error
    running = asyncio.run_coroutine_threadsafe(keeper.run(), cluster.loop.asyncio_loop)
    try:
        yield keeper
    finally:
        cluster.loop.add_callback(keeper.over.set)
        running.result(timeout=END_SECONDS)


def _key(job: Any) -> str:
    """What a job is called in lists: an element of an array knows it."""
    return str(getattr(job, "key", "")) or number(str(job.job_id))


def refusal(error: Exception) -> str:
    """What the command that submits has to say, out of the report of dask-jobqueue."""
    text = str(error).strip()
    return text.rpartition("stderr:\n")[2].strip() or text
