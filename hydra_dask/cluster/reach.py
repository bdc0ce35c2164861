"""Whether workers that have reported can be reached from here: what they hold is fetched by connections to them.

A worker reports by a connection of its own, so behind a firewall that lets it through it seems to be there, and
whoever waits for its results waits for ever.
"""

import asyncio
from collections.abc import Collection
from typing import Any

SECONDS = 20.0  # in which that must be possible


class Reach:
    """Tries every worker once."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._probes: dict[str, asyncio.Task[bool]] = {}  # by address
        self.any = False  # has been reached

    def missed(self, addresses: Collection[str]) -> list[str]:
        """Which of the workers that are there cannot be reached, as far as that is known by now."""
        for address in addresses:
            if address not in self._probes:
                self._probes[address] = asyncio.ensure_future(self._answers(address))
        self._probes = {address: probe for address, probe in self._probes.items() if address in addresses}
        return [address for address, probe in self._probes.items() if probe.done() and not probe.result()]

    async def _answers(self, address: str) -> bool:
        from distributed.comm.core import connect

        try:
            comm = await connect(address, timeout=SECONDS, **self._scheduler.connection_args)
        except OSError:
            if not await _opens(address):
                return False
        else:
            await comm.close()
        self.any = True
        return True


async def _opens(address: str) -> bool:
    """Whether a connection comes about at all: the machine of a worker that is only slow to speak accepts it."""
    from distributed.comm.addressing import get_address_host_port

    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(*get_address_host_port(address))
    except OSError:
        return False
    writer.close()
    return True


def in_words(address: str) -> str:
    """What is wrong, and what to do about it."""
    return (
        f"has a worker that cannot be reached at {address} from here within {SECONDS:g} seconds; a firewall must let "
        "this machine and the nodes connect to each other, at least to the ports of cluster.ports=FIRST-LAST"
    )
