"""The dashboard of a cluster on this machine, loaded when somebody opens it: that takes longer than to start one."""

from typing import Any

from tornado.web import Application


def when_opened(scheduler: Any) -> None:
    """Let a scheduler without a dashboard have one from the first request on."""
    scheduler.http_application.add_application(_NotYet(scheduler))


class _NotYet(Application):
    """Stands for the dashboard until a page is asked for that the scheduler does not have."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self._scheduler = scheduler

    def find_handler(self, request: Any, **options: Any) -> Any:
        """Load the dashboard, and let it find the page."""
        from distributed.dashboard.scheduler import connect

        pages = self._scheduler.http_application
        pages.applications.remove(self)
        connect(pages, self._scheduler.http_server, self._scheduler)
        return pages.find_handler(request, **options)
