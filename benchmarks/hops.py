"""A hop of a token between two Dask workers, against a bare TCP ping-pong of the same payload, in one run.

``python benchmarks/hops.py`` prints a table: median microseconds of one way, and the ratio to bare TCP.
"""

import argparse
import multiprocessing
import socket
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster, Security

from dtoken.algorithms.token import Token
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.engine.dask_engine import DaskEngine
from dtoken.engine.experiment import prepare
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel
from hydra_plugins.dask_launcher.cluster.connection import quiet

MESSAGE_HEADER = 16  # bytes, as the token channel has them


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


def between_workers(d: int, trips: int, tls: bool, root: Path) -> tuple[int, list[float]]:
    store = ingest(Rcv1Like(rows=40, features=d, nonzeros=min(50, d // 2)), Partition(2), root=root)
    problem = FiniteSum(store, get_loss("logistic"), 1.0)
    experiment = prepare(problem, Token(tokens=1), walk(build("complete", 2), "simple"), TimeModel(), 0)
    security = Security.temporary() if tls else None
    protocol = "tls://" if tls else "tcp://"
    with (
        quiet(),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", security=security, protocol=protocol
        ) as cluster,
        Client(cluster) as client,
        DaskEngine(client, experiment, store.path) as engine,
    ):
        engine.probe(max(3, trips // 10))
        return 8 * d, engine.probe(trips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 47_236, 1_000_000])
    parser.add_argument("--trips", type=int, default=400)
    asked = parser.parse_args()
    print(f"{'d':>9}  {'bytes':>9}  {'bare TCP':>10}  {'hop':>10}  {'ratio':>5}  {'hop, TLS':>10}  {'ratio':>5}")
    with tempfile.TemporaryDirectory() as root:
        for d in asked.sizes:
            trips = max(10, int(asked.trips * min(1.0, 1e5 / d)))
            size, plain = between_workers(d, trips, False, Path(root))
            _, secure = between_workers(d, trips, True, Path(root))
            bare = bare_tcp(size + MESSAGE_HEADER, trips)
            base, hop, tls = (1e6 * statistics.median(taken) for taken in (bare, plain, secure))
            row = f"{d:>9,}  {size:>9,}  {base:>7.1f} us  {hop:>7.1f} us  {hop / base:>5.2f}  {tls:>7.1f} us"
            print(f"{row}  {tls / base:>5.2f}", flush=True)
    assert np.isfinite(base)


if __name__ == "__main__":
    main()
