"""Runs that are killed between, during and after their checkpoints, at random, end as if nothing had happened."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dtoken
from tests.engine.dask.on_dask import without_wall

DEATHS = 8

# A life is a fork of a process that has loaded everything. It dies at a random call of something that a run does again
# and again: let events happen, measure, add to the log; and of every step in which a checkpoint reaches the disk.
CODE = """
import os, random, shutil, signal, sys
from pathlib import Path

import dtoken
from dtoken.engine.loop import keeping
from dtoken.engine.loop import packed
from dtoken.engine.local import LocalEngine
from dtoken.schedule.log import LogWriter
from hydra_dask import durable

RUNNING = [(LocalEngine, "run"), (LocalEngine, "measure"), (LogWriter, "add")]
SAVING = [
    *((os, "fsync"), (durable, "sync_file_system"), (Path, "replace"), (Path, "rename")),
    *((LogWriter, "checkpoint"), (packed, "_pieces")),
]

def die_at(owner, name, number):
    original, calls = getattr(owner, name), []
    def counted(*arguments, **options):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)
    setattr(owner, name, counted)

os.environ["DTOKEN_STORE"] = stores
keeping.SHARE = 0.5  # many checkpoints
dtoken.run(**settings, directory=warm)
rng, died = random.Random(seed), 0
while died < deaths:
    owner, name = rng.choice(rng.choice([RUNNING, SAVING]))
    number = rng.randint(1, 12)
    child = os.fork()
    if child == 0:
        die_at(owner, name, number)
        dtoken.run(**settings, directory=directory)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        died += 1
    elif status == 0:  # it got through: the next one begins anew
        shutil.rmtree(directory)
    else:
        sys.exit(1)
"""


@pytest.mark.parametrize("algorithm", [{"_target_": "tvr", "tokens": 2}, "gd"])
def test_killed_at_random(
    algorithm: object, tmp_path: Path, run_child: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("DTOKEN_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    print(f"DTOKEN_CHAOS_SEED={seed}")
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    settings = {
        "data": {"kind": "synthetic", "rows": 60, "features": 4},
        "nodes": 4,
        "algorithm": algorithm,
        "sigma": 0.1,
        "stop": {"passes": None, "events": 40_000},
        "record": {"events": True, "every_passes": 97.0},
        "checkpoint": {"seconds": 1e-6},
        "threads": 1,
    }
    places = {"stores": str(tmp_path / "stores"), "directory": str(tmp_path / "run"), "warm": str(tmp_path / "warm")}
    assert run_child(CODE, settings=settings, seed=seed, deaths=DEATHS, **places) == 0
    killed, whole = dtoken.run(**settings, directory=tmp_path / "run"), dtoken.Result.load(tmp_path / "warm")
    assert [without_wall(record) for record in killed.records] == [without_wall(record) for record in whole.records]
    assert killed.tokens.tobytes() == whole.tokens.tobytes()
    assert killed.nodes.tobytes() == whole.nodes.tobytes()
    mine, theirs = (pq.read_table(tmp_path / name / "events.parquet") for name in ("run", "warm"))
    assert mine.equals(theirs)
    assert not [path.name for path in (tmp_path / "run").iterdir() if "partial" in path.name or "parts" in path.name]
