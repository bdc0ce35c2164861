"""Once per source and settings, whatever happens on the way."""

import bz2
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtoken.data.build import Watcher
from dtoken.data.ingest import default_store_root, ingest, store_key
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.svmlight import Svmlight
from dtoken.data.synthetic import Synthetic
from dtoken.data.verify import verify
from hydra_dask.locks import locked
from tests.waiting import NEVER, until


def visible(root: Path) -> list[str]:
    """What is in the folder of stores, but for the locks."""
    return sorted(path.name for path in root.iterdir() if path.name != ".locks") if root.exists() else []


def same_bytes(a: Path, b: Path) -> bool:
    files = [sorted(file.relative_to(top) for file in top.rglob("*") if file.is_file()) for top in (a, b)]
    return files[0] == files[1] and all((a / f).read_bytes() == (b / f).read_bytes() for f in files[0])


def test_made_once(tmp_path: Path) -> None:
    stages: list[str] = []
    watcher = Watcher(stage=stages.append)
    first = ingest(Synthetic(rows=100), Partition(4), root=tmp_path, watcher=watcher)
    assert stages == ["reading synthetic", "spreading 100 rows", "writing 100 rows of 4 nodes"]
    stages.clear()
    again = ingest(Synthetic(rows=100), Partition(4), root=tmp_path, watcher=watcher)
    assert stages == []
    assert again == first
    assert visible(tmp_path) == [first.path.name]


def test_each_setting_has_its_store(tmp_path: Path) -> None:
    file = tmp_path / "x.svm"
    file.write_text("1 1:1\n2 2:1\n" * 10)
    source = Svmlight(file)
    keys = [
        store_key(source, Partition(2), "auto"),
        store_key(source, Partition(3), "auto"),
        store_key(source, Partition(2, "shuffled"), "auto"),
        store_key(source, Partition(2, "shuffled", 1), "auto"),
        store_key(source, Partition(2), "real"),
        store_key(Svmlight(file, index_base=0), Partition(2), "auto"),
        store_key(Svmlight(file, features=9), Partition(2), "auto"),
    ]
    assert len(set(keys)) == len(keys)
    assert store_key(Svmlight(file, threads=3), Partition(2, seed=5), "auto") == keys[0]


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    file, root = tmp_path / "x.svm", tmp_path / "stores"
    file.write_text("1 1:1\n2 2:1\n" * 10)
    notes: list[str] = []
    watcher = Watcher(note=notes.append)
    first = ingest(Svmlight(file), Partition(2), root=root, watcher=watcher)
    os.utime(file, ns=(1, 1))
    second = ingest(Svmlight(file), Partition(2), root=root, watcher=watcher)
    assert notes == [f"{file} has changed since {first.path.name} was made; reading it anew"]
    assert second.path != first.path
    file.write_text("1 1:7\n2 2:1\n" * 10)
    os.utime(file, ns=(1, 1))  # the same size and time as before: not seen without reading the file
    assert ingest(Svmlight(file), Partition(2), root=root).path == second.path
    file.write_text("1 1:77\n2 2:1\n" * 10)
    third = ingest(Svmlight(file), Partition(2), root=root)
    assert 77.0 in third.shard(0).data


def test_damaged_stores_of_others_do_not_matter(tmp_path: Path) -> None:
    file, root = tmp_path / "x.svm", tmp_path / "stores"
    file.write_text("1 1:1\n2 2:1\n" * 10)
    first = ingest(Svmlight(file), Partition(2), root=root)
    (first.path / "zarr.json").write_text("damaged")
    assert ingest(Svmlight(file), Partition(4), root=root).n == 4


@pytest.mark.parametrize("name", ["a[1]*?.svm", "ü x.svm", ".hidden", "y" * 200 + ".svm", "new\nline.svm"])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    file, root = tmp_path / name, tmp_path / "stores"
    file.write_text("1 1:1\n2 2:1\n" * 10)
    other = root / ".other.zarr.12345678.partial"
    other.mkdir(parents=True)
    store = ingest(Svmlight(file), Partition(2), root=root)
    assert store.meta.source["path"] == str(file)
    assert store.path.name.isascii()
    assert not set(store.path.name) & set("*?[]\n ")
    assert other.exists()


def test_where_stores_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DTOKEN_STORE", "")
    assert default_store_root() == tmp_path / ".cache" / "dtoken"
    monkeypatch.setenv("DTOKEN_STORE", "~/here")
    assert ingest(Synthetic(rows=50), Partition(2)).path.parent == tmp_path / "here"


def test_a_finished_store_needs_no_permission_to_write(tmp_path: Path, run_child: Callable[..., int]) -> None:
    store = ingest(Synthetic(rows=50), Partition(2), root=tmp_path)
    code = """
import dtoken.data.ingest
from pathlib import Path
from dtoken.data.partition import Partition
from dtoken.data.synthetic import Synthetic
dtoken.data.ingest.locked = None
store = dtoken.data.ingest.ingest(Synthetic(rows=50), Partition(2), root=Path(root))
assert str(store.path) == path
"""
    assert run_child(code, root=str(tmp_path), path=str(store.path)) == 0


TOGETHER = """
import os
from pathlib import Path
import dtoken.data.ingest as module
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like

build = module.build
def marked(*arguments):
    with open(marks, "a") as file:
        file.write(f"{os.getpid()}\\n")
    return build(*arguments)
module.build = marked
barrier.wait()
store = module.ingest(Rcv1Like(rows=3000), Partition(5, "shuffled"), root=Path(root))
assert store.shard(4).rows == 600
"""


def test_twenty_processes_at_the_same_moment(tmp_path: Path, start_child: Callable[..., Any]) -> None:
    marks, root = tmp_path / "marks", tmp_path / "stores"
    barrier = multiprocessing.get_context("forkserver").Barrier(20)
    children = [start_child(TOGETHER, marks=str(marks), root=str(root), barrier=barrier) for _ in range(20)]
    for child in children:
        child.join(NEVER)
    assert [child.exitcode for child in children] == [0] * 20
    assert len(marks.read_text().splitlines()) == 1
    (name,) = visible(root)
    assert verify(ShardStore.open(root / name)) == []


KILLED = """
import os, signal
from pathlib import Path
import dtoken.data.ingest as module
from dtoken.data.build import Watcher
from dtoken.data.partition import Partition
from dtoken.data.synthetic import Synthetic

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def advance(fraction):
    if stage == moment and fraction >= 0.5:
        die()

def begin(name):
    global stage
    stage = name.split()[0]

stage = ""
if moment == "before the root":
    import dtoken.data.build
    dtoken.data.build.write_root = die
if moment == "before the rename":
    Path.rename = die
if moment == "after the rename":
    rename = Path.rename
    Path.rename = lambda self, target: (rename(self, target), die())
module.ingest(Synthetic(rows=500, density=0.5), Partition(5), root=Path(root), watcher=Watcher(begin, advance))
"""
MOMENTS = ["reading", "spreading", "writing", "before the root", "before the rename", "after the rename"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_a_known_moment(tmp_path: Path, run_child: Callable[..., int], moment: str) -> None:
    root = tmp_path / "stores"
    source = Synthetic(rows=500, density=0.5)
    name = store_key(source, Partition(5), "auto")
    assert run_child(KILLED, root=str(root), moment=moment) == -signal.SIGKILL
    finished = moment == "after the rename"
    assert (root / name).exists() == finished
    assert any(path.endswith(".partial") for path in visible(root))
    store = ingest(source, Partition(5), root=root)
    assert verify(store) == []
    if not finished:
        assert visible(root) == [name]
    assert same_bytes(store.path, ingest(source, Partition(5), root=tmp_path / "fresh").path)


@pytest.fixture(scope="module")
def slow_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes about a second: bzip2 is slow to unpack."""
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice([-1, 1])} " + " ".join(f"{j}:{rng.random():.4f}" for j in range(1, 30)) for _ in range(800)]
    file = tmp_path_factory.mktemp("slow") / "slow.svm.bz2"
    file.write_bytes(bz2.compress("\n".join(rows).encode() + b"\n") * 25)
    return file


def words(source: Path, root: Path) -> list[str]:
    return ["ingest", str(source), "--nodes", "7", "--partition", "shuffled", "--store", str(root)]


# The command, which waits for ever before it puts the store into its place: nobody comes too late to stop it.
HELD = """
import sys, time
from pathlib import Path
from dtoken.cli.data import main

def hold(*_):
    while True:
        time.sleep(1)

Path.rename = hold
sys.exit(main())
"""


def start(source: Path, root: Path) -> subprocess.Popen[str]:
    """Start the command and return when it has begun to write."""
    pipe, before = subprocess.PIPE, set(root.glob(".*.partial"))
    process = subprocess.Popen([sys.executable, "-c", HELD, *words(source, root)], stdout=pipe, stderr=pipe, text=True)
    until(lambda: {file.parent for file in root.glob(".*.partial/*")} - before or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def test_killed_at_random_moments(tmp_path: Path, slow_source: Path) -> None:
    root = tmp_path / "stores"
    generator = random.Random(1)
    for _ in range(4):
        process = start(slow_source, root)
        time.sleep(generator.uniform(0, 0.4))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        (left,) = visible(root)  # what the process before it left is gone
        assert left.endswith(".partial")
    command = [sys.executable, "-m", "dtoken.cli.data", *words(slow_source, root)]
    last = subprocess.run(command, capture_output=True, text=True, check=True)
    store = ShardStore.open(last.stdout.splitlines()[-1])
    assert verify(store) == []
    assert store.meta.rows + store.meta.dropped_rows == 20_000
    assert visible(root) == [store.path.name]
    expected = ingest(Svmlight(slow_source), Partition(7, "shuffled"), root=tmp_path / "fresh")
    assert same_bytes(store.path, expected.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path: Path, slow_source: Path, number: int) -> None:
    root = tmp_path / "stores"
    process = start(slow_source, root)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "interrupted.\n")
    assert visible(root) == []


def test_waiting_for_another_process_is_told(tmp_path: Path, start_child: Callable[..., Any]) -> None:
    source = Synthetic(rows=50)
    name = store_key(source, Partition(2), "auto")
    (tmp_path / ".locks").mkdir()
    held = locked(tmp_path / ".locks" / f"{name}.lock")
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        held.__exit__(None, None, None)

    held.__enter__()
    store = ingest(source, Partition(2), root=tmp_path, watcher=Watcher(note=note))
    assert notes == [f"process {os.getpid()} on {os.uname().nodename} is ingesting this dataset; waiting for it"]
    assert store.n == 2
