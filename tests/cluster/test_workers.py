"""Clusters on this machine."""

from urllib.request import urlopen

from hydra_dask.cluster import LocalWorkers


def test_the_dashboard_is_made_when_it_is_opened() -> None:
    with LocalWorkers(workers=1).open() as connection:
        assert connection.dashboard is not None
        pages = connection.client.cluster.scheduler.http_application
        before = list(pages.applications)
        with urlopen(connection.dashboard.replace("/status", "/health")) as answer:  # not a page of the dashboard
            assert answer.read() == b"ok"
        assert pages.applications == before
        with urlopen(connection.dashboard) as answer:
            assert b"bokeh" in answer.read()
        with urlopen(connection.dashboard.replace("/status", "/individual-task-stream")) as answer:
            assert b"bokeh" in answer.read()
        assert len(pages.applications) == 1
        assert pages.applications != before


def test_workers_serve_no_pages() -> None:
    """Those of Dask are not encrypted."""
    with LocalWorkers(workers=1).open() as connection:
        (listening,) = connection.client.run(_listening).values()
        (address,) = connection.client.nthreads()
    assert listening == [int(address.rpartition(":")[2])]


def _listening() -> list[int]:
    import psutil

    found = psutil.Process().net_connections("tcp")
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]
