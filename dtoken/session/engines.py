"""Opening the engine that the settings ask for. What is different about engines before a run begins is here."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.engine import Engine
from dtoken.engine.rows.memory import LIMIT_SHARE
from dtoken.engine.settings import DaskSettings, LocalSettings
from dtoken.engine.timing import ENTRIES, choose, link_seconds, measure_times
from dtoken.session.memory_estimate import check_memory, memory_budget, memory_line, store_need
from dtoken.session.prepare import Prepared, chosen, wants_choice
from dtoken.session.viewer import Viewer
from hydra_dask.allocator import give_back
from hydra_dask.cluster import Cluster, Connection

if TYPE_CHECKING:
    from distributed import Client

Opened = tuple[Prepared, Engine]


def open_engine(prepared: Prepared, viewer: Viewer, client: "Client | None") -> AbstractContextManager[Opened]:
    """The engine of a run, ready for its first event, and the run: ``p_comm=auto`` has been chosen there.

    All is compiled, so that times do not contain it. A ``client`` is used in place of the cluster of the settings.
    """
    match prepared.settings.engine:
        case LocalSettings():
            return _open_local(prepared)
        case DaskSettings() as settings:
            return _open_dask(prepared, settings, viewer, client)


@contextmanager
def _open_local(prepared: Prepared) -> Iterator[Opened]:
    settings = prepared.settings
    room = check_memory(settings, store_need(settings, prepared.store, prepared.experiment.walk))
    if wants_choice(prepared):  # before the engine takes the memory
        reads = room is not None
        times = measure_times(prepared.experiment, prepared.threads, reads, ENTRIES if reads else None)
        prepared = chosen(prepared, choose(prepared.experiment, times, prepared.threads))
    if settings.engine.memory is not None:
        give_back()  # what preparing the run took
    experiment = prepared.experiment
    with LocalEngine(
        experiment.hosted,
        experiment.constants,
        prepared.store,
        experiment.problem.loss,
        prepared.threads,
        room,
        experiment.origin,
    ) as engine:
        engine.compile()
        if settings.engine.memory is not None:
            give_back()  # what the first pass over all rows took
        yield prepared, engine


@contextmanager
def _open_dask(prepared: Prepared, settings: DaskSettings, viewer: Viewer, client: "Client | None") -> Iterator[Opened]:
    from dtoken.engine.dask.connect import connect
    from dtoken.engine.dask.driver import DaskEngine

    with connect(prepared.settings.cluster, client) as connection:
        link = f"   dashboard {connection.dashboard}" if connection.dashboard else ""
        viewer.show("cluster", connection.text + link)
        _show_worker_memory(prepared, connection.client, viewer)
        _note_threads(settings, prepared.settings.cluster, viewer)
        if settings.start is None and connection.waits_in_queue:
            settings = replace(settings, start=math.inf)
        told = (viewer.note, partial(_look_at_jobs, connection, viewer))
        with DaskEngine(connection.client, prepared.experiment, prepared.store, settings, *told) as engine:
            if wants_choice(prepared):
                times = measure_times(prepared.experiment, 1, engine.streams, ENTRIES)
                sending = link_seconds(prepared.experiment, engine.hosts, engine.sending_seconds)
                times = times._replace(hop=min(engine.hop_seconds, default=0.0), link=sending)
                prepared = chosen(prepared, choose(prepared.experiment, times, engine.workers))
                engine.adopt(prepared.experiment)
            yield prepared, engine


def _look_at_jobs(connection: Connection, viewer: Viewer) -> str | None:
    """Tell what is new about jobs that do not start; return why there will be no workers, once that is certain."""
    if (news := connection.news()) is not None:
        viewer.note(news)
    return connection.trouble()


def _note_threads(settings: DaskSettings, cluster: Cluster, viewer: Viewer) -> None:
    """Warn of threads that will share processors."""
    cores = getattr(cluster, "cores", None)
    if settings.threads is not None and cores is not None and settings.threads > cores:
        viewer.note(
            f"engine.threads={settings.threads}, but a worker has cluster.cores={cores}; threads that share a "
            "processor wait for each other, so ask for as many cores"
        )


def _show_worker_memory(prepared: Prepared, client: "Client", viewer: Viewer) -> None:
    """Where the settings do not say what a worker may use, show what its own limit leaves for the run."""
    settings = prepared.settings
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    limit = min((int(limit) for limit in limits if limit), default=0)
    if limit and memory_budget(settings) is None:
        need = store_need(settings, prepared.store, prepared.experiment.walk)
        viewer.show("memory", memory_line(settings, need, int(LIMIT_SHARE * limit)) or "")
