"""Hands jobs to workers, one at a time to each, until all are done or have failed.

Nothing is ever queued on a worker behind another job. So a worker that dies takes one job with it, and it is known
which one. That job is tried again when no other waits, apart from others of its kind, and not more often than allowed.
"""

import pickle
import queue
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_dask.blame import MEMORY_WORDS, WATCHDOG, Blame, Deaths, told_by_nanny
from hydra_dask.errors import JobDied, NoWorkers
from hydra_dask.manifest import DONE, FAILED, HELD, LEFT, RUNNING, WAITING, Job, now, read_record
from hydra_dask.worker import Outcome, Task, run_task

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK_SECONDS = 0.5  # between two looks at the workers
GRACE_SECONDS = 15.0  # after the time limit of a job, before its worker is stopped from outside
NO_WORKER_SECONDS = 300.0  # a busy machine takes its time to replace a dead one
FAR_APART = 4  # jobs for each worker, from which on two that begin take one from each end
NANNY_SECONDS = 20.0  # that a nanny has to notice how its worker ended, and to tell
FETCH_SECONDS = 60.0  # for the result of a job that is over; its record has it, too
ASK_SECONDS = 2.0  # between two questions to a batch system


@dataclass(frozen=True)
class Rules:
    """How to deal with jobs that go wrong."""

    timeout: float | None = None
    attempts: int = 2
    stop_at_failure: bool = False
    patience: float = NO_WORKER_SECONDS  # without any worker


@dataclass
class _Running:
    job: Job
    future: "Future[Outcome]"
    worker: str
    since: float
    attempt: int
    overdue: bool = False  # and its worker was stopped from outside


@dataclass
class _Unclear:
    """A job whose worker is gone without a word."""

    entry: _Running
    record: dict[str, Any]
    since: float
    asked: float = 0.0


@dataclass
class Pool:
    """Runs jobs on the workers of ``client``.

    Parameters
    ----------
    client, token
        Of the cluster; of the ``Station`` on its workers.
    directory
        Of the sweep.
    rules
        What to do when jobs go wrong.
    configs
        The packed configuration of each job, by index; forgotten when the job is over.
    changed
        Called when the state of a job has changed, and now and then.
    trouble
        Says why there will be no workers, once that is certain.
    fate
        Of a cluster whose workers are batch jobs: how the job of a worker ended, in the system's words; None: it lives.
    demand
        Told how many workers are needed, and the addresses of those that are not; None: nobody cares.
    note
        Told what a user should know.
    listens
        Whether somebody reads what jobs report while they run.
    """

    client: "Client"
    token: str
    directory: Path
    rules: Rules
    configs: dict[int, bytes]
    changed: Callable[[Job | None], None]
    trouble: Callable[[], str | None] = lambda: None
    fate: Callable[[str], str | None] | None = None
    demand: Callable[[int | None, Collection[str]], None] | None = None
    note: Callable[[str], None] = lambda _: None
    listens: bool = False
    returned: dict[int, Outcome] = field(default_factory=dict)
    _fresh: deque[Job] = field(default_factory=deque)
    _again: deque[Job] = field(default_factory=deque)
    _running: dict[str, _Running] = field(default_factory=dict)  # by worker
    _blame: dict[int, Blame] = field(default_factory=dict)
    _unclear: list[_Unclear] = field(default_factory=list)
    _events: "queue.SimpleQueue[Future[Outcome]]" = field(default_factory=queue.SimpleQueue)
    _more: Callable[[], Job | None] = lambda: None
    _exhausted: bool = False  # there will be no more
    _stopped: bool = False
    _idle_since: float = 0.0
    _looked: float = 0.0
    _workers: list[str] = field(default_factory=list)
    _begun: set[str] = field(default_factory=set)  # have had a job
    _dead: set[str] = field(default_factory=set)  # were stopped, but the scheduler may not know yet
    deaths: Deaths = field(default_factory=Deaths)

    def run(self, jobs: Sequence[Job], more: Callable[[], Job | None] | None = None) -> None:
        """Run ``jobs`` to their end; their ``status`` and ``error`` say how it was.

        ``more`` gives another job whenever a worker has none, None at the end: who decides by what is known then.
        """
        self._fresh.extend(jobs)
        self._more, self._exhausted = more or (lambda: None), more is None
        self._refill()
        self._idle_since = time.monotonic()
        with self.deaths:
            self._look()
            while self._running or self._unclear or (not self._stopped and (self._fresh or self._again)):
                self._hand_out()
                with suppress(queue.Empty):
                    future = self._events.get(timeout=LOOK_SECONDS)
                    self._over(future)
                    while True:
                        self._over(self._events.get_nowait())
                if not self._running and not self._stopped:
                    self._refill()  # all that ran may have ended at once
                if time.monotonic() - self._looked >= LOOK_SECONDS:
                    self._look()
                    self.changed(None)

    def _refill(self) -> None:
        if self._fresh or self._exhausted:
            return
        if (job := self._more()) is not None:
            self._fresh.append(job)
        else:
            self._exhausted = True

    def _hand_out(self) -> None:
        if self._stopped:
            return
        for worker in self._workers:
            if worker in self._running or worker in self._dead:
                continue
            self._refill()
            if self._fresh:
                self._start(self._next_for(worker), worker)
            elif self._again and not any(self._suspect(entry.job) for entry in self._running.values()):
                self._start(self._again.popleft(), worker)

    def _next_for(self, worker: str) -> Job:
        """The first of the jobs that wait; for every other worker that begins the last one, if they are many.

        Neighbours in a sweep are alike: side by side, their workers would load, or compile, the same things twice.
        """
        begins = worker not in self._begun
        self._begun.add(worker)
        apart = begins and len(self._begun) % 2 == 0 and len(self._fresh) >= FAR_APART * len(self._workers)
        return self._fresh.pop() if apart else self._fresh.popleft()

    def _suspect(self, job: Job) -> bool:
        return job.index in self._blame and self._blame[job.index].deaths > 0

    def _start(self, job: Job, worker: str) -> None:
        job.status, job.attempts, job.started, job.ended, job.error = RUNNING, job.attempts + 1, now(), None, None
        task = Task(
            self.directory,
            job.id,
            job.index,
            job.attempts,
            job.folder,
            job.log,
            self.configs[job.index],
            self.rules.timeout,
            self.listens,
        )
        future = self.client.submit(
            run_task,
            self.token,
            task,
            key=f"job-{self.token}-{job.index}-{job.attempts}",
            workers=[worker],
            pure=False,
            retries=0,
        )
        self._running[worker] = _Running(job, future, worker, time.monotonic(), job.attempts)
        future.add_done_callback(self._events.put)
        self.changed(job)

    def _over(self, future: "Future[Outcome]") -> None:
        entry = next((entry for entry in self._running.values() if entry.future.key == future.key), None)
        if entry is None:
            return
        if future.status == "finished":
            if self._exhausted and not self.rules.stop_at_failure:  # how it ended does not decide what is next
                del self._running[entry.worker]
                self._hand_out()  # or the worker would wait until the result is here
            try:
                outcome = future.result(timeout=FETCH_SECONDS)
            except Exception as error:  # lost on the way here; the record tells
                self._lost(entry, f"its result was lost ({error})")
                return
            if outcome.status == HELD:  # another worker, which we believe to be gone, is still at it
                self._lost(entry)
            elif outcome.status == LEFT:  # it stopped because its worker leaves
                self._dead.add(entry.worker)
                self._lost(entry)
            else:
                self._end(entry, outcome)
        elif future.status == "error":
            from distributed import KilledWorker

            raised = future.exception()
            if isinstance(raised, KilledWorker):
                self._dead.add(entry.worker)
                self._lost(entry)
            else:
                self._end(entry, _failure(entry.job, f"{type(raised).__name__}: {raised}"))
        else:
            self._lost(entry)

    def _end(self, entry: _Running, outcome: Outcome) -> None:
        job = entry.job
        self._forget(entry)
        self.configs.pop(job.index, None)
        job.status, job.error, job.started, job.ended = outcome.status, outcome.error, outcome.started, outcome.ended
        self.returned[job.index] = outcome
        if job.status == FAILED and self.rules.stop_at_failure:
            self._stopped = True
        self.changed(job)

    def _forget(self, entry: _Running) -> None:
        if self._running.get(entry.worker) is entry:
            del self._running[entry.worker]
        entry.future.release()

    def _lost(self, entry: _Running, why: str | None = None) -> None:
        """The worker of a job is gone: what did the job tell before, and who is to blame?"""
        record = self._record(entry)
        if record is not None and record["status"] not in (RUNNING, LEFT):
            self._end(entry, _told(record))
            return
        if record is None or record["status"] == LEFT:  # it had not begun, or its worker left in good order
            self._departed(entry, record)
        elif self.fate is None:
            ended = self.deaths.of(record["pid"], NANNY_SECONDS if self._nannies_are_here() else 0.0)
            self._died(entry, *self._cause(entry, ended or why))
        else:
            self._forget(entry)
            self._unclear.append(_Unclear(entry, record, time.monotonic()))
            self._clear_up()

    def _clear_up(self) -> None:
        """See whether it is known by now how workers that are gone without a word have ended."""
        for one in list(self._unclear):
            now, fate = time.monotonic(), None
            ended = told_by_nanny(self.client, one.record)
            if ended is None and now - one.asked >= ASK_SECONDS:
                one.asked, fate = now, self.fate and self.fate(one.record["worker"])
            if fate in MEMORY_WORDS:
                ended = f"needed more memory than its job has ({fate})"
            late = now - one.since > NANNY_SECONDS
            if ended is None and fate is None and not one.entry.overdue and not late:
                continue
            self._unclear.remove(one)
            if (record := self._final(one.entry)) is not None:
                self._end(one.entry, _told(record))
            elif ended is not None or one.entry.overdue:
                self._died(one.entry, *self._cause(one.entry, ended))
            else:
                self._departed(one.entry, one.record)

    def _final(self, entry: _Running) -> dict[str, Any] | None:
        """The record of a job, if it says how the job ended."""
        record = self._record(entry)
        return None if record is None or record["status"] in (RUNNING, LEFT) else record

    def _record(self, entry: _Running) -> dict[str, Any] | None:
        record = read_record(self.directory, entry.job)
        return None if record is None or record.get("attempt") != entry.attempt else record

    def _departed(self, entry: _Running, record: dict[str, Any] | None) -> None:
        """A job has lost its worker through no fault of its own."""
        blame = self._blame.setdefault(entry.job.index, Blame())
        begun = record is not None
        text = blame.departed(begun, record is not None and bool(record.get("kept")))
        if text is not None:
            self._end(entry, _failure(entry.job, text))
            return
        if begun and (warning := blame.warning()) is not None:
            self.note(f"job {entry.job.index} {warning}")
        self._again_later(entry, None)

    def _died(self, entry: _Running, text: str, final: bool) -> None:
        """A job has ended its worker."""
        blame = self._blame.setdefault(entry.job.index, Blame())
        blame.deaths += 1
        if final or blame.deaths >= self.rules.attempts:
            self._end(entry, _failure(entry.job, text))
        else:
            self._again_later(entry, text)

    def _again_later(self, entry: _Running, error: str | None) -> None:
        self._forget(entry)
        job = entry.job
        job.status, job.error = WAITING, error
        (self._again if self._suspect(job) else self._fresh).append(job)
        self.changed(job)

    def _cause(self, entry: _Running, ended: str | None) -> tuple[str, bool]:
        """Why the process of a job ended, in a sentence, and whether it is useless to try again."""
        limit = self.rules.timeout
        again = f" (attempt {entry.attempt})" if entry.attempt > 1 else ""
        for _, event in self.client.get_events("worker-restart-memory"):
            if event["worker"] == entry.worker:
                return f"needed more memory than its worker has ({event['rss'] / 1e6:,.0f} MB){again}", False
        watchdog = ended in (None, WATCHDOG) and limit is not None and time.monotonic() - entry.since >= limit
        if watchdog or entry.overdue:
            return f"ran longer than hydra.launcher.timeout={limit:g} seconds and was stopped", True
        return f"{ended or 'its process died'}{again}", False

    def _nannies_are_here(self) -> bool:
        from distributed import LocalCluster

        return isinstance(self.client.cluster, LocalCluster)

    def _look(self) -> None:
        """See which workers there are, and whether jobs are over their time."""
        self._looked = time.monotonic()
        self._workers = list(self.client.nthreads())
        self._dead.intersection_update(self._workers)
        self._clear_up()
        for worker in [worker for worker in self._running if worker not in self._workers]:
            entry = self._running[worker]
            if entry.future.status == "finished":
                self._over(entry.future)
            else:
                self._lost(entry)
                with suppress(Exception):
                    entry.future.cancel(force=True)
        limit = self.rules.timeout
        for entry in list(self._running.values()):
            if limit is not None and self._looked - entry.since > limit + GRACE_SECONDS:
                self._end_by_force(entry)
        self._tell_demand()
        if (reason := self.trouble()) is not None:
            raise NoWorkers(f"there will be no workers: {reason}")
        if self._workers:
            self._idle_since = self._looked
        elif self._looked - self._idle_since > self.rules.patience:
            raise NoWorkers(f"there was no worker for {self.rules.patience:.0f} seconds; the sweep cannot go on")

    def _tell_demand(self) -> None:
        """Let go of workers for which there is nothing more to do."""
        if self.demand is None:
            return
        if not self._exhausted and not self._stopped:
            self.demand(None, ())
            return
        waiting = 0 if self._stopped else len(self._fresh) + len(self._again) + len(self._unclear)
        idle = [worker for worker in self._workers if worker not in self._running and worker not in self._dead]
        free = idle[waiting:]
        self._dead.update(free)  # nothing is given to them any more
        self.demand(len(self._running) + waiting, free)

    def _end_by_force(self, entry: _Running) -> None:
        """The watchdog inside the worker did not work: the worker is stuck, or has not begun the job."""
        with suppress(Exception):
            self.client.restart_workers([entry.worker], timeout=GRACE_SECONDS, raise_for_error=False)
        self._dead.add(entry.worker)
        entry.overdue = True
        self._lost(entry)


def _told(record: dict[str, Any]) -> Outcome:
    """How a job ended by its record, whose worker is gone."""
    value = record.get("value") if record["status"] == DONE else JobDied(record["error"])
    return Outcome(record["status"], pickle.dumps(value), record["error"], None, record["started"], record["ended"])


def _failure(job: Job, text: str) -> Outcome:
    return Outcome(FAILED, pickle.dumps(JobDied(text)), text, None, job.started or now(), now())
