"""A stranger at the doors of a cluster."""

import socket
import ssl

from tests.waiting import NEVER

TLS_ALERT = b"\x15"  # how a TLS server tells somebody off who does not speak it


def knock(door: tuple[str, int], context: ssl.SSLContext | None, greeting: bytes, seconds: float = NEVER) -> str:
    """What a stranger meets who connects, with TLS or without, and says something."""
    visitor = socket.create_connection(door, seconds)
    try:
        if context is not None:
            visitor = context.wrap_socket(visitor)
        visitor.sendall(greeting)
        answer = visitor.recv(1)
    except TimeoutError:
        return "let in"  # somebody waits for more
    except OSError:  # an alert of TLS, or the connection is simply gone
        return "sent away"
    finally:
        visitor.close()
    return "sent away" if answer in (b"", TLS_ALERT) else "let in"
