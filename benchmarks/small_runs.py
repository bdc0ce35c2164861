"""Where the time of a small run of a sweep goes, and what a checkpoint takes.

    python benchmarks/small_runs.py [--size full] [--json FILE]

Parts of a run are timed one inside another in this process, by the code that runs in a worker; they are processor time.
Of several checkpoints the middle one counts.
"""

import os
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from common import Figures, arguments

ROOT = Path(__file__).resolve().parent.parent
COMMON = [
    "+experiment=quickstart",
    "problem.sigma=1e-3",
    "data=svmlight",
    f"data.path={ROOT}/dtoken/data/embedded/tiny.svm.xz",
    "partition.kind=shuffled",
]
MANY = ["algorithm=tvr", "graph=complete,ring", "stop.suboptimality=null", "stop.passes=280", "record.every_passes=7"]
WARM = 4  # runs that load kernels and modules first

# what is told apart: functions by where they are looked up
PARTS = {
    "the launcher: lock, records, log": ["hydra_dask.worker.run_task"],
    "Hydra: configuration, logging, .hydra": ["hydra_dask.worker.run_job"],
    "settings from the configuration": ["dtoken.config.hydra.settings_to_run"],
    "preparing: store, facts, optimum, graph": ["dtoken.session.execute.prepare_run"],
    "reading the rows": ["dtoken.engine.local.NodeRows"],
    "iterations, with drawing events": ["dtoken.session.execute.run"],
    "measuring at record points": ["dtoken.engine.local.LocalEngine.measure", "dtoken.engine.loop.run.record"],
    "summary.json, twice": ["dtoken.session.account.write_summary"],
    "trajectory.parquet": ["dtoken.session.account.write_trajectory"],
    "result.zarr": ["dtoken.session.account.write_result"],
    "flushing, and naming what is on disk": ["hydra_dask.durable.Batch._name_all"],
    "the rest: header, theory, provenance, closing lines": ["dtoken.session.execute.carry_out"],
}


class Clock:
    """Own time of nested parts, in seconds of the processor."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def inside(self, part: str) -> Iterator[None]:
        """What happens now belongs to ``part``."""
        self._switch()
        self._open.append(part)
        try:
            yield
        finally:
            self._switch()
            self._open.pop()

    def _switch(self) -> None:
        now = time.process_time()
        if self._open:
            self.own[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted."""

        def call(*given: Any, **more: Any) -> Any:
            with self.inside(part):
                return function(*given, **more)

        return call


def parts_of_a_run(folder: Path, words: Sequence[str], runs: int) -> dict[str, float]:
    """Seconds of processor time that each part of a run takes on average."""
    from hydra.utils import get_object

    from dtoken.cli.run import main
    from hydra_dask import sweep as _sweep
    from hydra_dask import worker as _worker

    clock = Clock()

    def in_this_process(sweep: Any, manifest: Any, plan: Any, *_: Any) -> dict[int, Any]:
        token = secrets.token_hex(6)
        station: Any = _worker.Station(token, _worker.pack(sweep.context, sweep.task, {}))
        station.setup(None)  # there is no worker
        for number, job in enumerate(plan.todo):
            if number == WARM:
                clock.own.clear()
            names = (job.id, job.index, 1, job.folder, job.log, plan.configs[job.index])
            job.status = _worker.run_task(token, _worker.Task(manifest.directory, *names, None)).status
        return {}

    patches = [patch.object(_sweep.Sweep, "_run_on_cluster", in_this_process), patch("hydra_dask.worker.get_worker")]
    for part, names in PARTS.items():
        patches += [patch(name, clock.timed(part, get_object(name))) for name in names]
    command = ["-m", *words, f"seed=range({(runs + WARM) // 2})", f"hydra.sweep.dir={folder}/parts", "engine.threads=1"]
    with open(os.devnull, "w") as nowhere, patch("sys.stdout", nowhere):
        for each in patches:
            each.start()
        try:
            if main(command):
                raise SystemExit("the runs whose parts are to be measured failed")
        finally:
            for each in reversed(patches):
                each.stop()
    if lost := [part for part in PARTS if not clock.own[part]]:
        raise SystemExit(f"{lost[0]}: {', '.join(PARTS[lost[0]])} was never called; it has another place now")
    return {part: clock.own[part] / runs for part in PARTS}


def checkpoint(folder: Path, times: int, **settings: Any) -> tuple[float, float]:
    """Seconds that the middle one of several checkpoints of a run takes, on the wall and of the processor."""
    import dtoken
    from dtoken.engine.loop.keeping import Keeper

    taken: list[tuple[float, float]] = []
    save = Keeper._save

    def timed(keeper: Keeper) -> None:
        began, spent = time.perf_counter(), time.process_time()
        save(keeper)
        taken.append((time.perf_counter() - began, time.process_time() - spent))

    more: dict[str, Any] = {"stop": {"passes": float(times)}, "record": {"every_passes": 1.0}, "threads": 1}
    with patch.object(Keeper, "_save", timed):
        dtoken.run(**settings, **more, algorithm="tvr", checkpoint={"every": 1}, directory=folder / f"{len(settings)}")
    return statistics.median(wall for wall, _ in taken), statistics.median(spent for _, spent in taken)


def main() -> None:
    options = arguments(__doc__)
    full = options.size == "full"
    figures = Figures(options)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DTOKEN_STORE"] = str(folder / "stores")
        parts = parts_of_a_run(folder, [*COMMON, *MANY], 40 if full else 6)
        whole = sum(parts.values())
        figures.add("a small run in a worker", whole * 1e3, "ms")
        for part, seconds in sorted(parts.items(), key=lambda entry: -entry[1]):
            figures.add(part, seconds * 1e3, f"ms, {seconds / whole:.0%}")
        small = {"data": {"kind": "svmlight", "path": f"{ROOT}/dtoken/data/embedded/tiny.svm.xz"}, "nodes": 9}
        wall, spent = checkpoint(folder, 20, **small, sigma=1e-3)
        figures.add("a checkpoint of such a run, until it is on disk", wall * 1e3, "ms")
        figures.add("of it, this process", spent * 1e3, "ms of processor", at_most=2)
        rows = 196_820 if full else 2_000
        large = {"data": {"kind": "rcv1_like", "rows": rows}, "nodes": 20, "sigma": 1e-3, "seed": 1}
        wall, spent = checkpoint(folder, 5, **large)
        size = (folder / f"{len(large)}" / "checkpoint.bin").stat().st_size
        figures.add(f"a checkpoint at the paper's size, {size / 1e6:.0f} MB", wall * 1e3, "ms")
        figures.add("of that, this process", spent * 1e3, "ms of processor")
    figures.show()


if __name__ == "__main__":
    main()
