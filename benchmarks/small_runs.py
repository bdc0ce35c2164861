"""Where the time of a small run goes: the code of a worker in this process, its parts timed one inside another."""

import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

WARM = 4  # runs that load kernels and modules first

# what is told apart: functions by where they are looked up
PARTS = {
    "the launcher: lock, records, log": ["hydra_dask.worker.run_task"],
    "Hydra: configuration, logging, .hydra": ["hydra_dask.worker.run_job"],
    "settings from the configuration": ["dtoken.config.hydra.settings_to_run"],
    "preparing: store, facts, optimum, graph": ["dtoken.session.prepare.prepare_run"],
    "reading the rows": ["dtoken.engine.local.NodeRows"],
    "iterations, with drawing events": ["dtoken.session.execute.run"],
    "measuring at record points": ["dtoken.engine.local.LocalEngine.measure", "dtoken.engine.loop.run.record"],
    "summary.json, twice": ["dtoken.session.files.write_summary"],
    "trajectory.parquet": ["dtoken.session.files.write_trajectory"],
    "result.zarr": ["dtoken.session.files.write_result"],
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
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from hydra.utils import get_object

    from dtoken.cli.run import main
    from hydra_dask import sweep as _sweep
    from hydra_dask import worker as _worker

    clock = Clock()

    def in_this_process(sweep: Any, manifest: Any, plan: Any) -> dict[int, Any]:
        token = secrets.token_hex(6)
        _worker.STATIONS[token] = _worker.Station(token, _worker.pack(sweep.context, sweep.task, {}))
        for number, job in enumerate(plan.todo):
            if number == WARM:
                clock.own.clear()
            names = (job.id, job.index, 1, job.folder, job.log, plan.configs[job.index])
            job.status = _worker.run_task(token, _worker.Task(manifest.directory, *names, None)).status
        return {}

    patches = [patch.object(_sweep.Sweep, "_run_on_cluster", in_this_process)]
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
    return {part: clock.own[part] / runs for part in PARTS}
