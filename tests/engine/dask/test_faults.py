"""The Dask engine while workers are killed, stopped, retired and added: equal bits, or a sentence."""

import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, LocalCluster, Nanny, Scheduler, SpecCluster

from dtoken.algorithms import method_class
from dtoken.data.store import ShardStore
from dtoken.engine.dask import crew, worker
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.dask.worker import Seats
from dtoken.engine.loop.checkpoint import load_checkpoint
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import Outcome, Watch
from dtoken.engine.settings import DaskSettings
from dtoken.errors import RunError
from hydra_dask.cluster import LocalWorkers
from hydra_dask.cluster._leaving import LeavingWorker
from tests.engine.dask.chaos import chaotic_run
from tests.engine.dask.on_dask import (
    CONTINUE,
    STOP,
    assert_equal,
    execute,
    local_cluster,
    local_engine,
    make_experiment,
    make_store,
    send,
)
from tests.waiting import NEVER, until

EVENTS = 40_000
PATIENT = DaskSettings(silence=NEVER)  # a machine with other work must not look like a fault


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ShardStore:
    return make_store(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A new one for each test: what one does to workers must not meet the next."""
    with local_cluster(3) as found:
        yield found


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as found:
        found.wait_for_workers(3, timeout=NEVER)
        yield found


@pytest.fixture(scope="module")
def experiment(store: ShardStore) -> Experiment:
    return make_experiment(store, method_class("tvr")(tokens=2))


@pytest.fixture(scope="module")
def expected(experiment: Experiment, store: ShardStore) -> Outcome:
    with local_engine(experiment, store) as local:
        return execute(experiment, local, EVENTS)


def at_record(number: int, action: Callable[[], Any]) -> Watch:
    """Let something happen in the middle of a run, however fast it is: when so many records have been made."""
    made: list[Record] = []

    def record(new: Record) -> None:
        made.append(new)
        if len(made) == number:
            action()

    return Watch(record=record)


@pytest.mark.parametrize(("graph", "transport"), [("ring", "shared"), ("complete", "tcp"), ("complete", "mixed")])
def test_chaos(client: Client, cluster: LocalCluster, store: ShardStore, graph: str, transport: str) -> None:
    seed = int(os.environ.get("DTOKEN_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    print(f"DTOKEN_CHAOS_SEED={seed}")
    rng = random.Random(seed)
    name = rng.choice(["tvr", "token", "gd", "extra"])
    kills, _ = chaotic_run(client, cluster, store, name, graph, rng, EVENTS, transport)
    print(f"{kills} kills")


@pytest.mark.parametrize("transport", ["shared", "tcp"])
def test_a_stopped_worker_is_survived_and_may_come_back(
    client: Client,
    cluster: LocalCluster,
    store: ShardStore,
    experiment: Experiment,
    expected: Outcome,
    tmp_path: Path,
    transport: str,
) -> None:
    """The others may be slow on a busy machine, and be given up as well for a while: the bits are the same."""
    notes: list[str] = []
    faults = DaskSettings(transport=transport, attempts=100, silence=1.0, rejoin=0.5, start=NEVER)
    with DaskEngine(client, experiment, store, faults, notes.append) as engine:
        name = next(iter(engine._workers))
        stopped = cluster.workers[int(name)].pid
        try:
            watch = at_record(2, lambda: send(STOP, stopped))
            found = execute(experiment, engine, EVENTS, directory=tmp_path, every=2, watch=watch)
            assert engine.faults >= 1
            assert name not in engine._workers
            assert engine.workers >= 1
        finally:
            send(CONTINUE, stopped)
    assert_equal(found, expected)
    assert "; went on with " in notes[0]


def break_connections(dask_worker: Any) -> None:
    """As when a cable is pulled and put back: both ends live, and what was on its way is lost."""
    for seat in dask_worker.plugins[Seats.name].seats.values():
        for link in seat.host._mesh._links.values():
            link._to.interrupt()


def test_a_broken_connection_is_mended_among_the_same_workers(
    client: Client, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store, PATIENT) as engine:
        before = dict(engine._workers)
        watch = at_record(2, lambda: client.run(break_connections, workers=[next(iter(before.values()))]))
        found = execute(experiment, engine, EVENTS, directory=tmp_path, every=2, watch=watch)
        assert engine.faults >= 1
        assert engine._workers == before
    assert_equal(found, expected)


def test_retirement_and_scaling_are_survived(
    client: Client, cluster: LocalCluster, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store, DaskSettings(attempts=100, rejoin=0.2, start=NEVER)) as engine:
        name, address = next(iter(engine._workers.items()))
        nanny = cluster.workers[int(name)]

        def retire() -> None:
            client.retire_workers([address])
            until(lambda: not nanny.is_alive())

        watch = at_record(2, retire)
        found = execute(experiment, engine, EVENTS, directory=tmp_path, every=1, watch=watch)
        assert engine.faults >= 1
    assert_equal(found, expected)


def be_patient() -> None:
    """On a worker: a machine with other work must not look like a driver that does not care."""
    worker.CUT_SECONDS = NEVER


def is_told_to_leave(dask_worker: Any) -> bool:
    return worker.SEATS[dask_worker].leaves


@contextmanager
def processes_of_a_batch_system() -> Iterator[Client]:
    """Workers as the jobs of a batch system start them, without the system."""
    options = {"worker_class": LeavingWorker, "nthreads": 1, "host": "127.0.0.1"}
    scheduler = {"cls": Scheduler, "options": {"dashboard": False, "host": "127.0.0.1", "port": 0}}
    workers = {name: {"cls": Nanny, "options": options} for name in range(2)}
    with (
        SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def processes_of_this_machine() -> Iterator[Client]:
    with LocalWorkers(workers=2).open() as connection:
        yield connection.client


@pytest.mark.parametrize("started", [processes_of_this_machine, processes_of_a_batch_system])
def test_a_worker_that_gets_sigterm_leaves_at_a_cut_and_nothing_is_repeated(
    started: Callable[[], AbstractContextManager[Client]],
    store: ShardStore,
    experiment: Experiment,
    expected: Outcome,
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    with started() as client:
        client.wait_for_workers(2, timeout=NEVER)
        settings = DaskSettings(silence=NEVER, start=NEVER)
        with DaskEngine(client, experiment, store, settings, notes.append) as engine:
            address = next(iter(engine._workers.values()))
            client.run(be_patient)
            pid = client.run(os.getpid, workers=[address])[address]

            def tell() -> None:
                send(signal.SIGTERM, pid)
                until(lambda: client.run(is_told_to_leave, workers=[address])[address])

            found = execute(experiment, engine, EVENTS, directory=tmp_path, every=10**6, watch=at_record(2, tell))
            assert engine.faults == 0
            assert address not in engine._workers.values()
            until(lambda: not psutil.pid_exists(pid))
    assert_equal(found, expected)
    assert len(notes) == 1
    assert "left in good order; went on with 1 worker from where it was" in notes[0]


def test_new_workers_are_used_from_the_next_cut_on(
    client: Client,
    cluster: LocalCluster,
    store: ShardStore,
    experiment: Experiment,
    expected: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crew, "NEWCOMER_SECONDS", NEVER)  # the machine may have other work
    with DaskEngine(client, experiment, store, PATIENT) as engine:
        before = engine.workers
        cluster.scale(len(cluster.worker_spec) + 1)
        client.wait_for_workers(before + 1, timeout=NEVER)
        found = execute(experiment, engine, EVENTS, directory=tmp_path, every=1)
        assert engine.workers == before + 1
        assert engine.faults == 0
    assert_equal(found, expected)


def die(poisoned: bool) -> None:
    """What a worker does with a stretch that it does not survive."""
    if poisoned:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_stretch_that_always_kills_its_worker_ends_the_run_with_a_sentence(
    client: Client, store: ShardStore, experiment: Experiment, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store, DaskSettings(attempts=3, silence=PATIENT.silence, rejoin=0.0)) as engine:
        execute(experiment, engine, 2000, directory=tmp_path, every=1)
        call = engine._call

        def poisoned(function: Any, *arguments: Any) -> Any:
            if function.__name__ == "run_epoch":
                return engine._call_each(die, [(me == 0,) for me in range(engine.workers)])
            return call(function, *arguments)

        engine._call = poisoned  # type: ignore[method-assign]
        with pytest.raises(RunError, match=r"failed 3 times in a row.*the last checkpoint is kept"):
            execute(experiment, engine, 6000, directory=tmp_path, every=1)
    with local_engine(experiment, store) as local:  # and another engine goes on from it
        found = execute(experiment, local, 6000, directory=tmp_path, every=1)
    with local_engine(experiment, store) as local:
        assert_equal(found, execute(experiment, local, 6000))


def test_a_checkpoint_of_the_local_engine_continues_on_workers(
    client: Client, store: ShardStore, experiment: Experiment, tmp_path: Path
) -> None:
    with local_engine(experiment, store) as local:
        execute(experiment, local, 3000, directory=tmp_path, every=1)
    with DaskEngine(client, experiment, store, PATIENT) as engine:
        found = execute(experiment, engine, 9000, directory=tmp_path, every=1)
    with local_engine(experiment, store) as local:
        whole = execute(experiment, local, 9000)
    assert found.records[-1].objective == whole.records[-1].objective
    assert (found.models.nodes == whole.models.nodes).all()


def test_a_mistake_in_a_method_is_told_with_its_traceback(
    client: Client, store: ShardStore, experiment: Experiment
) -> None:
    with DaskEngine(client, experiment, store, PATIENT) as engine:
        engine._queue.append("not a stretch")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="AttributeError") as caught:
            engine.settle()
        assert "host.py" in "".join(caught.value.__notes__)
        assert engine.faults == 0


# A driver that is killed, with all its workers, when it asks for the fourth time how far the run is.
KILLED = """
import os, signal
from dtoken.cli.run import main
from dtoken.engine.dask import crew
from dtoken.engine.loop.checkpoint import load_checkpoint
from dtoken.engine.dask.driver import DaskEngine

measure, asked = DaskEngine.measure, []

def strike(self, *arguments):
    asked.append(self)
    if len(asked) == 4:
        os.killpg(0, signal.SIGKILL)
    return measure(self, *arguments)

DaskEngine.measure = strike
main()
"""


def test_a_driver_that_is_killed_continues_when_it_is_started_again(tmp_path: Path) -> None:
    settings = ["nodes=4", "data.rows=400", f"data.store={tmp_path}/stores", "stop.passes=16", "checkpoint.every=1"]
    settings.append("record.every_passes=2")
    command = [sys.executable, "-m", "dtoken.cli.run"]
    on_dask = [*settings, "engine=dask", f"hydra.run.dir={tmp_path}/run"]
    first = subprocess.run([sys.executable, "-c", KILLED, *on_dask], start_new_session=True, timeout=NEVER, check=False)
    assert first.returncode == -signal.SIGKILL
    assert load_checkpoint(tmp_path / "run") is not None
    second = subprocess.run([*command, *on_dask], capture_output=True, text=True, timeout=NEVER, check=False)
    assert second.returncode == 0, second.stderr
    whole = [*command, *settings, f"hydra.run.dir={tmp_path}/whole"]
    subprocess.run(whole, capture_output=True, timeout=NEVER, check=True)
    import zarr

    for name in ("tokens", "nodes", "theta"):
        found, expected = (zarr.open_array(tmp_path / run / "result.zarr" / name)[...] for run in ("run", "whole"))
        assert (found == expected).all()
