"""Small experiments on disk, run by any engine, and what is compared: records, models and states, to the bit."""

import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import LocalCluster, Worker
from distributed.diagnostics.plugin import WorkerPlugin

from dtoken.algorithms.contract import Method
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.engine.dask import worker as hosting
from dtoken.engine.dask.shared import machine
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.engine import Engine
from dtoken.engine.loop.experiment import Experiment, prepare
from dtoken.engine.loop.parts import Part, PartFile, read_part
from dtoken.engine.loop.run import Outcome, run
from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel


@contextmanager
def local_cluster(workers: int, **options: Any) -> Iterator[LocalCluster]:
    """Worker processes with one thread each; one that dies is replaced, however long a busy machine takes for that."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),  # seconds, if Dask is not told
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
            **options,
        ) as cluster,
    ):
        yield cluster


class TwoMachines(WorkerPlugin):
    """Makes workers believe that those with even and with odd names are on two machines."""

    name = "two-machines"

    def setup(self, worker: Worker) -> None:
        hosting.machine = partial(_half, int(str(worker.name)) % 2)  # type: ignore[assignment]

    def teardown(self, worker: Worker) -> None:
        hosting.machine = machine


def _half(which: int) -> str:
    return f"{machine()} {which}"


def make_store(root: Path, nodes: int = 6, rows: int = 120) -> ShardStore:
    return ingest(Synthetic(rows=rows, features=6), Partition(nodes), root=root)


def make_experiment(store: ShardStore, method: Method, graph: str = "complete", kind: str = "simple") -> Experiment:
    problem = FiniteSum(store, get_loss("logistic"), 0.05)
    return prepare(problem, method, walk(build(graph, store.n), kind), TimeModel(), seed=3)


def local_engine(experiment: Experiment, store: ShardStore) -> LocalEngine:
    return LocalEngine(
        experiment.method, experiment.constants, store, experiment.problem.loss, 1, origin=experiment.origin
    )


def execute(
    experiment: Experiment, engine: Engine, events: int = 3000, every: int | None = None, **options: Any
) -> Outcome:
    """Run so many events, with a checkpoint after so many record points."""
    recording = Recording(every_passes=None, every_jumps=150 if events < 10_000 else 2000)
    return run(
        experiment,
        engine,
        Stop(passes=None, events=events),
        recording,
        checkpointing=Checkpointing(None, every),
        **options,
    )


def state_of(engine: Engine) -> dict[tuple[str, int], bytes]:
    """All numbers of all nodes and tokens, whoever hosts them."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved = engine.save(folder, "cut")
        parts = [saved] if isinstance(saved, Part) else [read_part(PartFile(folder / name, "cut")) for name in saved]
        for part in parts:
            for field, array in part.arrays.items():
                owners = part.tokens if field.startswith("tokens/") else part.nodes
                for place, owner in enumerate(owners.tolist()):
                    own = array[place : place + 1]
                    if field.startswith("nodes/") and len(array) == part.first[-1] != len(owners):
                        own = array[part.first[place] : part.first[place + 1]]
                    found[field, owner] = own.tobytes()
    return found


def assert_equal(a: Outcome, b: Outcome) -> None:
    assert a.failure == b.failure
    assert [without_wall(record) for record in a.records] == [without_wall(record) for record in b.records]
    np.testing.assert_array_equal(a.models.tokens, b.models.tokens)
    np.testing.assert_array_equal(a.models.nodes, b.models.nodes)


def without_wall(record: Any) -> dict[str, Any]:
    return {key: value for key, value in record.as_dict().items() if key != "wall"}


def worker_pids(cluster: LocalCluster) -> list[int]:
    """The processes of the workers that there are at the moment, also of those that have just been started."""
    pids = []
    for nanny in list(cluster.workers.values()):
        with suppress(AttributeError, ValueError):  # it notices just now that its worker is gone
            pids.append(nanny.pid)
    return [pid for pid in pids if pid]


def send(signal_number: int, pid: int) -> bool:
    try:
        os.kill(pid, signal_number)
    except ProcessLookupError:
        return False
    return True


KILL, STOP, CONTINUE = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
