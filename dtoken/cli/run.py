"""``dtoken``: one run, or with ``-m`` several, from a Hydra configuration."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtoken import __version__

HELP = """\
dtoken [KEY=VALUE ...]      one run of a token method; its directory is the last line printed
dtoken -m KEY=V1,V2 ...     one run for each combination
dtoken theory=only ...      what the theory says, as a table, without running; with -m side by side

Groups, each with keys of its own (choose with GROUP=OPTION):

{groups}

Main keys:

  nodes, seed                                   number of nodes n; seed of the schedule
  problem.sigma, algorithm.tokens               regularisation of each node; number of tokens K
  stop.passes|jumps|events|suboptimality        the first that is met ends the run
  record.every_passes|every_jumps               when to measure; record.events=true writes the event log
  time.tau_comp, time.tau_comm, time.rule       ideal time of a gradient and of a jump
  partition.kind, partition.seed                how rows are spread over nodes
  engine.threads, checkpoint.every              threads; record points between checkpoints
  engine=dask cluster=... cluster.workers       run on the workers of a Dask cluster
  schedule.replay                               an event log to replay

All keys with their values: dtoken [KEY=VALUE ...] --cfg job. A run that is started again in its directory
(hydra.run.dir=DIR) continues. This is a Hydra application: --hydra-help says what else it can do.

  dtoken data=rcv1_like nodes=20 algorithm=tvr algorithm.tokens=4 stop.suboptimality=1e-8
  dtoken data=svmlight data.path=rcv1.svm.xz nodes=20 graph=ring graph.walk=lazy algorithm.jumps=auto
  dtoken data=rcv1_like nodes=20 engine=dask cluster=slurm cluster.workers=4 cluster.queue=short
"""


class _Told(Exception):
    """A run of a sweep failed, and the user was told why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``dtoken``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in words or "-h" in words:  # before anything heavy is loaded
        print(_help(), end="")
        return 0
    if "--version" in words:
        print(f"dtoken {__version__}")
        return 0
    from dtoken.cli.hydra_app import parse
    from dtoken.cli.terminal import run_command

    asked = parse(words)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # for algorithm._target_=my_module.MyMethod
    return run_command(lambda: _run(asked))


def _help() -> str:
    from dtoken.config.source import config_folder

    lines = []
    for folder in sorted(path for path in config_folder().iterdir() if path.is_dir()):
        options = sorted(file.stem for file in folder.glob("*.yaml"))
        lines.append(f"  {folder.name:<10} {', '.join(options)}")
    return HELP.format(groups="\n".join(_wrapped(line) for line in lines))


def _wrapped(line: str) -> str:
    import textwrap

    return textwrap.fill(line, 100, subsequent_indent=" " * 13)


def _run(asked: Any) -> int:
    from dtoken.cli.hydra_app import application, output_directory, running_directory

    keys = ("data", "nodes", "partition", "problem", "graph", "algorithm", "engine", "seed", "stop", "record", "time")
    with application(asked, (*keys, "cluster", "checkpoint", "schedule", "theory")) as app:
        if app.show():
            return 0
        if app.given("theory") == "only":
            from dtoken.cli.theory import show_theory

            return show_theory(app)
        if app.sweeps:
            try:
                app.sweep(lambda config: _run_of_sweep(config, running_directory()))
            except _Told as told:
                return told.status
            return 0
        config = app.compose()
        directory = output_directory(config)
        return single_run(config, directory, lambda task: app.run(config, lambda _: task()))


def _run_of_sweep(config: Any, directory: Path) -> None:
    """A run of a sweep tells its own errors, so that the others go on."""
    from dtoken.cli.hydra_app import running_config
    from dtoken.cli.terminal import run_command

    status = run_command(lambda: single_run(running_config(config), directory, lambda task: task()))
    if status:
        raise _Told(status)


def single_run(config: Any, directory: Path, inside: Any) -> int:
    """Check everything, then run ``inside`` the directory."""
    from dtoken.cli.lines import closing, header
    from dtoken.cli.screen import Screen
    from dtoken.cli.terminal import FAILED, sentence
    from dtoken.config.hydra import settings_of
    from dtoken.errors import InputError
    from dtoken.outputs import earlier_summary, is_over
    from dtoken.session import execute, prepare_run

    settings = settings_of(config)
    if config.theory == "only":
        raise InputError("theory=only is in a configuration file; give it on the command line")
    before = earlier_summary(directory, settings)
    if before and is_over(before, settings):
        if before["failure"]:
            print(sentence(f"{directory} holds this run, which {before['failure']}"), file=sys.stderr)
            return FAILED
        print(f"This run is done already; a later stop would continue it.\n{directory}")
        return 0
    accuracy = settings.stop.suboptimality or min(settings.record.accuracies, default=1e-8)
    with Screen() as screen:
        prepared = prepare_run(settings, screen.watcher)
        screen.hide()
        for name, text in header(prepared, accuracy):
            screen.show(name, text)
        for note in settings.method.notes(prepared.experiment.constants, prepared.experiment.facts):
            screen.note(note)
        result = inside(lambda: execute(prepared, directory, screen.observer(prepared)))
    for line in closing(result):
        print(line)
    print(directory)
    if result.summary["failure"]:
        print(sentence(f"The run {result.summary['failure']}"), file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
