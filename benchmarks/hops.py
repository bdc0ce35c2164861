"""A hop of a token between two Dask workers, through shared memory and over TCP, against a bare TCP ping-pong.

    python benchmarks/hops.py [--size small|full] [--json FILE]

Medians of one way. Then many hops of a small token, and what the scheduler of Dask remembers of them: nothing.
"""

import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from common import Figures, arguments
from distributed import Client, LocalCluster, Security

from dtoken.algorithms.token import Token
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.loop.experiment import prepare
from dtoken.engine.settings import DaskSettings
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from hydra_dask.cluster.connection import quiet

MESSAGE_HEADER = 16  # bytes, as the token channel has them
PAPER = 47_236  # features
SHARED = {100: 10.0, PAPER: 15.0}  # microseconds that a hop through shared memory may take


def receive(connection: socket.socket, into: memoryview) -> None:
    while len(into):
        count = connection.recv_into(into)
        if count == 0:
            raise ConnectionError
        into = into[count:]


def echo(pipe: Connection, size: int, trips: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(size))
        for _ in range(trips):
            receive(connection, buffer)
            connection.sendall(buffer)


def bare_tcp(size: int, trips: int) -> list[float]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=echo, args=(theirs, size, trips))
    process.start()
    taken = []
    with socket.create_connection(("127.0.0.1", ours.recv())) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(size))
        for _ in range(trips):
            began = time.perf_counter()
            connection.sendall(buffer)
            receive(connection, buffer)
            taken.append((time.perf_counter() - began) / 2)
    process.join()
    return taken


@contextmanager
def two_workers(
    root: Path, d: int, nodes: int, transport: str = "shared", tls: bool = False
) -> Iterator[tuple[Client, DaskEngine, Any]]:
    """Nodes of a tiny problem on two workers; every event is the visit of a token."""
    store = ingest(Rcv1Like(rows=20 * nodes, features=d, nonzeros=min(50, d // 2)), Partition(nodes), root=root)
    problem = FiniteSum(store, get_loss("logistic"), 1.0)
    method = Token(tokens=nodes, compute="on_arrival")
    experiment = prepare(problem, method, walk(build("complete", nodes), "simple"), TimeModel(), 0)
    security = {"security": Security.temporary(), "protocol": "tls://"} if tls else {}
    with (
        quiet(),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", **security) as cluster,
        Client(cluster) as client,
        DaskEngine(client, experiment, store, DaskSettings(transport=transport)) as engine,
    ):
        yield client, engine, experiment


def hop_seconds(root: Path, d: int, trips: int, transport: str, tls: bool = False) -> float:
    with two_workers(root, d, 2, transport, tls) as (_, engine, _):
        engine.probe(max(3, trips // 10))
        return statistics.median(engine.probe(trips))


def remembered(dask_scheduler: Any) -> tuple[float, int, int]:
    """Megabytes of the scheduler's process, which is this one, its tasks, and how often any changed its state."""
    import gc

    import psutil

    gc.collect()
    return psutil.Process().memory_info().rss / 1e6, len(dask_scheduler.tasks), dask_scheduler.transition_counter


def scheduler_memory(figures: Figures, root: Path, wanted: int) -> None:
    """Let tokens hop ``wanted`` times, after a tenth of that; the difference is what hops leave behind."""
    with two_workers(root, 100, 20) as (client, engine, experiment):
        before, segments, start = None, experiment.schedule.segments(experiment.start), experiment.start
        hops = 0
        while hops < 1.1 * wanted:
            events, following = next(segments)
            for offset in range(0, events.size, 8192):
                engine.run(events.between(offset, offset + 8192), start, offset)
                engine.settle()
                hops = sum(tally.hops_shared for tally in engine.tallies.values())
                if before is None and hops >= 0.1 * wanted:
                    before, first = client.run_on_scheduler(remembered), hops
            start = following
        after = client.run_on_scheduler(remembered)
    figures.add("scheduler: hops between two workers", hops - first, "hops")
    figures.add("scheduler: tasks, and changes of their state", after[1] + after[2], "in all", at_most=0)
    figures.add("scheduler: memory before", before[0], "MB")
    figures.add("scheduler: memory that the hops added", after[0] - before[0], "MB", at_most=5)


def main() -> None:
    options = arguments(__doc__)
    figures = Figures(options)
    full = options.size == "full"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for d in (100, PAPER, 1_000_000):
            trips = int((1000 if full else 100) * min(1.0, 1e5 / d))
            bare = statistics.median(bare_tcp(8 * d + MESSAGE_HEADER, trips))
            shared, plain = (hop_seconds(root, d, trips, transport) for transport in ("shared", "tcp"))
            secure = hop_seconds(root, d, trips, "tcp", tls=True)
            figures.add(f"d = {d:,}: hop through shared memory", 1e6 * shared, "us", at_most=SHARED.get(d))
            figures.add(f"d = {d:,}: bare TCP, one way", 1e6 * bare, "us")
            figures.add(f"d = {d:,}: hop over TCP", 1e6 * plain, "us")
            most, most_sealed = (2.0, 2.5) if d == PAPER else (None, None)
            figures.add(f"d = {d:,}: hop over TCP / bare TCP", plain / bare, "ratio", at_most=most)
            figures.add(f"d = {d:,}: hop with TLS / bare TCP", secure / bare, "ratio", at_most=most_sealed)
        scheduler_memory(figures, root, 100_000 if full else 5_000)
    figures.show()


if __name__ == "__main__":
    main()
