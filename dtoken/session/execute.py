"""One run from settings to result: what the command and ``dtoken.run`` share."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dtoken.config.sections import Local
from dtoken.config.settings import Settings
from dtoken.config.values import plain
from dtoken.data.durable import remove_leftovers
from dtoken.engine.dask.facts import speed, worker_facts
from dtoken.engine.dask.faults import Faults
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import Outcome, Stop, Watch, run
from dtoken.engine.rows.memory import LIMIT_SHARE, Room, parse_memory
from dtoken.engine.timing import Choice, choose
from dtoken.errors import InputError
from dtoken.schedule.events import Events, no_events
from dtoken.schedule.samples import Samples
from dtoken.session import files as outputs
from dtoken.session import summary
from dtoken.session.memory_estimate import check_memory, memory_budget, memory_line, store_need
from dtoken.session.memory_samples import MemorySamples
from dtoken.session.prepare import Prepared, chosen, is_auto
from dtoken.session.provenance import now, provenance
from dtoken.session.result import Result
from hydra_dask.allocator import give_back

if TYPE_CHECKING:
    from distributed import Client

    from dtoken.engine.dask.driver import DaskEngine


class Observer(Protocol):
    """Who looks on."""

    def events(self, count: int) -> None:
        """So many events happened."""

    def record(self, record: Record) -> None:
        """This was measured."""

    def show(self, name: str, text: str) -> None:
        """This belongs to the description of the run."""

    def note(self, text: str) -> None:
        """This happened, and the user should know."""


def fraction(record: Record, stop: Stop, gap: float) -> float:
    """How much of a run is done, by the criterion that is nearest."""
    shares = [
        record.passes / stop.passes if stop.passes else 0.0,
        record.jumps / stop.jumps if stop.jumps else 0.0,
        record.event / stop.events if stop.events else 0.0,
    ]
    if stop.suboptimality and 0 < record.suboptimality < gap and stop.suboptimality < gap:
        shares.append(math.log(gap / record.suboptimality) / math.log(gap / stop.suboptimality))
    return min(1.0, max(shares))


def execute(
    prepared: Prepared,
    directory: Path | None = None,
    observer: Observer | None = None,
    client: "Client | None" = None,
) -> Result:
    """Run to the end, from the last checkpoint in ``directory`` if there is one, and leave the result there.

    A ``client`` is used for the Dask engine in place of the cluster of the settings.
    """
    settings = prepared.settings
    if directory is None and settings.record.events:
        raise InputError("record.events=true needs a directory for the log; give directory=...")
    if is_auto(prepared) and (recorded := outputs.recorded_choice(directory)):
        prepared = chosen(prepared, Choice(**recorded))
    if directory is not None:
        remove_leftovers(directory)
    report = _Report(prepared, directory)
    report.write(outputs.RUNNING)
    try:
        outcome = _run(prepared, directory, observer, client, report)
    except KeyboardInterrupt:
        report.write(outputs.INTERRUPTED)
        raise
    except Exception as error:
        report.write(outputs.FAILED, failure=str(error))
        raise
    give_back()  # the engine is gone: what writes the files may have its memory
    return report.finish(outcome)


def _run(
    prepared: Prepared, directory: Path | None, observer: Observer | None, client: "Client | None", report: "_Report"
) -> Outcome:
    """Run on the engine, which ends with this function, and so does its memory."""
    settings = prepared.settings
    if isinstance(settings.engine, Local):  # before the engine takes the memory
        prepared = _with_choice(prepared, None, observer, report)
    with _engine(prepared, observer, client) as engine:
        if not isinstance(engine, LocalEngine):
            prepared = _with_choice(prepared, engine, observer, report)
        watch, finish_log = _watch(prepared, engine, directory, observer, report)
        outcome = run(
            prepared.experiment,
            engine,
            settings.stop,
            settings.record,
            directory=directory,
            identity=_identity(prepared),
            checkpoint_seconds=settings.checkpoint.seconds,
            checkpoint_every=settings.checkpoint.every,
            watch=watch,
        )
        finish_log()
        report.engine = _engine_facts(prepared, engine, outcome.records, report.begun)
        return outcome


def _with_choice(
    prepared: Prepared, cluster: "DaskEngine | None", observer: Observer | None, report: "_Report"
) -> Prepared:
    """With a p_comm, if that is to be chosen by measured times and was not yet."""
    if not is_auto(prepared) or prepared.choice is not None:
        return prepared
    reads = cluster.streams if cluster is not None else _room(prepared) is not None
    choice = choose(prepared.experiment, prepared.threads, reads, cluster)
    prepared = chosen(prepared, choice)
    if cluster is not None:
        cluster.adopt(prepared.experiment)
    report.adopt(prepared)
    report.write(outputs.RUNNING)
    if observer is not None:
        observer.show("p_comm", choice.text(prepared.experiment.constants.balanced))
    return prepared


def _room(prepared: Prepared) -> Room | None:
    """What the budget of the local engine leaves for rows; None: all fit."""
    return check_memory(prepared.settings, store_need(prepared.settings, prepared.store))


@contextmanager
def _engine(
    prepared: Prepared, observer: Observer | None, client: "Client | None"
) -> Iterator["LocalEngine | DaskEngine"]:
    """The engine that the settings ask for, with compiled kernels, so that times do not contain compiling."""
    settings, experiment = prepared.settings, prepared.experiment
    if isinstance(settings.engine, Local):
        if settings.engine.memory is not None:
            give_back()  # what preparing the run took
        arguments = (settings.method, experiment.constants, prepared.store, experiment.problem.loss, prepared.threads)
        with LocalEngine(*arguments, _room(prepared), experiment.origin) as local:
            local.run(no_events())
            local.settle()
            yield local
        return
    from dtoken.engine.dask.connect import connect
    from dtoken.engine.dask.driver import DaskEngine

    with connect(settings.cluster, client) as connection:
        if observer is not None:
            link = f"   dashboard {connection.dashboard}" if connection.dashboard else ""
            observer.show("cluster", connection.text + link)
            if memory_budget(settings) is None and (limit := _worker_limit(connection.client)):
                need = store_need(settings, prepared.store)
                observer.show("memory", memory_line(settings, need, int(LIMIT_SHARE * limit)) or "")
        faults: Faults = settings.engine
        if faults.start is None and connection.waits_in_queue:
            faults = replace(faults, start=math.inf)
        note = observer.note if observer is not None else lambda _: None
        memory = parse_memory("engine.memory", settings.engine.memory)
        more = (faults, note, connection.trouble, memory, settings.engine.read_ahead, settings.scratch)
        with DaskEngine(connection.client, experiment, prepared.store.location, *more) as dask:
            yield dask


def _worker_limit(client: "Client") -> int:
    """The smallest memory limit of the workers that there are; 0: none has one."""
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    return min((int(limit) for limit in limits if limit), default=0)


@contextmanager
def noting_memory(settings: Settings, directory: Path | None) -> Iterator[None]:
    """Note how much memory this process uses, if there is a budget for it and in the end a place for the notes.

    To be entered before a run is prepared: a budget is for all of it.
    """
    budget = parse_memory("engine.memory", settings.engine.memory)
    if budget is None or directory is None or not isinstance(settings.engine, Local):
        yield
        return
    with MemorySamples() as samples:
        try:
            yield
        finally:
            if directory.is_dir():
                outputs.write_memory(directory, samples.taken, budget)


def _engine_facts(
    prepared: Prepared, engine: "LocalEngine | DaskEngine", records: list[Record], begun: int
) -> dict[str, Any]:
    facts = {"kind": prepared.settings.engine.kind, "events_per_second": speed(records)}
    if isinstance(engine, LocalEngine):
        return facts | {"threads": prepared.threads}
    return facts | worker_facts(engine, records, begun)


def _samples(engine: "LocalEngine | DaskEngine") -> Samples:
    return engine.samples if isinstance(engine, LocalEngine) else engine.samples()


def _watch(
    prepared: Prepared,
    engine: "LocalEngine | DaskEngine",
    directory: Path | None,
    observer: Observer | None,
    report: "_Report",
) -> tuple[Watch, Callable[[], None]]:
    """Whom to tell what, and what to do at the end."""
    log = None
    if prepared.settings.record.events and directory is not None:
        from dtoken.schedule.log import LogWriter, samples_of

        experiment = prepared.experiment
        facts = {
            "n": experiment.n,
            "tokens": len(experiment.start.positions),
            "token_start": experiment.start.positions.tolist(),
            "seed": experiment.seed,
            "algorithm": type(experiment.method).__name__,
            "p_comm": getattr(experiment.constants, "p_comm", None),
            "block_rows": experiment.method.blocks.rows,
            "data": prepared.store.path.name,
        }
        resolve = samples_of(_samples(engine), np.cumsum([0, *prepared.store.node_rows]))
        log = LogWriter(directory, facts, resolve, experiment.law.continuized)

    def happened(events: Events) -> None:
        if log is not None:
            log.add(events)
        if observer is not None:
            observer.events(events.size)

    def recorded(record: Record) -> None:
        if observer is not None:
            observer.record(record)

    def begun(events: int) -> None:
        report.begun = events
        if log is not None:
            log.begin(events)
        if observer is not None:
            observer.events(events)

    watch = Watch(begun, happened, recorded, log.checkpoint if log else lambda: None)
    return watch, log.finish if log else lambda: None


def _identity(prepared: Prepared) -> str:
    """Which run a checkpoint belongs to."""
    content: dict[str, Any] = {"settings": prepared.settings.identity(), "data": prepared.store.path.name}
    if prepared.choice:
        content["p_comm"] = prepared.choice.value
    if prepared.start_digest:
        content["start_from"] = prepared.start_digest
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


class _Report:
    """Writes the files of a run, if there is a directory for them."""

    engine: dict[str, Any] | None = None  # what the engine has to say at the end
    begun: int = 0  # events that had happened when this process took the run up

    def __init__(self, prepared: Prepared, directory: Path | None) -> None:
        self._directory, self._started = directory, now()
        self._load = os.getloadavg()[0]
        self.adopt(prepared)

    def adopt(self, prepared: Prepared) -> None:
        """What is to be run is this."""
        self._prepared, settings, meta = prepared, prepared.settings, prepared.store.meta
        self._head: dict[str, Any] = {
            "algorithm": _name(settings),
            "constants": summary.constants(prepared.experiment),
            "p_comm": prepared.choice and asdict(prepared.choice),
            "start_from": prepared.start_digest,
            "data": {
                "key": prepared.store.path.name,
                "path": str(prepared.store.path),
                "nodes": meta.n,
                "features": meta.d,
                "rows": meta.rows,
                "nonzeros": meta.nonzeros,
                "optimum": prepared.experiment.optimum.objective,
            },
            "graph": plain(summary.graph_facts(prepared.experiment)),
            "conditions": {
                "engine": settings.engine.kind,
                "threads": prepared.threads if isinstance(settings.engine, Local) else None,
                "processors": os.cpu_count(),
                "load": self._load,
            },
            "provenance": provenance() | _inputs(prepared) | {"started": self._started},
            "config": settings.as_config(),
        }

    def write(self, status: str, records: list[Record] | None = None, failure: str | None = None) -> dict[str, Any]:
        theory, settings = self._prepared.theory, self._prepared.settings
        records = records or []
        content = {
            "status": status,
            "failure": failure,
            **self._head,
            "predicted_rate": theory.rate,
            "paper_rate": theory.paper_rate,
            "rate_is_proved": theory.proved,
            "predicted": summary.predictions(theory, settings.accuracies, self._prepared.gap),
            "measured_rate": summary.measured_rate(self._prepared.experiment, theory, records),
            "to_accuracy": summary.to_accuracy(records, settings.accuracies),
            "end": records[-1].as_dict() if records else None,
            "engine": self.engine,
        }
        content["provenance"] = {**self._head["provenance"], "ended": None if status == outputs.RUNNING else now()}
        if self._directory is not None:
            if records:
                outputs.write_trajectory(self._directory, records)
            outputs.write_summary(self._directory, content)  # the last file: what it says of the others is true
        return content

    def finish(self, outcome: Outcome) -> Result:
        if self._directory is not None:
            outputs.write_result(self._directory, outcome.models, outcome.margins)
        status = outputs.DONE
        if outcome.failure:
            status = outputs.DIVERGED if outcome.diverged else outputs.FAILED
        content = self.write(status, outcome.records, outcome.failure)
        return Result.of(outcome.records, content, outcome.models, self._directory)


def _inputs(prepared: Prepared) -> dict[str, Any]:
    """What goes in: the data by their key, and all seeds."""
    settings = prepared.settings
    seeds = {
        "schedule": settings.seed,
        "data": getattr(settings.source, "seed", None),
        "partition": settings.partition.seed,
        "graph": settings.graph.params.get("seed"),
    }
    seeds = {name: seed for name, seed in seeds.items() if seed is not None}
    return {"seed": settings.seed, "seeds": seeds, "data": prepared.store.path.name}


def _name(settings: Settings) -> str:
    return settings.method.name
