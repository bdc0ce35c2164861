"""Three figures of the data layer, each against a common tool in the same run (docs/performance.md).

1. Time of ``dtoken-data ingest`` (the whole command, store written) against scikit-learn's
   ``load_svmlight_file``.
2. Peak memory of both, and of an ingest of 2 GB.
3. Opening a store and reading one 9 MB shard, checksums verified, against ``np.load`` of the same arrays.

Every measurement runs in its own process. This one imports nothing large, because a child's peak memory
counts from that of its parent.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MB = 1_000_000
TEXT_MB = {"small": 60, "full": 400}  # for time, against scikit-learn
LARGE_MB = {"small": 0, "full": 2000}  # for memory
NODE_ROWS = 9841  # one node of the paper's RCV1: 9 MB
ROUNDS = 3  # of text to a store; the best time counts, the largest memory
REPEATS = 200  # of reading a shard
LIMITS = {"time": 0.35, "memory": 500.0, "read": 8.0}


def main() -> None:
    options = _options()
    if options.task:
        print(json.dumps(TASKS[options.task](*map(Path, options.arguments))))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        figures = measure(Path(name), options.size)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ratios of ingest and reading to scikit-learn and numpy.")
    parser.add_argument("--size", choices=TEXT_MB, default="small", help="full: 400 MB for time, 2 GB for memory")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--folder", type=Path, help="where temporary data go (full: 10 GB; default: the system's)")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(folder: Path, size: str) -> dict[str, Any]:
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
    seconds = [min(run["seconds"] for run in runs) for runs in (ours, theirs)]
    figures = {
        "machine": _machine(),
        "size": size,
        "text_mb": text.stat().st_size / MB,
        "ingest_seconds": seconds[0],
        "sklearn_seconds": seconds[1],
        "time_ratio": seconds[0] / seconds[1],
        "ingest_peak_mb": max(run["peak_mb"] for run in ours),
        "sklearn_peak_mb": max(run["peak_mb"] for run in theirs),
        "rounds": {"ingest": ours, "sklearn": theirs},
    }
    if LARGE_MB[size]:
        _say(f"writing {LARGE_MB[size]} MB of text")
        text = folder / "large.svm"
        _child("write", text, Path(str(LARGE_MB[size])))
        _say("ingesting it")
        large = _ingest(text, stores)
        figures["large_mb"] = text.stat().st_size / MB
        figures["large_seconds"] = large["seconds"]
        figures["large_peak_mb"] = large["peak_mb"]
    _say("reading one shard")
    return figures | _child("shard", stores, folder / "arrays")


def _say(sentence: str) -> None:
    print(f"{sentence} ...", file=sys.stderr, flush=True)


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9), "python": platform.python_version()}


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

    from dtoken.data.ingest import ingest
    from dtoken.data.partition import Partition
    from dtoken.data.rcv1_like import Rcv1Like
    from dtoken.data.store import ARRAYS, ShardStore

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
        "read_ratio": ours / theirs,
        "zarr_ms": with_zarr(zarr.open_group(path / "nodes" / "0", mode="r"), ARRAYS),
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


def show(figures: dict[str, Any]) -> None:
    """Print the figures beside those of the other tool and what is asked for."""
    machine = figures["machine"]
    print(f"{machine['cores']} cores, {machine['memory_gb']} GB, Python {machine['python']}\n")
    limits = f"{'at most':>9}" if figures["size"] == "full" else ""  # a small run is mostly start-up
    print(f"{'':34}{'dtoken':>10}{'other':>16}{'figure':>11}{limits}")

    def line(what: str, ours: str, theirs: str, figure: float, limit: float, form: str = ".2f") -> None:
        verdict = "" if figure <= limit else "  missed"
        asked = f"{limit:>9{form}}{verdict}" if figures["size"] == "full" else ""
        print(f"{what:34}{ours:>10}{theirs:>16}{figure:>11{form}}{asked}")

    times = f"{figures['ingest_seconds']:.1f} s", f"sklearn {figures['sklearn_seconds']:.1f} s"
    line(f"{figures['text_mb']:,.0f} MB of text to a store", *times, figures["time_ratio"], LIMITS["time"])
    theirs = f"sklearn {figures['sklearn_peak_mb']:,.0f} MB"
    line(
        "  peak memory, MB",
        f"{figures['ingest_peak_mb']:.0f} MB",
        theirs,
        figures["ingest_peak_mb"],
        LIMITS["memory"],
        ".0f",
    )
    if "large_mb" in figures:
        what, peak = f"{figures['large_mb']:,.0f} MB of text to a store", figures["large_peak_mb"]
        print(f"{what:34}{figures['large_seconds']:>8.1f} s")
        line("  peak memory, MB", f"{peak:.0f} MB", "", peak, LIMITS["memory"], ".0f")
    times = f"{figures['shard_ms']:.2f} ms", f"np.load {figures['np_load_ms']:.2f} ms"
    line(
        f"open and read a shard of {figures['shard_mb']:.1f} MB",
        *times,
        figures["read_ratio"],
        LIMITS["read"],
    )
    print(f"{'  by zarr-python':34}{figures['zarr_ms']:>7.2f} ms")
    print(f"{'  by zarr-python, blosc-zstd':34}{figures['zarr_blosc_ms']:>7.2f} ms")


if __name__ == "__main__":
    main()
