"""The address by which this machine is reached; Dask's own way warns on every machine without a default route."""

import socket
from contextlib import suppress

import psutil

ELSEWHERE = "192.0.2.1"  # of no machine: it is never sent anything, only the way to it is looked up


def own_address(peer: str = ELSEWHERE) -> str:
    """The address of the interface on the way to ``peer``; without a way, of the first interface that is up.

    Examples
    --------
    >>> own_address("127.0.0.1")
    '127.0.0.1'
    """
    with suppress(OSError):
        family, kind, _, _, target = socket.getaddrinfo(peer, 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(target)  # of a datagram socket: nothing is sent
            return str(way.getsockname()[0])
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = [
        each.address
        for name, addresses in psutil.net_if_addrs().items()
        if name in up
        for each in addresses
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]
    return found[0] if found else "127.0.0.1"


def check_interface(name: str) -> None:
    """Refuse a network interface that this machine does not have, or that has no address."""
    found = [
        key for key, all_of in psutil.net_if_addrs().items() if any(each.family == socket.AF_INET for each in all_of)
    ]
    if name not in found:
        raise ValueError(f"cluster.interface={name} is no interface of this machine; use one of {', '.join(found)}")
