"""``dtoken-sweep submit``: the driver of a sweep becomes a job, and the shell is free."""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hydra_dask.cluster import Cluster
    from hydra_dask.manifest import Job

EPILOG = """\
The job runs dtoken -m with these words, in this folder and with this Python, and prints to driver.log in the sweep
directory. If the batch system starts it again, it goes on. A directory instead of words: what is missing there.

  dtoken-sweep submit cluster=slurm cluster.workers=16 algorithm.tokens=1,4,16 seed=1,2,3
  dtoken-sweep submit --walltime 48:00:00 --queue long multirun/2026-11-16/10-12-03
"""


class Sweep(NamedTuple):
    """What is to be submitted."""

    cluster: "Cluster"
    arguments: list[str]  # of Python
    cwd: Path
    directory: Path


TRUST = "also if the sweep is somebody else's: what its manifest says runs as you"


def add_submit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``dtoken-sweep``."""
    from dtoken.sweep.submit import Resources

    parser = commands.add_parser(
        "submit",
        help="let a batch system run a sweep from beginning to end, and leave",
        description="Submit a sweep with its driver to the batch system of cluster=..., and return.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    usual = Resources()
    add("--walltime", default=usual.walltime, metavar="T", help=f"longest time of the driver ({usual.walltime})")
    add("--memory", default=usual.memory, metavar="M", help=f"memory of the driver ({usual.memory})")
    add("--queue", metavar="Q", help="queue of the driver, if not that of the workers (cluster.queue)")
    add("--trust", action="store_true", help=TRUST)
    add("words", nargs=argparse.REMAINDER, metavar="KEY=VALUE", help="as for dtoken -m; or the directory of a sweep")
    parser.set_defaults(command=_submit)


def _submit(options: argparse.Namespace) -> int:
    from dtoken.sweep.submit import LOG, Resources, submit

    words: list[str] = options.words
    again = len(words) > 0 and "=" not in words[0] and Path(words[0]).is_dir()
    sweep = _missing(Path(words[0]).absolute(), words[1:], options.trust) if again else _new(words)
    resources = Resources(options.walltime, options.memory, options.queue)
    made = submit(sweep.cluster, sweep.arguments, sweep.cwd, sweep.directory, resources)
    print(f"submitted  {made.kind} job {made.job}, the driver; it submits the jobs of the workers")
    print(f"log        {sweep.directory / LOG}")
    directory = shlex.quote(str(sweep.directory))
    print(f"status     dtoken-sweep status {directory}")
    print(f"resume     dtoken-sweep submit {directory}   (if the driver ends before the sweep)")
    print(sweep.directory)
    return 0


def _new(words: Sequence[str]) -> Sweep:
    from dtoken.cli.dry_run import dry_run
    from dtoken.cli.run import quoted
    from dtoken.sweep.submit import batch_system

    cluster, directory = _composed(words)
    batch_system(cluster, directory)
    words = [word for word in words if not word.startswith("hydra.sweep.dir=")]
    words.append(f"hydra.sweep.dir={quoted(directory.absolute())}")
    dry_run(words, "dtoken.cli.submit.tell")
    return Sweep(cluster, ["-m", "dtoken.cli.run", "-m", *words], Path.cwd(), directory.absolute())


def tell(jobs: "Sequence[Job]", todo: Iterable[Any], cluster: "Cluster") -> None:
    """Say what was checked before anything is submitted."""
    from dtoken.text import plural

    print(f"{plural(len(jobs), 'job')}, all configurations valid; {len(list(todo)):,} to run")


def _missing(directory: Path, more: Sequence[str], trust: bool) -> Sweep:
    from dtoken.sweep.status import manifest_to_run

    manifest = manifest_to_run(directory, trust)
    cluster, _ = _composed([word for word in (*manifest.command[1:], *more) if word not in ("-m", "--multirun")])
    resume = ["-m", "dtoken.cli.sweep", "resume", *(["--trust"] if trust else []), str(directory), *more]
    return Sweep(cluster, resume, Path(manifest.cwd), directory)


def _composed(words: Sequence[str]) -> "tuple[Cluster, Path]":
    """The cluster and the directory of a sweep."""
    from omegaconf import OmegaConf

    from dtoken.cli.hydra_app import application, parse
    from dtoken.config.settings import make_settings

    with application(parse(["-m", *words]), ("cluster",)) as app:
        config = app.compose_sweep()
        values = OmegaConf.to_container(config.cluster, resolve=True)
        return make_settings(cluster=values).cluster, Path(str(config.hydra.sweep.dir))
