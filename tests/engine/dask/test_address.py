"""``cluster=address``: a scheduler and workers that somebody else started, with TLS files and without TLS."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Security

import dtoken
from dtoken.errors import InputError
from hydra_dask.cluster import Scheduler
from tests.waiting import NEVER, until

FILES = {"ca": "tls_ca_file", "certificate": "tls_client_cert", "key": "tls_client_key"}


def settings(folder: Path) -> dict[str, Any]:
    data = {"kind": "synthetic", "rows": 80, "store": str(folder / "stores")}
    return {"nodes": 4, "stop": {"passes": 4}, "data": data}


def credentials(folder: Path) -> dict[str, str]:
    """Files as an administrator hands them out: the same for scheduler, workers and client."""
    security: Any = Security.temporary()
    folder.mkdir(mode=0o700)
    for name, attribute in FILES.items():
        (folder / f"{name}.pem").write_text(getattr(security, attribute))
    return {name: str(folder / f"{name}.pem") for name in FILES}


@contextmanager
def process(*words: str) -> Iterator[None]:
    started = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        started.terminate()
        started.wait(NEVER)


@contextmanager
def running(folder: Path, files: dict[str, str] | None) -> Iterator[Path]:
    """A scheduler and two workers, as started by hand; gives the scheduler's file."""
    place = folder / "scheduler.json"
    common = ["--scheduler-file", str(place), "--host", "127.0.0.1", "--no-dashboard"]
    if files:
        common += ["--tls-ca-file", files["ca"], "--tls-cert", files["certificate"], "--tls-key", files["key"]]
    protocol = ["--protocol", "tls" if files else "tcp"]
    with ExitStack() as stack:
        stack.enter_context(process("distributed.cli.dask_scheduler", *common, *protocol, "--port", "0"))
        until(place.exists)
        for _ in range(2):
            stack.enter_context(process("distributed.cli.dask_worker", *common, *protocol, "--nthreads", "1"))
        yield place


def wait_for_workers(cluster: dict[str, Any]) -> None:
    paths = {name: Path(cluster[name]) for name in FILES if name in cluster}
    with Scheduler(cluster["address"], cluster["tls"], **paths).open() as connection:
        connection.client.wait_for_workers(2, timeout=NEVER)


def test_with_tls_files_from_the_command_line(tmp_path: Path) -> None:
    expected = dtoken.run(**settings(tmp_path))
    files = credentials(tmp_path / "tls")
    with running(tmp_path, files) as place:
        address = json.loads(place.read_text())["address"]
        assert address.startswith("tls://")
        wait_for_workers({"address": address, "tls": True, **files})
        words = [f"cluster.{name}={path}" for name, path in files.items()]
        words += ["nodes=4", "stop.passes=4", "data.rows=80", f"data.store={tmp_path}/stores"]
        command = [sys.executable, "-m", "dtoken.cli.run", "engine=dask", "cluster=address", *words]
        command += [f"cluster.address={address}", f"hydra.run.dir={tmp_path}/run", f"engine.silence={NEVER}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER, check=False)
        assert done.returncode == 0, done.stderr
        assert f"cluster    {address}, TLS" in done.stdout
        plain = {"kind": "address", "address": address, "tls": False}
        with pytest.raises(InputError, match=r"uses TLS; give cluster\.ca"):
            dtoken.run(**settings(tmp_path), engine="dask", cluster=plain)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert len(summary["engine"]["workers"]) == 2
    assert summary["engine"]["faults"] == 0
    theta = zarr.open_array(tmp_path / "run/result.zarr/theta", mode="r")[...]
    np.testing.assert_array_equal(theta, expected.theta)


def test_without_tls_from_a_scheduler_file(tmp_path: Path) -> None:
    expected = dtoken.run(**settings(tmp_path))
    with running(tmp_path, None) as place:
        cluster = {"kind": "address", "address": str(place), "tls": False}
        wait_for_workers(cluster)
        engine = {"kind": "dask", "silence": NEVER}
        found = dtoken.run(**settings(tmp_path), engine=engine, cluster=cluster)
        files = credentials(tmp_path / "tls")
        with pytest.raises(InputError, match=r"uses no TLS; start it with TLS, or set cluster\.tls=false"):
            dtoken.run(**settings(tmp_path), engine="dask", cluster={**cluster, "tls": True, **files})
    assert len(found.summary["engine"]["workers"]) == 2
    np.testing.assert_array_equal(found.theta, expected.theta)
