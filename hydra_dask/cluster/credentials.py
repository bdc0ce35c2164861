"""TLS credentials that exist as long as their cluster, in a folder that only their user can read."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dask.locks import Held, locked

if TYPE_CHECKING:
    from distributed import Security

PREFIX = "tls@"  # of a folder; the rest of its name is random


def temporary_security() -> "Security":
    """Credentials in memory."""
    from distributed import Security

    try:
        security: Security = Security.temporary()
        return security
    except ImportError:
        raise ValueError(
            "cluster.tls=true needs the package cryptography; install it, or set cluster.tls=false"
        ) from None


def file_security(folder: Path) -> "Security":
    """Credentials in the files of ``folder``, which need not exist yet."""
    from distributed import Security

    roles = {f"tls_{role}_{part}": str(folder / f"{part}.pem") for role in _ROLES for part in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=str(folder / "ca.pem"), **roles)


_ROLES = ("scheduler", "worker", "client")


@contextmanager
def shared_credentials(shared: Path) -> Iterator["Security"]:
    """Write new credentials into a folder of their own below ``shared``, and remove it at the end.

    They are locked as long as this process lives; those that nobody holds, of any machine, are removed.
    """
    made = temporary_security()
    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_leftovers(shared)
    folder = shared / f"{PREFIX}{secrets.token_hex(8)}"
    with locked(_lock(folder)):
        folder.mkdir(mode=0o700)
        try:
            texts = made.get_tls_config_for_role("worker")
            for name, key in (("ca", "ca_file"), ("cert", "cert"), ("key", "key")):
                private = os.open(folder / f"{name}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(private, "w") as file:
                    file.write(texts[key])
            yield file_security(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path) -> Path:
    """The lock of credentials, beside their folder: it is there before them."""
    return folder.with_name(f"{folder.name}.lock")


def _remove_leftovers(shared: Path) -> None:
    """Remove credentials of drivers that are dead: nobody holds their lock."""
    for folder in shared.glob(f"{PREFIX}*"):
        if folder.is_dir():
            with suppress(Held, OSError), locked(_lock(folder)):
                shutil.rmtree(folder, ignore_errors=True)
