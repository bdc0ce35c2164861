"""Credentials that lie where others can see their folder: who removes them, and who does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hydra_dask.cluster.credentials import shared_credentials
from tests.waiting import until

HOLDER = """
import os, sys, time
from pathlib import Path
from hydra_dask.cluster.credentials import shared_credentials
with shared_credentials(Path(sys.argv[1])):
    Path(sys.argv[2]).touch()
    time.sleep(600)
"""


def test_credentials_of_a_living_driver_stay_and_those_of_a_dead_one_are_removed(tmp_path: Path) -> None:
    """Whatever its number means here: it may be the number of nobody, as that of a process in another container."""
    shared, ready = tmp_path / "shared", tmp_path / "ready"
    driver = subprocess.Popen([sys.executable, "-c", HOLDER, str(shared), str(ready)])
    try:
        until(ready.exists)
        (theirs,) = (path for path in shared.glob("tls@*") if path.is_dir())
        assert str(driver.pid) not in theirs.name
        with shared_credentials(shared):
            assert len([path for path in shared.glob("tls@*") if path.is_dir()]) == 2
        assert (theirs / "key.pem").exists()
    finally:
        driver.kill()
        driver.wait()
    assert theirs.exists()
    with shared_credentials(shared):
        assert not theirs.exists()
    assert not list(shared.glob("tls@*"))


def test_only_their_user_can_read_credentials(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with shared_credentials(tmp_path / "shared"):
            (folder,) = (path for path in (tmp_path / "shared").glob("tls@*") if path.is_dir())
            assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    finally:
        os.umask(before)


def test_what_was_left_by_earlier_versions_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tls@login1@17@abc").mkdir()
    with shared_credentials(tmp_path):
        assert not (tmp_path / "tls@login1@17@abc").exists()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no"), shared_credentials(tmp_path):
        raise RuntimeError("no")
    assert not list(tmp_path.iterdir())
