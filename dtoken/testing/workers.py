"""Two processes beside this one, which remember nothing of it."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from dtoken.engine.dask.connect import connect
from hydra_dask.cluster import LocalWorkers

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")


class Workers:
    """The workers of a client, or of a cluster that is started when it is first needed and ends with ``stack``."""

    def __init__(self, client: "Client | None", stack: ExitStack) -> None:
        self._client, self._stack = client, stack

    @property
    def client(self) -> "Client":
        """The client of the workers."""
        if self._client is None:
            self._client = self._stack.enter_context(connect(LocalWorkers(2))).client
        return self._client

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function returns in one of them."""
        found: T = self.client.submit(function, *arguments, pure=False).result()
        return found
