"""The cluster of ``engine=dask``: the one that is there already, or the one that the configuration describes."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dtoken.errors import InputError, RunError
from hydra_dask.cluster import Cluster, Connection

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def connect(cluster: Cluster, client: "Client | None" = None) -> Iterator[Connection]:
    """Use ``client``, or inside a task the cluster that runs it, or what ``cluster`` describes."""
    client = client or _client_of_task()
    if client is not None:
        yield Connection(client, "the client that was there", client.dashboard_link or None)
        return
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(cluster.open())
        except ValueError as error:
            raise InputError(str(error)) from error
        except RuntimeError as error:
            raise RunError(str(error)) from error
        yield connection


def _client_of_task() -> "Client | None":
    from distributed import get_client, get_worker

    try:
        get_worker()
    except ValueError:
        return None
    return get_client()


def present_client() -> "Client | None":
    """The client that this process works with already, as in a notebook."""
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None
