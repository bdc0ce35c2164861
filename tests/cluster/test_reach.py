"""Which workers cannot be reached: those behind a firewall, and not those that are slow."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from hydra_dask.cluster import reach
from hydra_dask.cluster.reach import Reach


@pytest.mark.parametrize("listens", [True, False])
def test_who_accepts_a_connection_and_says_nothing_is_only_slow(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts for it
        address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
        if not listens:
            silent.close()

        async def missed() -> tuple[list[str], bool]:
            from distributed import Security

            found = Reach(SimpleNamespace(connection_args=Security.temporary().get_connection_args("scheduler")))
            found.missed([address])
            await asyncio.gather(*found._probes.values())
            return found.missed([address]), found.any

        assert asyncio.run(missed()) == ([] if listens else [address], listens)
