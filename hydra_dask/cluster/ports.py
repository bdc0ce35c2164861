"""The ports that a firewall leaves open."""

import re
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

LEAST = 3  # on the machine of a worker: for itself, for its nanny, and for the tokens of a run


class Ports(NamedTuple):
    """From the first to the last one, both included."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> "Ports":
        """What ``cluster.ports`` says.

        Examples
        --------
        >>> Ports.of("40000-40100")
        Ports(first=40000, last=40100)
        """
        found = re.fullmatch(r"(\d+)-(\d+)", str(text))
        if found is None or not 1 <= int(found[1]) <= int(found[2]) <= 65535:
            raise ValueError(f"cluster.ports={text} must be the first and the last port, as 40000-40100")
        ports = cls(int(found[1]), int(found[2]))
        if len(ports.numbers) < LEAST:
            raise ValueError(
                f"cluster.ports={text} are too few: a worker needs {LEAST}, for itself, its nanny and tokens"
            )
        return ports

    @property
    def numbers(self) -> range:
        """All of them."""
        return range(self.first, self.last + 1)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def free(self, host: str, but: Collection[int] = ()) -> int:
        """The first one at which nobody listens at ``host`` (empty: at any address of this machine).

        Raises
        ------
        ValueError
            If there is none.
        """
        for port in self.numbers:
            with suppress(OSError), socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
                if port not in but:
                    return port
        raise ValueError(f"cluster.ports={self}: all are in use on this machine; give others, or more")
