"""``dtoken-sweep dry-run``: every run of a sweep, checked, with what it will take; nothing is run."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from dtoken.cli.hydra_app import QUIET, application, parse, sweep_directory, untouched
from dtoken.cli.run import KEYS
from dtoken.config.hydra import settings_of
from dtoken.engine.rows.memory import PYTHON
from dtoken.errors import InputError
from dtoken.session.duration import WORTH_SAYING
from dtoken.sweep.estimate import Estimate, estimate
from dtoken.sweep.job import run_of_sweep
from dtoken.text import count, duration, plural, show_bytes
from hydra_dask.cluster import Cluster, Jobs
from hydra_dask.cluster.jobs import ROOM
from hydra_dask.identity import swept_keys
from hydra_dask.manifest import Job
from hydra_dask.screen import short

SHOWN = "dtoken.cli.dry_run.show"


def dry_run(words: Sequence[str], shown: str = SHOWN) -> int:
    """Show the sweep that ``dtoken -m`` with these words would run, by the function with the name ``shown``."""
    asked = parse(["-m", *words])
    sys.argv = ["dtoken", "-m", *words]
    with application(asked, KEYS) as app:
        config = app.compose_sweep(["hydra/launcher=dask", f"hydra.launcher.dry_run={shown}", QUIET])
        with untouched(sweep_directory(config)):
            app.sweep(config, run_of_sweep)
    return 0


def show(jobs: Sequence[Job], todo: Iterable[tuple[Job, Any]], cluster: Cluster) -> None:
    """Print the jobs of a sweep, what each takes, and the script of a worker's batch job."""
    swept = swept_keys([job.overrides for job in jobs])
    takes = {job.index: estimate(settings_of(config)) for job, config in todo}
    rows = [_row(job, swept, takes.get(job.index)) for job in jobs]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    done = len(jobs) - len(takes)
    print(f"{plural(len(jobs), 'job')}, all configurations valid; {done:,} already done, {len(takes):,} to run")
    gradients = [taken.gradients for taken in takes.values() if taken.gradients is not None]
    memory = [taken.memory for taken in takes.values() if taken.memory is not None]
    if gradients:
        print(f"gradients  at most {count(sum(gradients))} in all")
    seconds = sum(taken.seconds for taken in takes.values() if taken.seconds is not None)
    if seconds >= WORTH_SAYING:
        print(
            f"duration   these gradients take about {duration(seconds)} on one core; visits and measurements add to it"
        )
    if reads := sum(taken.reads for taken in takes.values()):
        print(f"reads      about {show_bytes(reads)} of rows at most, in all: budgets do not hold them")
    if memory:
        largest, python = show_bytes(max(memory)), show_bytes(PYTHON)
        print(f"memory     about {largest} for the largest run, and {python} for Python itself")
    if unknown := len(takes) - len(memory):
        print(f"memory     of {plural(unknown, 'run')} is unknown until the data are ingested")
    if isinstance(cluster, Jobs):
        each, room = plural(cluster.per_node, "worker") + f" of {cluster.memory}", show_bytes(ROOM)
        whose = "a job" if cluster.machines == 1 else f"each of the {cluster.machines} machines of a job"
        print(f"memory     of {whose} {show_bytes(cluster.job_memory)}: {each}, and {room} for what watches them")
        together = f", {cluster.first_jobs} of which are submitted as an array" if cluster.array else ""
        print(f"cluster    {cluster.workers} workers; the script of a job{together}:\n\n{cluster.job_script()}")
        _ask(cluster)


def _ask(cluster: Jobs) -> None:
    """Let the batch system say whether such a job could ever run."""
    answer = cluster.verdict()
    if answer is None:
        print(f"{cluster.kind:<10} cannot be asked here whether such a job could run")
        return
    possible, said = answer
    if not possible:
        raise InputError(f"{cluster.kind} would never run such a job: {said}")
    print(f"{cluster.kind:<10} {said}")


def _row(job: Job, swept: set[str], taken: Estimate | None) -> tuple[str, str, str, str]:
    if taken is None:
        return f"#{job.index}", short(job, swept), "done already", ""
    gradients = "" if taken.gradients is None else f"<= {count(taken.gradients)} gradients"
    return f"#{job.index}", short(job, swept), gradients, "" if taken.memory is None else show_bytes(taken.memory)
