"""Processor time (user and system) of runs in a worker of a sweep, beside the same runs alone, in turns.

python benchmarks/workers.py [--size full] [--json FILE]
"""

import resource
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

from common import Figures, arguments, in_turns

from hydra_dask.cluster import LocalWorkers

TURNS = 7
PASSES = {"gd": 150.0, "token": 1000.0, "tvr": 200.0}


def spent(store: str, algorithm: str, rows: int, passes: float) -> float:
    """Seconds of this process in a run, with one thread."""
    import dtoken

    def seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    data = {"kind": "rcv1_like", "rows": rows, "store": store}
    engine = {"kind": "local", "threads": 1}
    before = seconds()
    dtoken.run(data, 9, algorithm, sigma=1e-3, stop={"passes": passes}, record={"every_passes": None}, engine=engine)
    return seconds() - before


def in_process(process: ProcessPoolExecutor, run: tuple[Any, ...]) -> float:
    """In a process that has nothing to do with Dask."""
    return process.submit(spent, *run).result()


def in_worker(client: Any, run: tuple[Any, ...]) -> float:
    """As the jobs of a sweep do."""
    taken: float = client.submit(spent, *run, pure=False).result()
    return taken


def main() -> None:
    options = arguments(__doc__)
    figures = Figures(options)
    rows = 4_000 if options.size == "full" else 1_000
    with (
        TemporaryDirectory() as store,
        ProcessPoolExecutor(1, get_context("spawn")) as process,
        LocalWorkers(workers=1).open() as connection,
    ):
        for algorithm, passes in PASSES.items():
            run = (store, algorithm, rows, passes)
            alone, worker = partial(in_process, process, run), partial(in_worker, connection.client, run)
            alone()  # compiles, and makes the store
            worker()
            taken = in_turns(TURNS, alone=alone, worker=worker)
            figures.add(f"{algorithm}: alone", taken["alone"], "s")
            figures.add(f"{algorithm}: in a worker / alone", taken["worker"] / taken["alone"], "ratio", at_most=1.1)
    figures.show()


if __name__ == "__main__":
    main()
