"""Other users of the machine: they reach no door of a cluster, enter none of its folders, and lend it no modules."""

import os
import ssl
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from distributed import Security

from hydra_dask.cluster import LocalWorkers
from hydra_dask.cluster._batch_worker import run
from tests.knocking import knock

PLANT = "import pathlib, os; pathlib.Path(os.environ['PLANTED']).touch(); raise SystemExit('planted')\n"


def contexts(security: Security) -> tuple[ssl.SSLContext, list[ssl.SSLContext | None]]:
    """The one that is let in, and those of strangers: no TLS, no certificate, a certificate of their own."""
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    other = Security.temporary().get_connection_args("client")["ssl_context"]
    return security.get_connection_args("client")["ssl_context"], [None, anonymous, other]


def test_no_door_of_a_local_cluster_opens_to_a_stranger_and_no_folder_is_open() -> None:
    before = _listening()
    with LocalWorkers(workers=2).open() as connection:
        client = connection.client
        found = client.scheduler_info()
        workers, nannies = list(found["workers"]), [each["nanny"] for each in found["workers"].values()]
        addresses = [found["address"], *workers, *nannies]
        assert all(address.startswith("tls://") for address in addresses)
        doors = [(address.split("//")[1].split(":")[0], int(address.rpartition(":")[2])) for address in addresses]
        known, strangers = contexts(client.security)
        assert [knock(door, known, b"\0" * 8, 2.0) for door in doors] == ["let in"] * 5
        for context in strangers:
            assert [knock(door, context, b"\0" * 8) for door in doors] == ["sent away"] * 5
        others = _listening() - before - {port for _, port in doors}
        assert len(others) <= 3  # pages to look at: the dashboard, and the health of each worker
        folders = [Path(each["local_directory"]) for each in found["workers"].values()]
        top = {Path(tempfile.gettempdir(), folder.relative_to(tempfile.gettempdir()).parts[0]) for folder in folders}
        (private,) = top
        assert private.name != "dask-scratch-space"
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert private.stat().st_uid == os.getuid()
    assert not private.exists()


def _listening() -> set[int]:
    """The ports at which this process and its children listen."""
    me = psutil.Process()
    connections = [each for process in (me, *me.children(recursive=True)) for each in process.net_connections("tcp")]
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def test_tls_can_be_switched_off() -> None:
    with LocalWorkers(workers=1, tls=False).open() as connection:
        assert connection.client.scheduler_info()["address"].startswith("tcp://")


def test_a_worker_of_a_batch_job_has_a_private_folder_that_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def dask_worker(words: list[str], standalone_mode: bool) -> None:
        seen.append(words)
        folder = Path(words[-1])
        assert (folder.parent, stat.S_IMODE(folder.stat().st_mode)) == (tmp_path, 0o700)
        (folder / "spilled").touch()

    monkeypatch.setattr("hydra_dask.cluster._batch_worker.main", dask_worker)
    run(["tls://127.0.0.1:1", "--local-directory", str(tmp_path), "--nanny"])
    (words,) = seen
    assert words[:-1] == ["tls://127.0.0.1:1", "--nanny", "--host", "127.0.0.1", "--local-directory"]
    assert not list(tmp_path.iterdir())


def test_what_lies_in_the_current_directory_is_no_program(tmp_path: Path) -> None:
    for name in ("pyarrow.py", "token.py", "hydra_dask.py", "sitecustomize.py", "distributed.py"):
        (tmp_path / name).write_text(PLANT)
    command = Path(sys.executable).with_name("dtoken")
    words = ["-m", "data.rows=60", "data.features=4", "nodes=4", "stop.passes=2", "cluster.workers=1", "seed=0"]
    environment = os.environ | {"PLANTED": str(tmp_path / "planted"), "DTOKEN_STORE": str(tmp_path / "stores")}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "planted").exists()
