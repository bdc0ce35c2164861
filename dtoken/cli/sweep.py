"""``dtoken-sweep``: what a sweep would do, how far it is, and how it goes on."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dtoken.cli.submit import TRUST, add_submit
from dtoken.cli.terminal import add_version, run_command
from dtoken.errors import InputError

WATCH_SECONDS = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``dtoken-sweep``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["dry-run"] and not {"-h", "--help"} & set(words):
        return run_command(lambda: _dry_run(words[1:]))  # all of them are Hydra's, also options such as --config-dir
    options = _parser().parse_args(words)
    return run_command(lambda: int(options.command(options)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dtoken-sweep", description="Sweeps: dtoken -m runs them.")
    add_version(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    dry = commands.add_parser(
        "dry-run",
        help="check every run of a sweep, and tell what it would take; nothing is run",
        description="Check every run of a sweep and tell how much it computes and needs; nothing is run or submitted.",
        epilog="Example: dtoken-sweep dry-run +experiment=tokens cluster=slurm cluster.workers=16",
        allow_abbrev=False,
    )
    dry.add_argument("words", nargs=argparse.REMAINDER, metavar="KEY=VALUE", help="as for dtoken -m")
    status = commands.add_parser(
        "status",
        help="how far a sweep is",
        description="How far a sweep is; from any machine that sees its directory.",
        allow_abbrev=False,
    )
    status.add_argument("directory", type=Path, metavar="DIR")
    status.add_argument("--watch", action="store_true", help="look again every two seconds until it is over")
    status.add_argument("--json", action="store_true", help="everything, for scripts")
    status.set_defaults(command=_status)
    resume = commands.add_parser(
        "resume",
        help="run what is missing or failed",
        description="Run what is missing or failed in a sweep, as it was started; interrupted runs continue.",
        allow_abbrev=False,
    )
    resume.add_argument("--trust", action="store_true", help=TRUST)
    resume.add_argument("directory", type=Path, metavar="DIR")
    resume.add_argument("words", nargs=argparse.REMAINDER, metavar="KEY=VALUE", help="more, as cluster.workers=8")
    resume.set_defaults(command=_resume)
    add_submit(commands)
    return parser


def _dry_run(words: Sequence[str]) -> int:
    from dtoken.cli.dry_run import dry_run

    return dry_run(words)


def _status(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.live import Live

    from dtoken.sweep.status import sweep_status

    if options.watch and options.json:
        raise InputError("--watch and --json do not go together; call --json again and again")
    status = sweep_status(options.directory)
    if options.json:
        print(json.dumps(status.as_dict(), indent=2))
        return 0
    console = Console(highlight=False)
    if options.watch and console.is_terminal:
        with Live("\n".join(status.lines()), console=console, auto_refresh=False) as live:
            while status.alive:
                time.sleep(WATCH_SECONDS)
                status = sweep_status(options.directory)
                live.update("\n".join(status.lines()), refresh=True)
        return 0
    for line in status.lines():
        print(line)
    return 0


def _resume(options: argparse.Namespace) -> int:
    from dtoken.cli.run import main as dtoken
    from dtoken.cli.run import quoted
    from dtoken.sweep.status import manifest_to_run

    here, directory = Path.cwd(), Path(os.path.abspath(options.directory))
    manifest = manifest_to_run(directory, options.trust)
    if not os.path.isdir(manifest.cwd):
        raise InputError(f"the sweep was started in {manifest.cwd}, which is not a folder any more")
    os.chdir(manifest.cwd)
    words = [word for word in manifest.command[1:] if not word.startswith("hydra.sweep.dir=")]
    return dtoken([*words, *options.words, f"hydra.sweep.dir={quoted(_short(directory, here))}"])


def _short(directory: Path, here: Path) -> Path:
    """As the user knows it: relative, if the sweep was started where the user is, and is below."""
    known = here == Path.cwd() and directory.is_relative_to(here)
    return directory.relative_to(here) if known else directory


if __name__ == "__main__":
    sys.exit(main())
