"""Workers that serve no pages: those of Dask are not encrypted, and every machine of the network could read them.

Hydra, when it looks for plugins, imports all modules whose names do not begin with an underscore, and this one needs
``distributed``.
"""

from typing import Any

from distributed import Nanny, Worker


class SilentWorker(Worker):
    """A worker without an HTTP server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


class SilentNanny(Nanny):
    """The nanny of such a worker."""

    def __init__(self, scheduler: str, **keywords: Any) -> None:
        super().__init__(scheduler, worker_class=SilentWorker, **keywords)
