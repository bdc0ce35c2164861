"""Stores that lie elsewhere: fetched once, verified, and then like any other."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import dtoken
from dtoken.data import remote
from dtoken.data.chunks import DamagedStore
from dtoken.data.ingest import ingest
from dtoken.data.meta import CHECKSUMS, INDEX
from dtoken.data.partition import Partition
from dtoken.data.remote import open_store
from dtoken.data.store import ShardStore
from dtoken.data.synthetic import Synthetic
from dtoken.errors import InputError

SOURCE = {"kind": "synthetic", "rows": 200, "features": 12}


@pytest.fixture
def local(tmp_path: Path) -> ShardStore:
    return ingest(Synthetic(rows=200, features=12), Partition(4), root=tmp_path / "stores")


@pytest.fixture
def url(local: ShardStore) -> Iterator[str]:
    """The store, copied to fsspec's filesystem in memory."""
    filesystem = fsspec.filesystem("memory")
    upload(filesystem, local.path, "/data/tiny.zarr")
    yield "memory://data/tiny.zarr"
    filesystem.store.clear()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "pause", lambda attempt: None)


def upload(filesystem: Any, folder: Path, target: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            filesystem.pipe_file(f"{target}/{file.relative_to(folder).as_posix()}", file.read_bytes())


def assert_same(a: ShardStore, b: ShardStore) -> None:
    assert a.meta == b.meta
    for node in range(a.n):
        for x, y in zip(a.shard(node), b.shard(node), strict=True):
            assert x.tobytes() == y.tobytes()


def test_chunks_are_fetched_once(local: ShardStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url, tmp_path / "scratch")
    assert not list((tmp_path / "scratch").rglob("c/*"))  # only the root so far
    assert_same(local, store)
    asked: list[str] = []
    fetch = remote.fetch
    monkeypatch.setattr(remote, "fetch", lambda url: asked.append(url) or fetch(url))
    assert_same(local, open_store(url, tmp_path / "scratch"))
    assert asked == [f"{url}/zarr.json", *(f"{url}/{name}/c/0" for name in (CHECKSUMS, *INDEX))]


def test_another_store_in_the_same_place_is_another_store(url: str, tmp_path: Path) -> None:
    open_store(url, tmp_path / "scratch").shard(0)
    other = ingest(Synthetic(rows=200, features=12, seed=1), Partition(4), root=tmp_path / "stores")
    upload(fsspec.filesystem("memory"), other.path, "/data/tiny.zarr")
    assert_same(other, open_store(url, tmp_path / "scratch"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda fs, path: fs.rm_file(path), "memory://data/tiny.zarr/packs/0/y/c/0 is missing"),
        (lambda fs, path: fs.pipe_file(path, fs.cat_file(path)[:-1] + b"x"), "packs/0/y/c/0 is damaged: its checksum"),
        (lambda fs, path: fs.pipe_file(path, b"xy"), "packs/0/y/c/0 has 2 bytes instead of 1604; copy the store again"),
    ],
)
def test_damage_is_named_and_not_kept(
    url: str, tmp_path: Path, damage: Callable[[Any, str], None], message: str
) -> None:
    filesystem = fsspec.filesystem("memory")
    before = filesystem.cat_file("/data/tiny.zarr/packs/0/y/c/0")
    damage(filesystem, "/data/tiny.zarr/packs/0/y/c/0")
    store = open_store(url, tmp_path / "scratch")
    with pytest.raises(DamagedStore, match=message):
        store.shard(1)
    filesystem.pipe_file("/data/tiny.zarr/packs/0/y/c/0", before)
    assert store.shard(1).rows == 50


class Flaky:
    """A filesystem that fails so many times before it answers."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def cat_file(self, path: str) -> bytes:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the line is dead")
        return bytes(fsspec.filesystem("memory").cat_file(path))


def test_faults_of_the_network_are_tried_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(remote.ATTEMPTS - 1)
    monkeypatch.setattr(remote, "_filesystem", lambda protocol: flaky)
    assert open_store(url, tmp_path / "scratch").n == 4
    flaky.failures = remote.ATTEMPTS
    with pytest.raises(
        InputError, match=r"zarr.json cannot be read: the line is dead; check data.store, the network and "
    ):
        open_store(url, tmp_path / "scratch")


def test_no_store_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"memory://nothing.zarr is not a dtoken store: it has no zarr.json"):
        open_store("memory://nothing.zarr", tmp_path)
    with pytest.raises(InputError, match=r"hens:// cannot be read here: .*hens"):
        open_store("hens://nothing.zarr", tmp_path)


def test_a_run_on_a_remote_store(local: ShardStore, url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"nodes": 4, "algorithm": "tvr", "stop": {"passes": 3}}
    expected = dtoken.run(data=SOURCE | {"store": local.path.parent}, **options)
    found = dtoken.run(data=SOURCE | {"store": url, "scratch": tmp_path / "scratch"}, **options)
    np.testing.assert_array_equal(expected.nodes, found.nodes)
    np.testing.assert_array_equal(expected.tokens, found.tokens)
    with pytest.raises(InputError, match=r"nodes=5, but memory://data/tiny.zarr has 4 nodes; use nodes=4"):
        dtoken.run(data=SOURCE | {"store": url, "scratch": tmp_path / "scratch"}, **options | {"nodes": 5})


def test_a_bucket(local: ShardStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against moto's stand-in for S3, by s3fs."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        filesystem = fsspec.filesystem("s3", skip_instance_cache=True)
        filesystem.mkdir("bucket")
        upload(filesystem, local.path, "bucket/tiny.zarr")
        remote._filesystem.cache_clear()
        assert_same(local, open_store("s3://bucket/tiny.zarr", tmp_path / "scratch"))
    finally:
        remote._filesystem.cache_clear()
        server.stop()


@pytest.mark.parametrize("location", ["s3://", "s3:///", "://bucket"])
def test_a_url_of_nothing(location: str) -> None:
    with pytest.raises(InputError, match=r"data\.store=.* names no store; use for instance s3://bucket/rcv1\.zarr"):
        open_store(location)


def test_a_scratch_that_cannot_be_written_is_wrong_input(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: .*; set data\.scratch to another folder"):
        open_store(url, tmp_path / "file")


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("planted", ["link", "open", "file", "of somebody else"])
def test_a_scratch_folder_that_somebody_else_can_enter_is_refused(
    url: str, planted: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its place was asked for, as data.scratch=/scratch on a node, or is the usual one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    parent = tmp_path / ("asked" if asked else "tmp")
    place = parent if asked else None
    scratch = remote.own_folder(place)
    assert (scratch.parent, scratch.stat().st_mode & 0o777) == (parent, 0o700)
    assert remote.own_folder(place) == scratch  # as it was
    scratch.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    if planted == "link":
        scratch.symlink_to(tmp_path / "elsewhere")
    elif planted == "file":
        scratch.touch(mode=0o600)
    else:
        scratch.mkdir(mode=0o700)
        scratch.chmod(0o777 if planted == "open" else 0o700)
    if planted == "of somebody else":
        user = os.getuid()
        scratch = scratch.rename(scratch.with_name(f"dtoken-{user + 1}"))
        monkeypatch.setattr("os.getuid", lambda: user + 1)
    with pytest.raises(InputError, match=r"is not a folder that only you can enter; set data\.scratch"):
        open_store(url, place)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not scratch.is_dir() or not list(scratch.iterdir())
