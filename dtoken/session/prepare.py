"""From settings to a run that can begin: all is checked that can be; data, constants and optimum are there."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from dtoken.algorithms.base import JUMPS
from dtoken.compiled import is_cached
from dtoken.config.settings import Settings
from dtoken.data.build import Watcher
from dtoken.data.ingest import default_store_root, ingest, store_key
from dtoken.data.partition import Partition
from dtoken.data.remote import open_store
from dtoken.data.store import ShardStore
from dtoken.data.svmlight import Svmlight
from dtoken.data.wrapped import Split
from dtoken.engine.events.executor import executor
from dtoken.engine.loop.accuracy import measurable
from dtoken.engine.loop.experiment import Experiment, check_failures, check_private, prepare, with_p_comm, with_seed
from dtoken.engine.loop.prediction import Prediction, predict
from dtoken.engine.loop.timed import timed
from dtoken.engine.timing import Choice
from dtoken.errors import InputError
from dtoken.graph.walks import Walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.held_out import HeldOut
from dtoken.problem.losses import Loss, get_loss
from dtoken.problem.optimum import start_objective
from dtoken.problem.smoothness import row_facts, sum_smoothness
from dtoken.schedule.events import DELIVER, DIE, FORK, LOAD, LOCAL, MEET, MOVE, VISIT
from dtoken.schedule.walks.registry import make_walk
from dtoken.session.files import result_digest
from dtoken.session.memory_estimate import (
    check_memory,
    check_state,
    memory_budget,
    memory_estimate,
    store_need,
    walk_of,
)
from dtoken.session.warm import check_origin, origin, origin_of
from hydra_dask.allocator import keep_memory
from hydra_dask.cluster import LocalWorkers

LONG_MODEL = 2000  # features from which mixing a token and a node is worth a thread of its own
LONG_GRADIENT = 20_000  # non-zeros from which the gradient of a node or of a block is
KEPT = 256 * 1024**2  # bytes of rows that are kept between the passes that prepare a run
NODES_LISTED = 5  # in a sentence
READING = 50_000_000  # bytes of the chunks that a thread has at hand in such a pass


@dataclass(frozen=True)
class Prepared:
    """A run that can begin: everything was checked and computed."""

    settings: Settings
    store: ShardStore
    found: bool  # the store was there already
    experiment: Experiment
    gap: float  # F - F* where tokens begin
    threads: int
    choice: Choice | None = None  # what algorithm.p_comm=auto has come to
    start_digest: str | None = None  # of the result of the run that this one goes on from

    @cached_property
    def theory(self) -> Prediction:
        """What the theory says about the run."""
        return predict(self.experiment)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the run starts, in sentences."""
        return (*self.experiment.notes, *_of_one_class(self.store), *_too_fine(self))


def _of_one_class(store: ShardStore) -> tuple[str, ...]:
    """What to say where nodes have rows of one class only."""
    meta = store.meta
    positives, rows = np.asarray(meta.node_positives), np.asarray(meta.node_rows)
    alone = np.flatnonzero((positives == 0) | (positives == rows)) if meta.classes else np.empty(0, np.int64)
    if not len(alone):
        return ()
    listed = ", ".join(map(str, alone[:NODES_LISTED])) + (", ..." if len(alone) > NODES_LISTED else "")
    text = f"{len(alone)} of {meta.n} nodes have rows of one class only (node {listed})"
    if meta.partition.get("kind") == "contiguous":
        text += ", as where rows are sorted by their labels; partition.kind=shuffled mixes them"
    return (text,)


def _too_fine(prepared: Prepared) -> tuple[str, ...]:
    """What to say of an accuracy that cannot be measured."""
    accuracy, best = prepared.settings.stop.suboptimality, prepared.experiment.optimum.objective
    if accuracy is None or measurable(accuracy, best):
        return ()
    return (
        f"stop.suboptimality={accuracy:g} is below what float64 can tell of F* {best:.6g}; the run stops where float64 "
        "ends, or at another stop",
    )


def check_run(settings: Settings) -> Walk:
    """Check what can be checked without the data; the walk of the tokens."""
    if (rows := getattr(settings.source, "rows", None)) is not None:
        settings.partition.check_rows(rows)
    check_state(settings)
    check_private(settings.method, settings.privacy)
    steps = _walk(settings)
    check_failures(settings.method, settings.failures, steps)
    if settings.schedule.replay is not None and not Path(settings.schedule.replay).is_file():
        raise InputError(f"schedule.replay={settings.schedule.replay} is not a file")
    if (started := origin_of(settings.method)) is not None:
        check_origin(started)
    if memory_budget(settings) is not None:
        check_memory(settings, memory_estimate(settings, steps))
    return steps


def check_alone(settings: Settings) -> None:
    """Refuse a single run in this process that is given a cluster: nothing of it would happen there."""
    if settings.engine.here and settings.cluster != LocalWorkers():
        given = f"cluster={settings.cluster.kind}"
        raise InputError(
            f"{given} is where engine=dask and the runs of a sweep (-m) happen, but this run would happen here; "
            f"add engine=dask, or -m for a sweep, or leave the cluster out"
        )


def prepare_run(settings: Settings, watcher: Watcher | None = None) -> Prepared:
    """Check everything that can be checked, ingest the data, compute constants and optimum."""
    watcher = watcher or Watcher()
    keep_memory()
    steps = check_run(settings)
    store, found = open_data(settings, watcher)
    threads = settings.engine.threads_for(store.n, _worth_sharing(settings, store))
    check_memory(settings, store_need(settings, store, steps))  # or a sentence, before any work
    budget = settings.engine.budget
    kept = KEPT if budget is None else max(0, min(KEPT, budget - threads * READING))
    problem = FiniteSum(store, get_loss(settings.problem.loss), settings.problem.sigma, kept, threads)
    if (law := settings.graph.law) is not None and law.uses_smoothness:
        law = law.with_smoothness(sum_smoothness(problem, row_facts(problem)))
        steps = make_walk(steps.topology, settings.graph.walk, None, law)
    watcher.stage("computing constants and optimum")
    experiment = prepare(
        problem, settings.method, steps, settings.time, settings.seed, settings.privacy, settings.failures
    )
    if settings.schedule.kind == "timed":
        experiment = timed(experiment)
        if not experiment.timed:
            watcher.note(
                f"schedule=timed: {settings.method.name} goes in rounds, for which ideal time is the same as ever"
            )
    _note_limit(experiment, watcher)
    experiment = replace(experiment, held_out=_held_out(settings, store, problem.loss, kept, watcher))
    digest = None
    if (started := origin_of(settings.method)) is not None:
        digest = result_digest(started)
        experiment = replace(experiment, origin=origin(started, store.path.name, problem, settings.method))
    gap = _first_gap(experiment)
    problem.reader.forget()  # the engine has its own rows
    prepared = Prepared(settings, store, found, experiment, gap, threads, start_digest=digest)
    return prepared if settings.schedule.replay is None else _replaying(prepared, Path(settings.schedule.replay))


def _held_out(settings: Settings, store: ShardStore, loss: Loss, memory: int, watcher: Watcher) -> HeldOut | None:
    """The rows to test on, with the features and classes that the training rows have."""
    meta, test = store.meta, settings.test
    if test is None:
        return None
    if isinstance(test, float):
        test = Split(settings.source, test, True, settings.test_seed, meta.index_base)
    elif isinstance(test, Svmlight) and test.index_base is None:
        test = replace(test, index_base=cast(Any, meta.index_base))
    root = None if isinstance(settings.store, str) else settings.store
    rows = ingest(test, Partition(1), root=root, labels="real", watcher=watcher)
    classes = {float(label): sign for label, sign in meta.label_map.items()} if meta.classes else None
    constant = settings.problem.intercept_scale if settings.problem.intercept else None
    return HeldOut(rows, loss, classes, constant, memory)


def _note_limit(experiment: Experiment, watcher: Watcher) -> None:
    """Say where the optimum lies in a part of the loss that is not what its name says."""
    problem, limit = experiment.problem, experiment.problem.loss.limit
    if limit is not None and (beyond := problem.rows_above(experiment.optimum.theta, limit)):
        watcher.note(
            f"problem.loss={problem.loss.name} is another function above the margin {limit:g}, and at the optimum "
            f"{beyond:,} rows are there"
        )


def _first_gap(experiment: Experiment) -> float:
    """F - F* where tokens begin."""
    problem, start = experiment.problem, experiment.origin
    first = start_objective(problem) if start is None else problem.objective(start.tokens.mean(axis=0))
    return first - experiment.optimum.objective


def open_data(settings: Settings, watcher: Watcher | None = None) -> tuple[ShardStore, bool]:
    """The data, and whether they were there already; else they are ingested now."""
    watcher = watcher or Watcher()
    if isinstance(settings.store, str):
        watcher.stage("looking at the remote store")
        store = open_store(settings.store, settings.scratch)
        if store.n != settings.partition.nodes:
            asked = f"nodes={settings.partition.nodes}"
            raise InputError(f"{asked}, but {settings.store} has {store.n} nodes; use nodes={store.n}")
        return store, True
    place = (settings.store or default_store_root()) / store_key(settings.training, settings.partition, settings.labels)
    found = place.exists()
    store = ingest(settings.training, settings.partition, root=settings.store, labels=settings.labels, watcher=watcher)
    return store, found


def _worth_sharing(settings: Settings, store: ShardStore) -> bool:
    """Whether a step takes longer than it takes threads to hand over a token, about a microsecond."""
    entries = int(store.node_nonzeros.max())
    if settings.method.draws_samples:
        entries = int(entries * min(1.0, settings.method.blocks.rows / int(store.node_rows.max())))
    return store.d >= LONG_MODEL or entries >= LONG_GRADIENT


def _walk(settings: Settings) -> Walk:
    steps = walk_of(settings)
    if getattr(settings.method, "jumps", 1) in JUMPS:
        steps.require_mixing()
    return steps


def _replaying(prepared: Prepared, path: Path) -> Prepared:
    from dtoken.schedule.replay import open_log

    settings, method = prepared.settings, prepared.settings.method
    kinds = {LOCAL, VISIT, MOVE} | ({MEET} if method.meet else set())
    if settings.failures.on:
        kinds |= {DIE, FORK}
    if not hasattr(method, "tokens"):
        kinds |= {LOAD, DELIVER}  # of methods with rounds
    block = method.blocks.rows if method.draws_samples else None
    log = open_log(path, prepared.experiment.law, prepared.store.node_rows, kinds, block, settings.failures)
    if is_auto(prepared) and log.p_comm is not None:
        prepared = chosen(prepared, Choice(log.p_comm))
        log = replace(log, law=prepared.experiment.law)
    if log.seed is not None:
        prepared = replace(prepared, experiment=with_seed(prepared.experiment, log.seed))
    return replace(prepared, experiment=replace(prepared.experiment, replay=log))


def kernels_cached(prepared: Prepared) -> bool:
    """Whether the executor of the method was compiled before."""
    method = prepared.settings.method
    return is_cached(executor(method.local, method.visit, method.meet))


def is_auto(prepared: Prepared) -> bool:
    """Whether p_comm is chosen by measured times."""
    return getattr(prepared.settings.method, "p_comm", None) == "auto"


def wants_choice(prepared: Prepared) -> bool:
    """Whether p_comm is still to be chosen."""
    return is_auto(prepared) and prepared.choice is None


def chosen(prepared: Prepared, choice: Choice) -> Prepared:
    """The same run with a p_comm that was chosen."""
    return replace(prepared, experiment=with_p_comm(prepared.experiment, choice.value), choice=choice)
