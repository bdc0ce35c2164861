"""One run from settings to result: what the command, the jobs of a sweep and ``dtoken.run`` share."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoken.config.settings import Settings
from dtoken.data.files import writing
from dtoken.engine.loop.engine import Engine
from dtoken.engine.loop.interruption import Cut
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import Outcome, Watch, run
from dtoken.engine.timing import Choice
from dtoken.errors import InputError, RunError
from dtoken.schedule.events import Events
from dtoken.session.account import Account
from dtoken.session.duration import check_length
from dtoken.session.engines import open_engine
from dtoken.session.files import (
    FAILED,
    RUNNING,
    check_writable,
    earlier_summary,
    is_over,
    recorded_choice,
    write_memory,
)
from dtoken.session.lines import where
from dtoken.session.memory_samples import MemorySamples
from dtoken.session.prepare import Prepared, chosen, is_auto, kernels_cached, prepare_run
from dtoken.session.result import Result
from dtoken.session.tracking import TRACKERS
from dtoken.session.viewer import Viewer
from hydra_dask.allocator import give_back
from hydra_dask.durable import remove_leftovers, sync_folder
from hydra_dask.locks import Held, locked

if TYPE_CHECKING:
    from distributed import Client

Task = Callable[[], Result]
LOCK = ".lock"  # in the run directory while a process runs there


def carry_out(
    settings: Settings,
    directory: Path | None = None,
    viewer: Viewer | None = None,
    *,
    client: "Client | None" = None,
    inside: Callable[[Task], Result] | None = None,
) -> Result:
    """Run what ``settings`` ask for; a run that ended before is returned, an interrupted one continued.

    Parameters
    ----------
    settings
        Of the run.
    directory
        Where the run leaves its files; None: nowhere.
    viewer
        Told everything as it goes; None: nobody is.
    client
        Of a Dask cluster to use in place of that of the settings.
    inside
        Calls what it is given when the directory is there, once all is checked; None: the directory is made.
    """
    viewer = viewer or Viewer()
    if directory is not None and (found := _finished(directory, settings)):
        viewer.found(found)
        return found
    if directory is not None:
        check_writable(directory)
    with _noting_memory(settings, directory), viewer:
        prepared = prepare_run(settings, viewer.watcher)
        check_length(prepared)
        viewer.prepared(prepared)
        if not kernels_cached(prepared):
            viewer.note("compiling kernels (first run only)")
        if directory is not None and inside is None:
            directory.mkdir(parents=True, exist_ok=True)
        result = (inside or _call)(lambda: execute(prepared, directory, viewer, client))
    viewer.ended(result)
    return result


def _call(task: Task) -> Result:
    return task()


def _finished(directory: Path, settings: Settings) -> Result | None:
    """The result of this run, if it has nothing left to do."""
    before = earlier_summary(directory, settings)
    return Result.load(directory) if before and is_over(directory, before, settings) else None


def execute(
    prepared: Prepared,
    directory: Path | None = None,
    viewer: Viewer | None = None,
    client: "Client | None" = None,
) -> Result:
    """Run to the end, from the last checkpoint in ``directory`` if there is one, and leave the result there."""
    if directory is None and prepared.settings.record.events:
        raise InputError("record.events=true needs a directory for the log; give directory=...")
    viewer = viewer or Viewer()
    if directory is None:
        return _execute(prepared, None, viewer, client)
    with _only_process(directory):
        if found := _finished(directory, prepared.settings):  # another process was faster
            return found
        remove_leftovers(directory)
        return _execute(prepared, directory, viewer, client)


@contextmanager
def _only_process(directory: Path) -> Iterator[None]:
    """Be the only one that runs in ``directory``: two would mix their checkpoints and results."""
    with ExitStack() as stack:
        try:
            with writing(directory / LOCK):
                stack.enter_context(locked(directory / LOCK))
                sync_folder(directory.parent)
        except Held as other:
            raise InputError(
                f"{other.holder} is running in {directory}; wait for it, or use another directory"
            ) from None
        yield


def _execute(prepared: Prepared, directory: Path | None, viewer: Viewer, client: "Client | None") -> Result:
    if is_auto(prepared) and (recorded := recorded_choice(directory)):
        prepared = chosen(prepared, Choice(**recorded))
    account = Account(prepared, directory)
    account.write(RUNNING)
    with _tracked(account) as tracked:
        return tracked(_to_the_end(prepared, directory, viewer, client, account))


@contextmanager
def _tracked(account: Account) -> Iterator[Callable[[Result], Result]]:
    """Tell trackers how a run ends of whose beginning they know, whatever happens."""
    ended: list[Result] = []

    def keep(result: Result) -> Result:
        ended.append(result)
        return result

    try:
        yield keep
    finally:
        for tracker in account.trackers:
            tracker.end(ended[0] if ended else None)


def _to_the_end(
    prepared: Prepared, directory: Path | None, viewer: Viewer, client: "Client | None", account: Account
) -> Result:
    try:
        outcome = _run(prepared, directory, viewer, client, account)
        give_back()  # the engine is gone: what writes the files may have its memory
        return account.finish(outcome)
    except (Exception, KeyboardInterrupt) as error:
        with suppress(RunError):  # on a full disk; the first error is the one to tell
            if isinstance(error, KeyboardInterrupt):
                account.interrupted(error if isinstance(error, Cut) else None)
            else:
                account.write(FAILED, failure=str(error))
        raise


def _run(
    prepared: Prepared, directory: Path | None, viewer: Viewer, client: "Client | None", account: Account
) -> Outcome:
    """Run on the engine, which ends with this function, and so does its memory."""
    with open_engine(prepared, viewer, client) as (ready, engine):
        if ready.choice is not None and prepared.choice is None:
            account.adopt(ready)
            account.write(RUNNING)
            viewer.show("p_comm", ready.choice.text(ready.experiment.constants.balanced))
        settings = ready.settings
        watch, finish_log = _watch(ready, engine, directory, viewer, account)
        outcome = run(
            ready.experiment,
            engine,
            settings.stop,
            settings.record,
            directory=directory,
            identity=_identity(ready),
            checkpointing=settings.checkpoint,
            watch=watch,
        )
        finish_log()
        account.engine = engine.facts(outcome.records, account.begun)
        return outcome


@contextmanager
def _noting_memory(settings: Settings, directory: Path | None) -> Iterator[None]:
    """Note how much memory this process uses, if there is a budget for it and in the end a place for the notes.

    Preparing the run belongs to it: a budget is for all of it.
    """
    budget = settings.engine.budget
    if budget is None or directory is None or not settings.engine.here:
        yield
        return
    with MemorySamples() as samples:
        try:
            yield
        finally:
            if directory.is_dir():
                write_memory(directory, samples.taken, budget)


def _watch(
    prepared: Prepared, engine: Engine, directory: Path | None, viewer: Viewer, account: Account
) -> tuple[Watch, Callable[[], None]]:
    """Whom to tell what, and what to do at the end."""
    log = None
    if prepared.settings.record.events and directory is not None:
        from dtoken.schedule.log import LogWriter, samples_of

        experiment = prepared.experiment
        facts = {
            "n": experiment.n,
            "tokens": experiment.law.tokens,
            "slots": len(experiment.start.positions),
            "token_start": experiment.start.positions.tolist(),
            "seed": experiment.seed,
            "algorithm": type(experiment.method).__name__,
            "p_comm": getattr(experiment.constants, "p_comm", None),
            "block_rows": experiment.method.blocks.rows,
            "data": prepared.store.path.name,
        }
        resolve = samples_of(engine.samples(), prepared.store.meta.first_row)
        log = LogWriter(directory, facts, resolve, experiment.law.continuized or experiment.facts.failures.on)

    def begun(events: int, records: list[Record]) -> None:
        account.begun, account.records = events, records
        for tracker in TRACKERS:
            tracker.begin(prepared.settings.as_config(), directory or Path(), events)
            account.trackers = [*account.trackers, tracker]
            if not events:
                tracker.record(records[0])
        if events:
            viewer.show("resumed", where(records[-1], events))
        if log is not None:
            log.begin(events)
        viewer.events(events)

    def happened(events: Events) -> None:
        if log is not None:
            log.add(events)
        viewer.events(events.size)

    def recorded(record: Record) -> None:
        for tracker in account.trackers if record.event > account.begun else ():
            tracker.record(record)
        viewer.record(record)

    watch = Watch(begun, happened, recorded, log.checkpoint if log else lambda: None)
    return watch, log.finish if log else lambda: None


def _identity(prepared: Prepared) -> str:
    """Which run a checkpoint belongs to."""
    content: dict[str, Any] = {"settings": prepared.settings.identity(), "data": prepared.store.digest}
    if prepared.experiment.problem.loss.digest:
        content["loss"] = prepared.experiment.problem.loss.key
    if prepared.choice:
        content["p_comm"] = prepared.choice.value
    if prepared.start_digest:
        content["start_from"] = prepared.start_digest
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
