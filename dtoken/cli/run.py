"""``dtoken``: one run, or with ``-m`` several, from a Hydra configuration."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtoken.errors import InputError, RunError
from dtoken.text import command, sentence

KEYS = (
    "data", "nodes", "partition", "problem", "graph", "algorithm", "engine", "seed", "stop", "record", "time",
    "cluster", "checkpoint", "schedule", "privacy", "failures", "objective", "theory",
)  # fmt: skip
HELP = """\
dtoken [KEY=VALUE ...]      one run of a token method; its directory is the last line printed
dtoken -m KEY=V1,V2 ...     a sweep: one run for each combination, on cluster.workers processes, and a report
dtoken theory=only ...      what the theory says, as a table, without running; with -m side by side

Groups, each with keys of its own (choose with GROUP=OPTION):

{groups}

Experiments, each a sweep that is ready to run (dtoken -m +experiment=NAME):

{experiments}

Main keys:

  nodes, seed                                   number of nodes n; seed of the schedule
  problem.sigma, algorithm.tokens               regularisation of each node; number of tokens K
  stop.passes|jumps|events|suboptimality        the first that is met ends the run
  record.every_passes|every_jumps               when to measure; record.events=true writes the event log
  time.tau_comp, time.tau_comm, time.rule       ideal time of a gradient and of a jump
  partition.kind, partition.seed                how rows are spread over nodes
  engine.memory                                 memory that the run may use, such as 300MB
  engine.threads, checkpoint.seconds            threads; seconds between checkpoints
  engine=dask cluster=... cluster.workers       run on the workers of a Dask cluster
  schedule.replay                               an event log to replay

All keys with their values: dtoken [KEY=VALUE ...] --cfg job. A run that is started again in its directory
(hydra.run.dir=DIR) continues. This is a Hydra application: --hydra-help says what else it can do.

  dtoken data=rcv1_like nodes=20 algorithm=tvr algorithm.tokens=4 stop.suboptimality=1e-8
  dtoken data=svmlight data.path=rcv1.svm.xz nodes=20 graph=ring graph.walk=lazy algorithm.jumps=auto
  dtoken data=rcv1_like nodes=20 engine=dask cluster=slurm cluster.workers=4 cluster.queue=short
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``dtoken``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in words or "-h" in words:  # before anything heavy is loaded
        print(_help(), end="")
        return 0
    if "--version" in words:
        from importlib.metadata import version

        print(f"dtoken {version('dtoken')}")
        return 0
    from dtoken.cli.hydra_app import parse
    from dtoken.cli.terminal import run_command

    asked = parse(words)
    sys.argv = [sys.argv[0], *words]  # what summaries and manifests tell of the command
    return run_command(lambda: _run(asked))


def _help() -> str:
    """The help, with the options of those groups that are sections of the configuration.

    Other groups refine a single experiment, which tells of them in its own file.
    """
    from dtoken.config.source import config_folder

    def options(group: str) -> str:
        return ", ".join(sorted(file.stem for file in (config_folder() / group).glob("*.yaml")))

    groups = [_wrapped(f"  {key:<10} {options(key)}", 13) for key in sorted(KEYS) if options(key)]
    return HELP.format(groups="\n".join(groups), experiments=_wrapped(f"  {options('experiment')}", 2))


def _wrapped(line: str, indent: int) -> str:
    import textwrap

    return textwrap.fill(line, 100, subsequent_indent=" " * indent)


def _run(asked: Any) -> int:
    from dtoken.cli.hydra_app import application, output_directory

    with application(asked, KEYS) as app:
        if app.show():
            if asked.cfg and not app.sweeps:
                _tell_memory(app)
            return 0
        if not app.sweeps:
            _check_single(app.compose(), asked)
        if app.given("theory") == "only":
            from dtoken.cli.theory import show_theory

            return show_theory(app)
        if app.sweeps:
            return _sweep(app)
        from dtoken.cli.terminal import INTERRUPTED
        from dtoken.config.hydra import settings_to_run
        from dtoken.session.prepare import check_alone

        config = app.compose()
        settings = settings_to_run(config)
        check_alone(settings)
        directory = output_directory(config)
        try:
            return _single_run(settings, directory, lambda task: app.run(config, lambda _: task()))
        except KeyboardInterrupt:
            print(sentence(_interrupted(directory, asked.overrides)), file=sys.stderr)
            return INTERRUPTED


def _interrupted(directory: Path, words: Sequence[str]) -> str:
    """Where a run was interrupted, and how it goes on."""
    from dtoken.engine.loop.recorder import Record
    from dtoken.session.files import is_kept, load_summary
    from dtoken.session.lines import where

    summary = load_summary(directory)
    if not summary or not summary["end"]:
        return "interrupted before the run began"
    text = f"interrupted {where(Record(**summary['end']))}"
    if not is_kept(directory):
        return f"{text}; it cannot go on, because checkpoint.seconds=null"
    others = [word for word in words if not word.startswith("hydra.run.dir=")]
    return f"{text}; to go on: {command(['dtoken', *others, f'hydra.run.dir={quoted(directory)}'])}"


def _check_single(config: Any, asked: Any) -> None:
    """Refuse one run of what is meant as a sweep: Hydra would leave the swept values out."""
    if params := config.hydra.sweeper.get("params"):
        swept = " ".join(f"{key}={values}" for key, values in params.items())
        again = command(["dtoken", "-m", *asked.overrides])
        raise InputError(f"this is a sweep, over {swept}; to run it: {again}")


def _tell_memory(app: Any) -> None:
    """Say on standard error what the shown run will need; standard output is the configuration alone."""
    from dtoken.config.hydra import settings_of
    from dtoken.session.memory_estimate import memory_text

    try:
        settings = settings_of(app.compose())
    except InputError:  # what is shown need not be complete
        return
    print(f"memory     {memory_text(settings)}", file=sys.stderr)


def _sweep(app: Any) -> int:
    """Run a sweep and report it, also if runs failed."""
    from dtoken.cli.costs import cost_table
    from dtoken.cli.hydra_app import QUIET, sweep_directory, untouched
    from dtoken.cli.terminal import FAILED, INTERRUPTED
    from dtoken.report import make_report
    from dtoken.session.files import check_writable
    from dtoken.sweep.job import run_of_sweep
    from hydra_dask.errors import Interrupted, JobDied, JobRaised, NoWorkers, SweepError

    config, status = app.compose_sweep([QUIET]), 0
    directory = sweep_directory(config)
    check_writable(directory)
    try:
        with untouched(directory, only_by=SweepError):
            app.sweep(config, run_of_sweep)
    except (JobRaised, JobDied):  # the launcher has told which and why
        status = FAILED
    except NoWorkers as error:
        raise RunError(str(error)) from error
    except Interrupted:  # the launcher has told how to go on, and whoever stops a sweep does not wait for a report
        return INTERRUPTED
    page = make_report(directory, told=lambda study: print("".join(f"{line}\n" for line in cost_table(study)), end=""))
    print(f"report     {page}")
    return status


def quoted(path: str | Path) -> str:
    """A path as a value that Hydra takes as it is.

    Examples
    --------
    >>> quoted("outputs/2026-11-18/12-40-27"), quoted("my runs/1")
    ('outputs/2026-11-18/12-40-27', "'my runs/1'")
    """
    if re.fullmatch(r"(?!(?:null|true|false|nan|inf)$)[a-zA-Z_./][\w./-]*", str(path)):
        return str(path)
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _single_run(settings: Any, directory: Path, inside: Any) -> int:
    """Check everything, then run ``inside`` the directory."""
    from dtoken.cli.screen import Screen
    from dtoken.cli.terminal import FAILED
    from dtoken.session.execute import carry_out
    from dtoken.sweep.job import bad_end

    screen = Screen()
    result = carry_out(settings, directory, screen, inside=inside)
    if reason := bad_end(result, screen.subject):
        print(sentence(reason), file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
