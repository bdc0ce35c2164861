"""Two workers on two hosts with a network between them, against what computing, link and schedule allow.

    python benchmarks/network.py [--size small|full] [--json FILE]

The hosts are network namespaces of this machine, joined by a pair of virtual interfaces that are shaped to a rate (tbf)
and, where the kernel has netem, delayed by 50 us. That needs root; without it the benchmark is skipped, and says so.
Nothing leaves the machine. Bounds are those of `dtoken.engine.bounds`: the work of the busier worker, the bytes that
the busier one has to send divided by the rate, and the longest chain of events that depend on each other.
"""

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Figures, arguments, skip
from distributed import Client, LocalCluster
from scaling import NODES, Stretch, local_engine, make_experiment, step_and_visit, turns

from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.bounds import Bounds, Costs, bounds
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.loop.experiment import Experiment, with_p_comm
from dtoken.engine.settings import DaskSettings
from dtoken.engine.timing import choose, link_seconds
from dtoken.schedule.events import Events
from dtoken.theory.local_work import Times, rate_share
from hydra_dask.cluster.connection import quiet
from hydra_dask.cluster.credentials import shared_credentials

INSIDE = "DTOKEN_NETWORK"  # names of the two namespaces, where this process is in the first one
NEAR, FAR = "10.213.47.1", "10.213.47.2"
DELAY = 50e-6
RATES = (1, 10, 25)  # Gbit/s
HEADER = 16  # bytes of a message beside its token
TURNS = 2  # of each case and rate; the best counts
CASES = [("tvr", k, graph) for k in (4, 20) for graph in ("complete", "ring")]
CASES += [("token", 20, graph) for graph in ("complete", "ring")]
AUTO = ("tvr", 20, "complete")  # the case that is run with p_comm=auto, and with encryption, too
TCP = DaskSettings(transport="tcp")  # both hosts are this machine, and would share memory


def missing() -> str | None:
    """Why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in ("ip", "tc") if not shutil.which(name)]
    return f"needs the command {lacking[0]} (iproute2)" if lacking else None


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them."""
    names = tuple(f"dtoken{os.getpid()}{end}" for end in "ab")
    try:
        for name in names:
            command("ip", "netns", "add", name)
        ends = [word for name in names for word in ("name", "cable", "netns", name)]
        command("ip", "link", "add", *ends[:4], "type", "veth", "peer", *ends[4:])
        for name, address in zip(names, (NEAR, FAR), strict=True):
            command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            command("ip", "-n", name, "link", "set", "cable", "up")
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def shape(names: Sequence[str], gigabits: float) -> bool:
    """Limit the rate in both directions; whether the delay could be had, too."""
    delayed = True
    for name in names:
        burst = max(131_072, int(gigabits * 1e9 / 8 * 100e-6))
        shaped = ("rate", f"{gigabits}gbit", "burst", f"{burst}b", "limit", "16mb")
        command("tc", "-n", name, "qdisc", "replace", "dev", "cable", "root", "handle", "1:", "tbf", *shaped)
        late = ("netem", "delay", f"{1e6 * DELAY:.0f}us", "limit", "100000")
        words = ["tc", "-n", name, "qdisc", "replace", "dev", "cable", "parent", "1:", *late]
        delayed &= subprocess.run(words, check=False, capture_output=True).returncode == 0
    return delayed


def round_trip(client: Client) -> float:
    """Seconds of a packet to the other host and back, in the middle: until a connection there is open."""
    door = next(address for address in client.scheduler_info(n_workers=-1)["workers"] if FAR in address)
    taken = []
    for _ in range(50):
        began = time.perf_counter()
        socket.create_connection((FAR, int(door.rpartition(":")[2]))).close()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


@contextmanager
def cluster(stack: ExitStack, far: str, folder: Path, tls: bool) -> Iterator[Client]:
    """A scheduler here, a worker with one thread here, and one on the other host."""
    security: dict[str, Any] = {}
    files: list[str] = []
    if tls:
        security = {"security": stack.enter_context(shared_credentials(folder)), "protocol": "tls://"}
        found = security["security"].get_tls_config_for_role("worker")
        files = ["--tls-ca-file", found["ca_file"], "--tls-cert", found["cert"], "--tls-key", found["key"]]
    with (
        LocalCluster(n_workers=0, host=NEAR, dashboard_address=f"{NEAR}:0", **security) as scheduler,
        Client(scheduler) as client,
    ):
        start = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler.scheduler_address, *files]
        start += ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(folder)]
        hosts = [([], NEAR), (["ip", "netns", "exec", far], FAR)]
        workers = [
            subprocess.Popen([*prefix, *start, "--host", address, "--name", address], stderr=subprocess.DEVNULL)
            for prefix, address in hosts
        ]
        try:
            client.wait_for_workers(2, timeout=60)
            yield client
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()


def all_events(turn: Sequence[Stretch]) -> Events:
    return Events(*(np.concatenate(columns) for columns in zip(*(stretch.events for stretch in turn), strict=True)))


class Case:
    """A method on two hosts, and what its parts take on one."""

    def __init__(self, experiment: Experiment, store: ShardStore, engine: DaskEngine, count: int) -> None:
        self.experiment, self._store, self.engine, self._count = experiment, store, engine, count
        self._pieces = turns(experiment, count)
        with local_engine(experiment, store) as local:
            local.compile()  # before the steps are timed
            self.bytes = HEADER + sum(array[:1].nbytes for array in local.tokens)
        self.step, self.visit = step_and_visit(experiment, store, next(turns(experiment, count)))

    def adopt(self, experiment: Experiment) -> None:
        """Go on with other constants."""
        self.experiment, self._pieces = experiment, turns(experiment, self._count)
        self.engine.adopt(experiment)

    def measure(self, gigabits: float) -> "Measured":
        """The best of some turns."""
        sending = 8 * self.bytes / (gigabits * 1e9)
        costs = Costs(self.step, self.visit, sending + DELAY, sending)
        found = []
        for _, turn in zip(range(TURNS), self._pieces, strict=False):
            waited, began = self._waited(), time.perf_counter()
            for stretch in turn:
                self.engine.run(*stretch)
            self.engine.settle()
            seconds, events = time.perf_counter() - began, all_events(turn)
            least = bounds(events, self.engine.hosts, self.experiment.start.positions, costs)
            allowed = Bounds(*(events.size / bound if bound else np.inf for bound in least))
            found.append(Measured(events.size / seconds, (self._waited() - waited) / 2 / seconds, allowed))
        return max(found)

    def _waited(self) -> float:
        return sum(tally.waiting for tally in self.engine.tallies.values())


class Measured(NamedTuple):
    """How a turn went."""

    speed: float  # events per second
    waiting: float  # of the time
    allowed: Bounds  # events per second


def report(figures: Figures, title: str, found: Measured, wanted: float | None) -> None:
    figures.add(f"{title}: events", found.speed / 1e6, "million/s")
    figures.add(f"{title}: workers wait", found.waiting, "of the time")
    allowed = found.allowed._asdict()
    chain = allowed.pop("schedule")
    name, least = min(allowed.items(), key=lambda bound: bound[1])
    figures.add(f"{title}: of what {name} allows", found.speed / least, "ratio", at_least=wanted)
    if chain < least:
        figures.add(f"{title}: of what the schedule allows", found.speed / chain, "ratio")


def compare(figures: Figures, names: Sequence[str], store: ShardStore, clients: Sequence[Client], case: Any) -> None:
    """One method at all rates."""
    name, tokens, graph = case
    plain, secure = clients
    balanced = make_experiment(store, name, tokens, graph)
    count = 8_000_000 // max(store.node_rows) if name == "token" else 200_000
    title = f"{name}, K = {tokens}, {graph}"
    with DaskEngine(plain, balanced, store, TCP) as engine:
        run = Case(balanced, store, engine, count)
        for gigabits in RATES:
            shape(names, gigabits)
            found = run.measure(gigabits)
            report(figures, f"{title}, {gigabits} Gbit/s", found, 0.8)
            if case == AUTO:
                link = link_seconds(balanced, engine.hosts, engine.sending(8))
                times = Times(run.step, run.visit, min(engine.probe(8)), link=link)
                chosen = choose(balanced, times, 2).value
                run.adopt(with_p_comm(balanced, chosen))
                auto = run.measure(gigabits)
                run.adopt(balanced)
                figures.add(
                    f"{title}, {gigabits} Gbit/s: p_comm=auto", chosen / balanced.constants.balanced, "of balanced"
                )
                report(figures, f"{title}, {gigabits} Gbit/s, auto", auto, 0.8)
                gain = auto.speed * rate_share(chosen, balanced.constants.balanced) / found.speed
                figures.add(f"{title}, {gigabits} Gbit/s: progress with auto / balanced", gain, "ratio")
    if case == AUTO:
        with DaskEngine(secure, balanced, store, TCP) as engine:
            run = Case(balanced, store, engine, count)
            for gigabits in RATES:
                shape(names, gigabits)
                report(figures, f"{title}, {gigabits} Gbit/s, TLS", run.measure(gigabits), None)


def end_properly() -> None:
    """Leave neither namespaces nor workers behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def inside(names: Sequence[str]) -> None:
    """The benchmark, in the first namespace."""
    end_properly()
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as root, quiet(), ExitStack() as stack:
        rows = 196_820 if options.size == "full" else 20_000
        store = ingest(Rcv1Like(rows=rows), Partition(NODES), root=Path(root) / "store")
        delayed = shape(names, RATES[-1])
        what = "with netem" if delayed else "no netem in this kernel: that of the interfaces alone"
        clients = [stack.enter_context(cluster(stack, names[1], Path(root), tls)) for tls in (False, True)]
        figures.add(f"round trip of a packet ({what})", 1e6 * round_trip(clients[0]), "us")
        for case in CASES:
            compare(figures, names, store, clients, case)
    figures.show()


def main() -> None:
    if INSIDE in os.environ:
        inside(os.environ[INSIDE].split())
        return
    if reason := missing():
        skip(arguments(__doc__), reason)
        return
    end_properly()
    with two_hosts() as names:
        words = ["ip", "netns", "exec", names[0], sys.executable, *sys.argv]
        with subprocess.Popen(words, env=os.environ | {INSIDE: " ".join(names)}) as benchmark:
            try:
                status = benchmark.wait()
            finally:
                benchmark.terminate()
    sys.exit(status)


if __name__ == "__main__":
    main()
