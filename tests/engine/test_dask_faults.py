"""The Dask engine while workers are killed, stopped, retired and added: equal bits, or a sentence."""

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from dtoken.algorithms import method_class
from dtoken.data.store import ShardStore
from dtoken.engine.dask_engine import DaskEngine
from dtoken.engine.experiment import Experiment
from dtoken.engine.faults import Faults
from dtoken.engine.recorder import Record
from dtoken.engine.run import Outcome, Watch
from dtoken.engine.worker import Hosts
from dtoken.errors import RunError
from tests.engine.chaos import chaotic_run
from tests.engine.on_dask import (
    CONTINUE,
    KILL,
    STOP,
    assert_equal,
    execute,
    local_engine,
    make_experiment,
    make_store,
    send,
    worker_pids,
)

EVENTS = 40_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ShardStore:
    return make_store(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A new one for each test: what one does to workers must not meet the next."""
    with LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
    ) as found:
        yield found


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as found:
        found.wait_for_workers(3, timeout=60)
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


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_chaos(client: Client, cluster: LocalCluster, store: ShardStore, graph: str) -> None:
    seed = int(os.environ.get("DTOKEN_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    print(f"DTOKEN_CHAOS_SEED={seed}")
    rng = random.Random(seed)
    kills, _ = chaotic_run(client, cluster, store, rng.choice(["tvr", "token", "gd", "extra"]), graph, rng, EVENTS)
    print(f"{kills} kills")


def test_a_stopped_worker_is_survived_and_may_come_back(
    client: Client, cluster: LocalCluster, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    name, nanny = next(iter(cluster.workers.items()))
    stopped = nanny.process.pid
    notes: list[str] = []
    try:
        with DaskEngine(client, experiment, store.path, Faults(silence=1.0, rejoin=0.5), notes.append) as engine:
            assert str(name) in engine._workers
            watch = at_record(2, lambda: send(STOP, stopped))
            found = execute(experiment, engine, EVENTS, directory=tmp_path, checkpoint_every=2, watch=watch)
            assert engine.faults >= 1
            assert str(name) not in engine._workers
            assert engine.workers >= 1
    finally:
        send(CONTINUE, stopped)
    assert_equal(found, expected)
    assert "; went on with " in notes[0]


def break_connections(dask_worker: Any) -> None:
    """As when a cable is pulled and put back: both ends live, and what was on its way is lost."""
    for seat in dask_worker.plugins[Hosts.name].seats.values():
        for connection in seat.host._mesh._to.values():
            connection.shutdown(socket.SHUT_RDWR)


def test_a_broken_connection_is_mended_among_the_same_workers(
    client: Client, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store.path, Faults(silence=60.0)) as engine:
        before = dict(engine._workers)
        watch = at_record(2, lambda: client.run(break_connections, workers=[next(iter(before.values()))]))
        found = execute(experiment, engine, EVENTS, directory=tmp_path, checkpoint_every=2, watch=watch)
        assert engine.faults >= 1
        assert engine._workers == before
    assert_equal(found, expected)


def test_retirement_and_scaling_are_survived(
    client: Client, cluster: LocalCluster, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store.path, Faults(rejoin=0.2)) as engine:
        watch = at_record(2, lambda: client.retire_workers([next(iter(engine._workers.values()))]))
        found = execute(experiment, engine, EVENTS, directory=tmp_path, checkpoint_every=1, watch=watch)
        assert engine.faults >= 1
    assert_equal(found, expected)


def test_new_workers_are_used_from_the_next_cut_on(
    client: Client, cluster: LocalCluster, store: ShardStore, experiment: Experiment, expected: Outcome, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store.path) as engine:
        before = engine.workers
        cluster.scale(len(cluster.worker_spec) + 1)
        client.wait_for_workers(before + 1, timeout=30)
        found = execute(experiment, engine, EVENTS, directory=tmp_path, checkpoint_every=1)
        assert engine.workers == before + 1
        assert engine.faults == 0
    assert_equal(found, expected)


def test_a_stretch_that_always_kills_its_worker_ends_the_run_with_a_sentence(
    client: Client, cluster: LocalCluster, store: ShardStore, experiment: Experiment, tmp_path: Path
) -> None:
    with DaskEngine(client, experiment, store.path, Faults(attempts=3, rejoin=1.0)) as engine:
        execute(experiment, engine, 2000, directory=tmp_path, checkpoint_every=1)
        call = engine._call

        def poisoned(function: Any, *arguments: Any) -> Any:
            if function.__name__ == "run_epoch":
                send(KILL, random.choice(worker_pids(cluster)))
                time.sleep(0.1)
            return call(function, *arguments)

        engine._call = poisoned  # type: ignore[method-assign]
        with pytest.raises(RunError, match=r"failed 3 times in a row.*the last checkpoint is kept"):
            execute(experiment, engine, 6000, directory=tmp_path, checkpoint_every=1)
    with local_engine(experiment, store) as local:  # and another engine goes on from it
        found = execute(experiment, local, 6000, directory=tmp_path, checkpoint_every=1)
    with local_engine(experiment, store) as local:
        assert_equal(found, execute(experiment, local, 6000))


def test_a_checkpoint_of_the_local_engine_continues_on_workers(
    client: Client, store: ShardStore, experiment: Experiment, tmp_path: Path
) -> None:
    with local_engine(experiment, store) as local:
        execute(experiment, local, 3000, directory=tmp_path, checkpoint_every=1)
    with DaskEngine(client, experiment, store.path) as engine:
        found = execute(experiment, engine, 9000, directory=tmp_path, checkpoint_every=1)
    with local_engine(experiment, store) as local:
        whole = execute(experiment, local, 9000)
    assert found.records[-1].objective == whole.records[-1].objective
    assert (found.models.nodes == whole.models.nodes).all()


def test_a_mistake_in_a_method_is_told_with_its_traceback(
    client: Client, store: ShardStore, experiment: Experiment
) -> None:
    with DaskEngine(client, experiment, store.path) as engine:
        engine._queue.append("not a stretch")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="AttributeError") as caught:
            engine.settle()
        assert "host.py" in "".join(caught.value.__notes__)
        assert engine.faults == 0


def test_a_driver_that_is_killed_continues_when_it_is_started_again(tmp_path: Path) -> None:
    settings = ["nodes=4", "data.rows=400", f"data.store={tmp_path}/stores", "stop.passes=16", "checkpoint.every=1"]
    command = [sys.executable, "-m", "dtoken.cli.run", *settings]
    on_dask = [*command, "engine=dask", "record.every_passes=2", f"hydra.run.dir={tmp_path}/run"]
    first = subprocess.Popen(on_dask, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/checkpoint.zarr").exists() and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert (tmp_path / "run/checkpoint.zarr").exists()
    second = subprocess.run(on_dask, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    whole = [*command, "record.every_passes=2", f"hydra.run.dir={tmp_path}/whole"]
    subprocess.run(whole, capture_output=True, timeout=120, check=True)
    import zarr

    for name in ("tokens", "nodes", "theta"):
        found, expected = (zarr.open_array(tmp_path / run / "result.zarr" / name)[...] for run in ("run", "whole"))
        assert (found == expected).all()
