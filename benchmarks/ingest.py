"""Three figures of the data layer, each against a common tool in the same run (docs/performance.md).

1. Time of ``dtoken-data ingest`` (the whole command, store written) against scikit-learn's
   ``load_svmlight_file``.
2. Peak memory of both, and of an ingest of 2 GB.
3. Opening a store and reading one 9 MB shard, checksums verified, against ``np.load`` of the same arrays.

Every measurement runs in its own process. This one imports nothing large, because a child's peak memory
counts from that of its parent.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from common import Figures, arguments

MB = 1_000_000
TEXT_MB = {"small": 60, "full": 400}  # for time, against scikit-learn
LARGE_MB = {"small": 0, "full": 2000}  # for memory
NODE_ROWS = 9841  # one node of the paper's RCV1: 9 MB
ROUNDS = 3  # of text to a store; the best time counts, the largest memory
REPEATS = 200  # of reading a shard


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        print(json.dumps(TASKS[sys.argv[2]](*map(Path, sys.argv[3:]))))
        return
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options.size, figures)
    figures.show()


def measure(folder: Path, size: str, figures: Figures) -> None:
    warm, text, stores = folder / "warm.svm", folder / "text.svm", folder / "stores"
    _child("write", warm, Path("1"))
    _ingest(warm, stores)  # fills the cache of compiled code
    _say(f"writing {TEXT_MB[size]} MB of text")
    _child("write", text, Path(str(TEXT_MB[size])))
    theirs, ours = [], []
    for turn in range(ROUNDS):  # in turns, so that what else the machine does meets both
        _say(f"reading it with scikit-learn, then ingesting it ({turn + 1} of {ROUNDS})")
        theirs.append(_child("sklearn", text))
        ours.append(_ingest(text, folder / f"round-{turn}"))
        shutil.rmtree(folder / f"round-{turn}")
    seconds, other = (min(run["seconds"] for run in runs) for runs in (ours, theirs))
    what = f"{text.stat().st_size / MB:,.0f} MB of text to a store"
    figures.add(what, seconds, "s")
    figures.add("scikit-learn, into memory", other, "s")
    figures.add(f"{what} / scikit-learn", seconds / other, "ratio", at_most=0.35 if size == "full" else None)
    figures.add("peak memory", max(run["peak_mb"] for run in ours), "MB", at_most=500)
    figures.add("peak memory, scikit-learn", max(run["peak_mb"] for run in theirs), "MB")
    if LARGE_MB[size]:
        _say(f"writing {LARGE_MB[size]} MB of text")
        text = folder / "large.svm"
        _child("write", text, Path(str(LARGE_MB[size])))
        large = _ingest(text, stores)
        what = f"{text.stat().st_size / MB:,.0f} MB of text to a store"
        figures.add(what, large["seconds"], "s")
        figures.add(f"{what}, peak memory", large["peak_mb"], "MB", at_most=500)
    shard = _child("shard", stores, folder / "arrays")
    what = f"open and read a shard of {shard['shard_mb']:.1f} MB"
    figures.add(what, shard["shard_ms"], "ms")
    figures.add(f"{what} / np.load", shard["shard_ms"] / shard["np_load_ms"], "ratio", at_most=8)
    figures.add("the same by zarr-python", shard["zarr_ms"], "ms")
    figures.add("the same by zarr-python, blosc-zstd", shard["zarr_blosc_ms"], "ms")


def _say(sentence: str) -> None:
    print(f"{sentence} ...", file=sys.stderr, flush=True)


def _child(task: str, *arguments: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--task", task, *map(str, arguments)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


def _ingest(text: Path, stores: Path) -> dict[str, float]:
    """Seconds and peak memory of the whole command, from its start to its end."""
    command = [
        sys.executable,
        "-m",
        "dtoken.cli.data",
        "ingest",
        str(text),
        "--nodes",
        "20",
        "--partition",
        "shuffled",
    ]
    begin = time.perf_counter()
    child = subprocess.Popen([*command, "--store", str(stores)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"ingest failed with status {child.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": usage.ru_maxrss * 1024 / MB}


# Tasks of child processes: paths in, a small dictionary out.


def write_text(text: Path, megabytes: Path) -> dict[str, int]:
    """Write rows of `rcv1_like` as svmlight text until the file has so many MB."""
    from dtoken.data.rcv1_like import Rcv1Like

    with open(text, "w") as out:
        for block in Rcv1Like(rows=10**9).blocks():
            words = list(map("%d:%.6g".__mod__, zip((block.indices + 1).tolist(), block.data.tolist(), strict=True)))
            ends = block.indptr.tolist()
            for row, label in enumerate(block.y.tolist()):
                out.write(f"{label:+g} {' '.join(words[ends[row] : ends[row + 1]])}\n")
            if out.tell() >= int(str(megabytes)) * MB:
                break
    return {"bytes": text.stat().st_size}


def read_with_sklearn(text: Path) -> dict[str, float]:
    import resource

    from sklearn.datasets import load_svmlight_file

    begin = time.perf_counter()
    load_svmlight_file(str(text))
    seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": usage.ru_maxrss * 1024 / MB}


def read_shard(stores: Path, arrays: Path) -> dict[str, float]:
    import numpy as np
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    from dtoken.data.chunks import ARRAYS
    from dtoken.data.ingest import ingest
    from dtoken.data.partition import Partition
    from dtoken.data.rcv1_like import Rcv1Like
    from dtoken.data.store import ShardStore

    path = ingest(Rcv1Like(rows=NODE_ROWS), Partition(1), root=stores).path
    shard = ShardStore.open(path).shard(0)
    arrays.mkdir()
    for name, array in shard._asdict().items():
        np.save(arrays / f"{name}.npy", array)

    compressed = zarr.create_group(arrays / "compressed.zarr")
    for name, array in shard._asdict().items():
        codecs = [BloscCodec(cname="zstd"), Crc32cCodec()]
        compressed.create_array(name, data=array, chunks=array.shape, compressors=codecs)

    def with_zarr(group: zarr.Group, names: Iterable[str]) -> float:
        return _best(lambda: [group[name][:] for name in names])

    ours = _best(lambda: ShardStore.open(path).shard(0))
    theirs = _best(lambda: [np.load(arrays / f"{name}.npy") for name in shard._fields])
    return {
        "shard_mb": shard.nbytes / MB,
        "shard_ms": ours,
        "np_load_ms": theirs,
        "zarr_ms": with_zarr(zarr.open_group(path / "packs" / "0", mode="r"), ARRAYS),
        "zarr_blosc_ms": with_zarr(compressed, shard._fields),
    }


def _best(function: Callable[[], object]) -> float:
    """Milliseconds of the fastest of many calls."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "write": write_text,
    "sklearn": read_with_sklearn,
    "shard": read_shard,
}


if __name__ == "__main__":
    main()
