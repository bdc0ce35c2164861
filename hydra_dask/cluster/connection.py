"""What all kinds of clusters have in common."""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

DASHBOARD = "127.0.0.1:0"  # any free port, for this machine only: the dashboard is not encrypted
LOGGERS = ("distributed", "tornado", "bokeh")


def _none() -> None:
    return None


@dataclass(frozen=True)
class Connection:
    """A client, and what to tell the user about its cluster."""

    client: "Client"
    text: str
    dashboard: str | None = None
    waits_in_queue: bool = False  # the first worker may take as long as it takes
    trouble: Callable[[], str | None] = _none  # why there will be no workers, once that is certain
    news: Callable[[], str | None] = _none  # what is new about jobs that do not start, once
    fate: Callable[[str], str | None] | None = None  # how the batch job of a worker ended; None: it lives
    demand: Callable[[int | None, Collection[str]], None] | None = None  # how many workers are needed, and who is not
    jobs: Callable[[], list[dict[str, Any]]] = list  # of a batch system, as they are


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the logs of Dask away from a terminal: dtoken itself says when a worker was lost."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except KeyboardInterrupt:
        levels = {}  # the process ends, and what is still closing has nothing to tell
        raise
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def dashboard(cluster: Any, address: str) -> str | None:
    """The link to the dashboard of a cluster, if there is one that listens at ``address``."""
    port = cluster.scheduler_info.get("services", {}).get("dashboard")
    if port is None or find_spec("bokeh") is None:
        return None
    host = address.rpartition(":")[0]
    return f"http://{host}:{port}/status" if host else str(cluster.dashboard_link)


def in_words(count: object, what: str, where: str, tls: bool) -> str:
    """A cluster in a few words."""
    plural = "es" if what.endswith("s") else "s"
    return f"{count} {what}{'' if str(count) == '1' else plural} on {where}{', TLS' if tls else ''}"


def check_positive(key: str, value: int) -> None:
    """Refuse a number that is not positive."""
    if value < 1:
        raise ValueError(f"cluster.{key}={value} must be at least 1")
