"""What happens on a worker: one job at a time, with the log, the record and the time limit of that job."""

import asyncio
import faulthandler
import gc
import json
import logging
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
from distributed import Worker, WorkerPlugin, get_worker
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, TaskFunction

from hydra_dask.allocator import give_back, keep_memory
from hydra_dask.errors import reason
from hydra_dask.job import run_job
from hydra_dask.locks import Held, locked
from hydra_dask.manifest import DONE, FAILED, HELD, LEFT, RECORDS, RUNNING, now, record_path, write_record
from hydra_dask.pruning import JOB_FILES, files_of, forget
from hydra_dask.stopping import JOB, KEPT

SAVE_SECONDS = 3.0  # for a job to keep what it has when its worker leaves; Dask's nannies wait for four
ORPHAN_SECONDS = 120.0  # how long a job of a driver that is dead may take to notice it


@dataclass(frozen=True)
class Shared:
    """What all jobs of a sweep have in common."""

    context: HydraContext
    task: TaskFunction
    singletons: Any
    cwd: str
    path: list[str]  # where modules are found
    argv: list[str]
    env: dict[str, str]


@dataclass(frozen=True)
class Task:
    """A job, as its worker gets it."""

    directory: Path  # of the sweep
    id: str
    index: int
    attempt: int
    folder: str
    log: str
    config: bytes
    timeout: float | None
    reports: bool = False  # whether somebody reads what it reports


class Outcome(NamedTuple):
    """How a job ended, as its worker tells the driver."""

    status: str
    value: bytes  # pickled: what the job returned or raised
    error: str | None
    working_dir: str | None
    started: str
    ended: str


class Station(WorkerPlugin):
    """Is on every worker, also on those that come later, and knows what all jobs have in common."""

    def __init__(self, token: str, content: bytes) -> None:
        self.name = f"hydra-launcher-{token}"
        self._token, self._content = token, content
        self._shared: Shared | None = None
        self.current: tuple[Task, dict[str, Any]] | None = None  # the job that runs, and its record
        self.stop: threading.Event | None = None  # by which it is asked to stop

    @property
    def shared(self) -> Shared:
        """What all jobs have in common, loaded when the first one comes."""
        if self._shared is None:
            content = pickle.loads(self._content)
            for folder in content["path"]:
                if folder not in sys.path:
                    sys.path.append(folder)
            os.chdir(content["cwd"])
            sys.argv = list(content["argv"])
            setup_globals()
            inner = pickle.loads(content.pop("pickled"))
            self._shared = Shared(**content, **inner)
        return self._shared

    def setup(self, worker: Worker) -> None:
        """The worker starts."""
        STATIONS[self._token] = self
        keep_memory()
        gc.freeze()  # modules are here to stay; the collector would look at all of them several times in each job

    def ask_to_stop(self) -> None:
        """Ask the job that runs, if there is one, to keep what it has and stop."""
        if self.stop is not None:
            self.stop.set()

    async def teardown(self, worker: Worker) -> None:
        """The worker leaves in good order: the job that runs on it may keep what it has, and is not to blame."""
        STATIONS.pop(self._token, None)
        self.ask_to_stop()
        deadline = time.monotonic() + SAVE_SECONDS
        while self.current is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if self.current is not None:
            task, record = self.current
            write_record(task.directory, task.index, record | {"status": LEFT})


STATIONS: dict[str, Station] = {}


def pack(context: HydraContext, task: TaskFunction, env: Mapping[str, str]) -> bytes:
    """What all jobs have in common, as bytes that wait for the search path before they are loaded."""
    inner = {"context": context, "task": task, "singletons": Singleton.get_state()}
    content = {"cwd": os.getcwd(), "path": [folder or os.getcwd() for folder in sys.path]}
    content |= {"argv": list(sys.argv)}
    packed: bytes = cloudpickle.dumps(content | {"env": dict(env), "pickled": cloudpickle.dumps(inner)})
    return packed


def run_task(token: str, task: Task) -> Outcome:
    """Run a job; this is the Dask task."""
    station = STATIONS[token]
    record: dict[str, Any] = {"id": task.id, "status": RUNNING, "attempt": task.attempt, "started": now()}
    record |= {"pid": os.getpid(), "host": os.uname().nodename, "worker": str(get_worker().name)}
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(task.directory / RECORDS / f"{task.index}.lock", ORPHAN_SECONDS))
        except Held as other:  # a worker that was cut off, or a driver that died, may have left one behind for a while
            print(f"{other.holder} is still at this job")
            return Outcome(HELD, b"", None, None, record["started"], now())
        if (outcome := _done_elsewhere(task)) is not None:
            return outcome
        write_record(task.directory, task.index, record)
        station.current, station.stop = (task, record), (stop := threading.Event())
        JOB.set(stop)
        KEPT.set(partial(_keep, task, record))
        place = files_of(task.directory, task.index)
        JOB_FILES.set(place if task.reports else None)
        forget(place)
        try:
            shared = station.shared
            os.chdir(shared.cwd)  # a job before this one may have gone elsewhere
            (task.directory / task.folder).mkdir(parents=True, exist_ok=True)
            with _logged(task):
                returned = _run(shared, task)
                if stop.is_set() and isinstance(returned._return_value, KeyboardInterrupt):
                    print("stopped where it was, because its worker leaves")
                    write_record(task.directory, task.index, record | {"status": LEFT, "kept": True})
                    return Outcome(LEFT, b"", None, None, record["started"], now())
                outcome = _outcome(returned, record["started"])
        finally:
            station.current = None
        value = _as_json(returned._return_value) if outcome.status == DONE else None
        final = {"status": outcome.status, "ended": outcome.ended, "error": outcome.error, "value": value}
        write_record(task.directory, task.index, record | final, durable=True)
    del returned
    give_back()
    return outcome


def _keep(task: Task, record: dict[str, Any]) -> None:
    """Take down that the job has kept something, once."""
    if "kept" not in record:
        record["kept"] = True
        write_record(task.directory, task.index, record)


def _done_elsewhere(task: Task) -> Outcome | None:
    """How an earlier attempt ended whose worker was believed to be lost, if it came to a good end after all."""
    try:
        found = json.loads(record_path(task.directory, task.index).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if found.get("id") != task.id or found["status"] != DONE or found["attempt"] >= task.attempt:
        return None
    if not (task.directory / task.folder).is_dir():  # somebody has removed what it made
        return None
    return Outcome(DONE, cloudpickle.dumps(found["value"]), None, None, found["started"], found["ended"])


def _run(shared: Shared, task: Task) -> JobReturn:
    Singleton.set_state(shared.singletons)
    callbacks = type(shared.context.callbacks)()
    callbacks.callbacks = [*shared.context.callbacks.callbacks, _NoEcho()]
    with _environment(shared.env):
        try:
            return run_job(shared.task, task.config, HydraContext(shared.context.config_loader, callbacks))
        except BaseException as error:  # what Hydra does not catch: an exit, or a callback or directory that failed
            failed = JobReturn(status=JobStatus.FAILED, working_dir=os.getcwd())
            failed.return_value = error
            if isinstance(error, SystemExit):
                good = error.code in (None, 0)
                failed.status = JobStatus.COMPLETED if good else JobStatus.FAILED
                failed.return_value = None if good else RuntimeError(f"the job called sys.exit({error.code!r})")
            return failed


def _outcome(returned: JobReturn, started: str) -> Outcome:
    value = returned._return_value
    error = None
    if returned.status != JobStatus.COMPLETED:
        traceback.print_exception(value)
        error = reason(value)
    try:
        packed = cloudpickle.dumps(value)
        pickle.loads(packed)  # some exceptions can be pickled, and not loaded again
    except Exception as problem:
        print(f"what the job returned or raised cannot be sent: {problem}", file=sys.stderr)
        packed = cloudpickle.dumps(None if error is None else RuntimeError(error))
    # an exception that has a status of its own tells that it is useless to try again
    status = DONE if error is None else str(getattr(value, "status", FAILED))
    return Outcome(status, packed, error, returned.working_dir, started, now())


def _as_json(value: Any) -> Any:
    """A return value for a later sweep that does not run the job again; None if JSON cannot hold it."""
    try:
        return json.loads(json.dumps(value, allow_nan=True))
    except (TypeError, ValueError):
        return None


class _NoEcho(Callback):
    """Removes log handlers that write to the console: that is the log file, which has its own handler."""

    def on_job_start(self, *_: Any, **__: Any) -> None:
        root = logging.getLogger()
        if any(isinstance(handler, logging.FileHandler) for handler in root.handlers):
            for handler in list(root.handlers):
                if getattr(handler, "stream", None) in (sys.stdout, sys.stderr):
                    root.removeHandler(handler)


@contextmanager
def _logged(task: Task) -> Iterator[None]:
    """Send what the process prints to the log, and stop it when the job takes too long."""
    before = os.dup(1), os.dup(2)
    with open(task.directory / task.log, "a", buffering=1, encoding="utf-8", errors="backslashreplace") as log:
        if task.attempt > 1:
            log.write(f"--- attempt {task.attempt}, {now()}\n")
        _flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        faulthandler.enable(log)
        if task.timeout is not None:  # needs no lock of Python's: also ends what hangs in compiled code
            faulthandler.dump_traceback_later(task.timeout, exit=True, file=log)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            faulthandler.disable()
            _flush()
            for number, saved in zip((1, 2), before, strict=True):
                os.dup2(saved, number)
                os.close(saved)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
