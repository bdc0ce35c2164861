"""Kill random workers at random times and compare the result with an undisturbed run: equal bits, every time.

``python -m tests.engine.dask.chaos --kills 100`` (``make chaos``) is the long version of the chaos test.
"""

import argparse
import gc
import os
import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, LocalCluster, Security

from dtoken.algorithms import METHODS, method_class
from dtoken.data.store import ShardStore
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.dask.shared import MEMORY_NAME
from dtoken.engine.loop.run import Watch
from dtoken.engine.settings import DaskSettings
from hydra_dask.cluster.connection import quiet
from tests.engine.dask.on_dask import (
    KILL,
    TwoMachines,
    assert_equal,
    execute,
    local_cluster,
    local_engine,
    make_experiment,
    make_store,
    send,
    state_of,
    worker_pids,
)
from tests.waiting import NEVER

TRANSPORTS = ("shared", "tcp", "mixed")
MARK = f"DTOKEN_CHAOS={os.getpid()}"  # in the environment of all processes that are started here
END_SECONDS = 60.0  # for processes that were told to end


@dataclass
class Killer:
    """Kills a random worker now and then, a second one often while the first is being replaced."""

    cluster: LocalCluster
    rng: random.Random
    pause: float
    most: int
    kills: int = 0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while self.kills < self.most and not self._over.wait(self._pause()):
            self.kill()

    def _pause(self) -> float:
        return self.rng.choice((0.1, 1.0)) * self.pause * self.rng.random()

    def kill(self) -> None:
        """Kill one now."""
        if pids := worker_pids(self.cluster):
            self.kills += send(KILL, self.rng.choice(pids))

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()


def chaotic_run(
    client: Client,
    cluster: LocalCluster,
    store: ShardStore,
    name: str,
    graph: str,
    rng: random.Random,
    events: int,
    transport: str,
) -> tuple[int, int]:
    """One method on one graph, disturbed and undisturbed; return kills and faults."""
    if transport == "mixed":
        client.register_plugin(TwoMachines())
    experiment = make_experiment(store, method_class(name)(), graph, "simple" if graph == "complete" else "lazy")
    with local_engine(experiment, store) as local, tempfile.TemporaryDirectory() as folder:
        expected, state = execute(experiment, local, events), state_of(local)
        faults = DaskSettings(
            rng.choice((1, 2)),
            "tcp" if transport == "tcp" else "auto",
            attempts=100,
            silence=5.0,
            rejoin=rng.choice((0.0, 5.0)),
            start=NEVER,
        )
        with (
            DaskEngine(client, experiment, store, faults) as engine,
            Killer(cluster, rng, pause=2.0, most=rng.randint(2, 4)) as killer,
        ):
            moments = iter(
                rng.sample([True, True, False, False], 4)
            )  # two kills for certain, if the run is long enough
            watch = Watch(record=lambda _: killer.kill() if next(moments, False) else None)
            every = rng.choice((1, 3))
            found = execute(
                experiment,
                engine,
                events,
                directory=Path(folder),
                every=every,
                watch=watch,
            )
            assert_equal(found, expected)
            assert state_of(engine) == state
            assert not engine._noted  # workers share memory wherever they can
            return killer.kills, engine.faults


def leftovers() -> Counter[str]:
    """What a run could leave behind on this machine: memory with a name or without, and what this process has open.

    Other programs may use shared memory meanwhile: what one of them has open is not counted, nor are semaphores, which
    nobody has open any more when one of them was killed, and of which dtoken has none.
    """
    gc.collect()
    found, open_elsewhere = Counter[str](), set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = int(process.name) == os.getpid() or MARK.encode() in (process / "environ").read_bytes()
            for line in (process / "maps").read_text().splitlines():
                if ours:
                    found["shared memory"] += MEMORY_NAME in line
                elif "/dev/shm/" in line:
                    open_elsewhere.add(Path(line.split(maxsplit=5)[5]).name)
    names = {path.name for path in Path("/dev/shm").glob("*")} - open_elsewhere
    found.update(f"/dev/shm/{name}" for name in names if not name.startswith("sem."))
    found.update(thread.name for thread in threading.enumerate() if thread.name.startswith("dtoken"))
    listening = [each for each in psutil.Process().net_connections() if each.status == "LISTEN"]
    found.update(f"port {each.laddr.port}" for each in listening)
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one of this folder
            found[f"descriptor of {os.readlink(descriptor)}"] += 1
    return found


def assert_nothing_is_left(before: Counter[str]) -> None:
    """Compare with what there was before; threads and processes that end may need a while for it."""
    deadline = time.monotonic() + END_SECONDS
    while new := leftovers() - before:
        assert time.monotonic() < deadline, f"left behind: {dict(new)}"
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="stop after so many")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--events", type=int, default=60_000, help="of each run")
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    rng, kills, faults, runs, began = random.Random(seed), 0, 0, 0, time.monotonic()
    os.environ.update([MARK.split("=")])
    with tempfile.TemporaryDirectory() as root, quiet():
        store = make_store(Path(root))
        with local_cluster(1):
            pass  # Python keeps a pipe to the process that watches over its children
        before = leftovers()
        while kills < asked.kills:
            secure = rng.random() < 0.3
            security = {"protocol": "tls://", "security": Security.temporary()} if secure else {}
            with (
                local_cluster(asked.workers, **security) as cluster,
                Client(cluster) as client,
            ):
                name, graph = rng.choice(list(METHODS)), rng.choice(("complete", "ring"))
                if name == "tavr" and graph == "ring":
                    graph = "complete"
                transport = rng.choice(TRANSPORTS)
                killed, mended = chaotic_run(client, cluster, store, name, graph, rng, asked.events, transport)
            kills, faults, runs = kills + killed, faults + mended, runs + 1
            done = f"{name:<8} {graph:<9} {transport:<7} tls" if secure else f"{name:<8} {graph:<9} {transport:<7}    "
            print(f"{done} {killed} kills, {mended} recoveries: equal bits", flush=True)
        assert_nothing_is_left(before)
    seconds = time.monotonic() - began
    print(f"{runs} runs, {kills} kills, {faults} recoveries, {seconds:.0f} s: equal bits every time (seed {seed})")
    print("shared memory, /dev/shm, ports, threads and open files are as before")


if __name__ == "__main__":
    main()
