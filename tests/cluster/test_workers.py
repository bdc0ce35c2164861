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
