"""The Dask engine without faults: equal bits for every method on any number of workers, alone or beside others."""

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster, Security
from distributed.comm.addressing import get_address_host

import dtoken
from dtoken.algorithms import METHODS, method_class
from dtoken.algorithms.contract import Origin
from dtoken.algorithms.tvr import TVR
from dtoken.data.chunks import DamagedStore
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.dask import worker
from dtoken.engine.dask.driver import DaskEngine
from dtoken.engine.dask.greeting import HELLO
from dtoken.engine.dask.shared import SharedMemory
from dtoken.engine.dask.worker import Seats
from dtoken.engine.handover import Hops
from dtoken.engine.rows.memory import memory_need
from dtoken.engine.settings import DaskSettings
from dtoken.errors import InputError, RunError
from dtoken.session import engines
from dtoken.theory.local_work import Times
from tests.engine.dask.on_dask import (
    TwoMachines,
    assert_equal,
    execute,
    local_cluster,
    local_engine,
    make_experiment,
    make_store,
    state_of,
    without_wall,
)
from tests.knocking import knock
from tests.waiting import NEVER, until

PATIENT = DaskSettings(silence=NEVER)  # a machine with other work must not look like a fault
ENGINE = {"kind": "dask", "silence": NEVER}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ShardStore:
    return make_store(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1) as found:
        yield found


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as found:
        yield found


@pytest.fixture(scope="module")
def secure_cluster() -> Iterator[LocalCluster]:
    with local_cluster(1, protocol="tls://", security=Security.temporary()) as found:
        yield found


@pytest.fixture(scope="module")
def secure_client(secure_cluster: LocalCluster) -> Iterator[Client]:
    with Client(secure_cluster) as found:
        yield found


def scale(cluster: LocalCluster, client: Client, workers: int) -> None:
    def states() -> list[str]:
        return [worker["status"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]

    cluster.scale(workers)
    cluster.sync(cluster._correct_state)
    until(lambda: states() == ["running"] * workers)


def compare(
    client: Client,
    store: ShardStore,
    name: str,
    graph: str = "complete",
    kind: str = "simple",
    threads: int | None = None,
    transport: str = "auto",
    **settings: Any,
) -> DaskEngine:
    experiment = make_experiment(store, method_class(name)(**settings), graph, kind)
    with local_engine(experiment, store) as local:  # first: workers then find the kernels compiled
        expected, state = execute(experiment, local), state_of(local)
    with DaskEngine(client, experiment, store, replace(PATIENT, threads=threads, transport=transport)) as engine:
        assert_equal(execute(experiment, engine), expected)
        assert state_of(engine) == state
        assert engine.faults == 0
        return engine


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equal_bits_for_all_methods(cluster: LocalCluster, client: Client, store: ShardStore, workers: int) -> None:
    scale(cluster, client, workers)
    for name in METHODS:
        engine = compare(client, store, name)
        assert engine.workers == workers
        for tally in engine.tallies.values():
            ways = {way for way, hops in vars(tally).items() if way.startswith("hops") and hops}
            assert ways - {"hops_thread"} == ({"hops_shared"} if workers > 1 else set())
    compare(client, store, "tvr", "ring", "lazy")
    compare(client, store, "tvr", "star", "lazy", tokens=4, interactions=1.0)  # most of them are often at the centre
    compare(client, store, "tvr", "ring", "lazy", tokens=4, interactions_anywhere=0.2)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equal_bits_with_two_threads_a_worker(
    cluster: LocalCluster, client: Client, store: ShardStore, workers: int
) -> None:
    """Tokens go from thread to thread and from host to host, and some of each meet.

    With four workers and six nodes some hosts have one node, and so one thread.
    """
    scale(cluster, client, workers)
    for name in ("token", "tavr", "dvr", "extra"):
        compare(client, store, name, threads=2)
    compare(client, store, "tvr", "ring", "lazy", 2, tokens=4)
    compare(client, store, "tvr", "star", "lazy", 2, tokens=4, interactions=1.0)
    compare(client, store, "tvr", "ring", "lazy", 3, tokens=4, interactions_anywhere=0.2)
    compare(client, store, "tvr", "complete", "simple", 2, sampling="permuted", bucket_rows=4)


def hops_of(engine: DaskEngine) -> dict[str, int]:
    return {way: sum(vars(tally)[f"hops_{way}"] for tally in engine.tallies.values()) for way in Hops._fields}


@pytest.mark.parametrize(("workers", "threads"), [(2, 1), (4, 1), (3, 2), (4, 2)])
def test_equal_bits_between_two_machines(
    cluster: LocalCluster, client: Client, store: ShardStore, workers: int, threads: int
) -> None:
    """Tokens go through shared memory on each machine and over TCP between them; and all over TCP, if that is asked."""
    scale(cluster, client, workers)
    client.register_plugin(TwoMachines())
    try:
        for name in ("tvr", "extra"):
            engine = compare(client, store, name, threads=threads)
            hops = hops_of(engine)
            assert engine._sharing.transport == ("mixed" if workers > 2 else "tcp")
            assert (hops["shared"] > 0) == (workers > 2)
            assert hops["network"] > 0
            assert (hops["threads"] > 0) == (threads > 1)
        compare(client, store, "tvr", "star", "lazy", threads, tokens=4, interactions=1.0)
        with pytest.raises(InputError, match="shared is not possible: the workers are on different machines"):
            compare(client, store, "tvr", transport="shared")
    finally:
        client.unregister_worker_plugin(TwoMachines.name)
    engine = compare(client, store, "tvr", "ring", "lazy", threads, "tcp", tokens=4, interactions_anywhere=0.2)
    hops = hops_of(engine)
    assert hops["network"] > hops["shared"] == 0


def break_memory(dask_worker: Any) -> None:
    """As where a system has no memory to share."""

    def no_memory(size: int, hosts: int) -> None:
        raise OSError("there is none left")

    SharedMemory.make = no_memory  # type: ignore[method-assign, assignment]


def test_tokens_go_over_tcp_where_memory_cannot_be_shared(store: ShardStore) -> None:
    with local_cluster(2) as cluster, Client(cluster) as client:
        client.run(break_memory)
        engine = compare(client, store, "tvr")
        assert (engine._sharing.transport, engine._noted) == ("tcp", {"there is none left"})
        with pytest.raises(InputError, match="transport=shared is not possible: there is none left; use engine"):
            compare(client, store, "tvr", transport="shared")


def test_a_host_has_the_threads_that_dask_gives_its_worker(store: ShardStore) -> None:
    with (
        LocalCluster(1, threads_per_worker=3, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        experiment = make_experiment(store, method_class("tvr")())
        for asked, threads in ((None, 3), (2, 2)):
            with DaskEngine(client, experiment, store, replace(PATIENT, threads=asked)):
                (seat,) = client.run(_threads_of_hosts).values()
                assert seat == [threads]


def _threads_of_hosts(dask_worker: Any) -> list[int]:
    return [seat.host.runner.threads for seat in dask_worker.plugins[Seats.name].seats.values()]


@pytest.mark.parametrize("name", ["token", "tvr", "tavr", "dvr"])
def test_equal_bits_and_margins_from_other_starts(
    cluster: LocalCluster, client: Client, store: ShardStore, name: str
) -> None:
    """Also when the nodes of a host are placed anew: it begins at its share of what an earlier run left."""
    scale(cluster, client, 3)
    rng, K = np.random.default_rng(1), store.n if name == "dvr" else 1
    origin = Origin(
        rng.standard_normal((store.n, store.d)), rng.standard_normal((K, store.d)), rng.standard_normal(120)
    )
    local = make_experiment(store, method_class(name)(start="local"))
    warm = make_experiment(store, method_class(name)(start="warm", start_from=Path("earlier")))
    for experiment in (local, replace(warm, origin=origin)):
        with local_engine(experiment, store) as engine:
            assert experiment is local or np.array_equal(engine.margins(), origin.margins)
            expected, margins = execute(experiment, engine, 400), engine.margins()
        with DaskEngine(client, experiment, store, PATIENT) as engine:
            found = execute(experiment, engine, 400)
            assert_equal(found, expected)
            assert (found.records[0].wall > 0) == (experiment is local)
            assert np.array_equal(found.margins, margins)


def test_the_scheduler_remembers_nothing_of_hops_and_the_workers_forget_the_run(
    cluster: LocalCluster, client: Client, store: ShardStore
) -> None:
    def known(dask_scheduler: Any) -> dict[str, int]:
        collections = ("tasks", "task_groups", "task_prefixes", "transition_log", "unrunnable", "computations")
        sizes = {name: len(getattr(dask_scheduler, name)) for name in collections}
        return sizes | {"transitions": dask_scheduler.transition_counter}

    scale(cluster, client, 2)
    experiment = make_experiment(store, method_class("token")(tokens=4, compute="on_arrival"))
    with DaskEngine(client, experiment, store, PATIENT) as engine:
        before = client.run_on_scheduler(known)
        execute(experiment, engine, 5000)
        assert sum(tally.hops_shared for tally in engine.tallies.values()) > 1000
        assert client.run_on_scheduler(known) == before
    seats = client.run(lambda dask_worker: len(dask_worker.plugins[Seats.name].seats))
    assert set(seats.values()) == {0}


def test_more_workers_than_nodes(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    scale(cluster, client, 4)
    engine = compare(client, make_store(tmp_path, nodes=3), "tvr")
    assert engine.workers == 3


def test_two_runs_share_a_cluster_at_the_same_time(cluster: LocalCluster, client: Client, store: ShardStore) -> None:
    scale(cluster, client, 2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: compare(client, store, name), ["tvr", "gd", "token", "tvr"]))


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equal_bits_with_tls(
    secure_cluster: LocalCluster, secure_client: Client, store: ShardStore, workers: int
) -> None:
    scale(secure_cluster, secure_client, workers)
    for name in METHODS:
        engine = compare(secure_client, store, name, transport="tcp")
        assert engine.workers == workers
        assert all(tally.hops_network > 0 for tally in engine.tallies.values()) == (workers > 1)
    compare(secure_client, store, "tvr", "ring", "lazy", 2, "tcp", tokens=4, interactions_anywhere=0.2)
    compare(secure_client, store, "extra", threads=2, transport="tcp")


def test_without_certificate_nobody_reaches_scheduler_worker_or_tokens(
    secure_cluster: LocalCluster, secure_client: Client, store: ShardStore
) -> None:
    scale(secure_cluster, secure_client, 2)
    experiment = make_experiment(store, method_class("tvr")())
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    known = secure_cluster.security.get_connection_args("client")["ssl_context"]
    stranger = Security.temporary().get_connection_args("client")["ssl_context"]
    with DaskEngine(secure_client, experiment, store, PATIENT) as engine:
        greeting = HELLO.pack(engine._secret, engine._generation + 1, 1, bytes(32))  # all that a peer would say
        dask_doors = [secure_cluster.scheduler_address, *engine._workers.values()]
        assert all(address.startswith("tls://") for address in dask_doors)
        doors = [(get_address_host(address), int(address.rpartition(":")[2])) for address in dask_doors]
        assert [knock(door, known, greeting) for door in doors] == ["let in"] * 3
        tokens = engine._call(worker.take_seat, engine._run, engine._secret, worker.code())
        tokens = [door.address for door in tokens]
        assert [knock(door, known, greeting, 0.5) for door in tokens] == ["let in"] * 2
        doors += tokens
        assert len(set(doors)) == 5
        for context in (None, anonymous, stranger):
            assert [knock(door, context, greeting) for door in doors] == ["sent away"] * 5
        execute(experiment, engine)
        assert engine.faults == 0
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on who gives up first
        Client(secure_cluster.scheduler_address.replace("tls://", "tcp://"), timeout=1)


def test_the_api_uses_a_client_and_gives_what_the_local_engine_gives(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    scale(cluster, client, 2)
    settings = {"nodes": 4, "stop": {"passes": 4}, "data": {"kind": "synthetic", "rows": 80, "store": tmp_path}}
    local = dtoken.run(**settings, record={"events": True}, directory=tmp_path / "local")
    found = dtoken.run(**settings, engine=ENGINE, client=client, record={"events": True}, directory=tmp_path / "dask")
    assert [without_wall(record) for record in found.records] == [without_wall(record) for record in local.records]
    np.testing.assert_array_equal(found.theta, local.theta)
    logs = [pq.read_table(tmp_path / run / "events.parquet") for run in ("dask", "local")]
    assert logs[0].num_rows > 0
    assert logs[0].equals(logs[1])
    facts = found.summary["engine"]
    assert set(facts["workers"]) == {str(name) for name in cluster.workers}
    assert facts["tau_comm"] == min(facts["hop_seconds"]) > 0
    assert facts["tau_comp"] > 0
    assert facts["faults"] == 0


def test_inside_a_task_the_cluster_of_the_task_is_used(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    scale(cluster, client, 2)
    settings = {"nodes": 4, "stop": {"passes": 2}, "data": {"kind": "synthetic", "rows": 80, "store": str(tmp_path)}}

    def task() -> tuple[list[float], int]:
        result = dtoken.run(**settings, engine=ENGINE, cluster="local")
        return result.theta.tolist(), len(result.summary["engine"]["workers"])

    theta, workers = client.submit(task, pure=False).result(timeout=NEVER)
    assert workers == 2
    np.testing.assert_array_equal(theta, dtoken.run(**settings).theta)


def test_a_cluster_without_workers_is_named(store: ShardStore) -> None:
    with (
        local_cluster(0) as cluster,
        Client(cluster) as client,
        pytest.raises(RunError, match="the cluster has no workers"),
    ):
        DaskEngine(client, make_experiment(store, method_class("tvr")()), store, DaskSettings(start=0.2))


def test_a_store_that_workers_cannot_see_is_named(client: Client, store: ShardStore, tmp_path: Path) -> None:
    experiment = make_experiment(store, method_class("tvr")())
    with pytest.raises((InputError, RunError), match="elsewhere"):
        DaskEngine(client, experiment, replace(store, path=tmp_path / "elsewhere"), PATIENT)


@pytest.mark.parametrize(("name", "tokens", "events"), [("tvr", {"tokens": 2}, 20_000), ("gd", {}, 300)])
def test_workers_with_a_budget_give_the_same_bits(
    tmp_path: Path, cluster: LocalCluster, client: Client, name: str, tokens: dict[str, int], events: int
) -> None:
    """Also where a worker cannot hold one of its nodes, of all of whose rows gd makes a step."""
    scale(cluster, client, 2)
    store = ingest(Rcv1Like(rows=10_000), Partition(4), root=tmp_path)
    experiment = make_experiment(store, method_class(name)(**tokens, smoothness="factor"))
    sizes = store.node_rows, store.node_nonzeros
    jumps = len(experiment.walk.neighbours)
    budget = memory_need(experiment.method, 4, store.d, *([counts[0], counts[1]] for counts in sizes), jumps).least
    with (
        local_engine(experiment, store) as local,
        DaskEngine(client, experiment, store, replace(PATIENT, memory=budget)) as engine,
    ):
        assert engine.streams
        assert_equal(execute(experiment, local, events), execute(experiment, engine, events))
        assert state_of(local) == state_of(engine)
    with DaskEngine(client, experiment, store, replace(PATIENT, memory=budget)) as engine:
        file = store.path / "packs/0/X/data/c/0"
        content = file.read_bytes()
        file.write_bytes(bytes([content[0] ^ 1]) * len(content))
        with pytest.raises(DamagedStore, match=f"{file.relative_to(store.path)} is damaged: its checksum"):
            execute(experiment, engine, 20_000)
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"The state of \d nodes .* Use engine.memory>=\d+MB"):
        DaskEngine(client, experiment, store, replace(PATIENT, memory=budget // 2))


def test_equal_bits_with_blocks_of_rows(cluster: LocalCluster, client: Client, store: ShardStore) -> None:
    scale(cluster, client, 2)
    for smoothness in ("batch", "theory"):
        experiment = make_experiment(store, TVR(tokens=2, block_rows=7, smoothness=smoothness))
        with local_engine(experiment, store) as local, DaskEngine(client, experiment, store, PATIENT) as engine:
            assert_equal(execute(experiment, engine), execute(experiment, local))
            assert state_of(engine) == state_of(local)


def test_equal_bits_with_permuted_rows(cluster: LocalCluster, client: Client, store: ShardStore) -> None:
    """Also after the first segment: hosts know from its start how many rows each node has used."""
    scale(cluster, client, 3)
    experiment = make_experiment(store, TVR(tokens=2, sampling="permuted", bucket_rows=4))
    with local_engine(experiment, store) as local, DaskEngine(client, experiment, store, PATIENT) as engine:
        assert_equal(execute(experiment, engine, 80_000), execute(experiment, local, 80_000))
        assert state_of(engine) == state_of(local)


def test_p_comm_is_chosen_by_the_hops_of_the_cluster(
    cluster: LocalCluster, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers take over the constants of the choice; the same value gives the same bits on another engine."""
    scale(cluster, client, 2)
    monkeypatch.setattr(engines, "measure_times", lambda *_: Times(local=1e-9, visit=1e-9, hop=0.0))
    settings: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 90, "features": 6, "store": str(tmp_path / "stores")},
        "nodes": 4,
        "stop": {"passes": 10},
    }
    method = {"_target_": "tvr", "p_comm": "auto"}
    chosen = dtoken.run(algorithm=method, engine=ENGINE, client=client, **settings)
    choice, constants = chosen.summary["p_comm"], chosen.summary["constants"]
    assert choice["seconds"]["hop"] == chosen.summary["engine"]["tau_comm"]
    assert choice["workers"] == 2
    assert constants["p_comm"] == choice["value"] == constants["balanced"] / 4
    local = dtoken.run(algorithm=method | {"p_comm": choice["value"]}, **settings)
    assert local.theta.tobytes() == chosen.theta.tobytes()
    assert local.trajectory.drop(columns="wall").equals(chosen.trajectory.drop(columns="wall"))
