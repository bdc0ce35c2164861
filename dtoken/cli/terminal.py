"""What all commands share: a sentence and an exit status for what goes wrong, progress on a terminal only."""

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dtoken.data.build import Watcher
from dtoken.errors import InputError, RunError
from dtoken.text import sentence
from hydra_dask.interrupts import interruptible

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


def run_command(command: Callable[[], int]) -> int:
    """Run ``command``; tell errors that a user can meet in one sentence on standard error."""
    atexit.register(gc.freeze)  # the end of the process is not the time to look for garbage, which takes half a second
    try:
        with interruptible(), _unread():
            status = command()
            sys.stdout.flush()
            return status
    except InputError as error:
        return _fail(error, WRONG_USAGE)
    except RunError as error:
        return _fail(error, FAILED)
    except MemoryError as error:
        return _fail(f"there is not enough memory: {error or 'none is left'}", FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except OSError as error:
        return _fail(error, FAILED)


def _fail(message: object, status: int) -> int:
    print(sentence(message), file=sys.stderr)
    return status


def add_version(parser: argparse.ArgumentParser) -> None:
    """Let a command say which version it is of."""
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")


class _Version(argparse.Action):
    """What ``action="version"`` does, which would read the version at every start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"{parser.prog} {version('dtoken')}")
        parser.exit()


class _Patient:
    """Standard output whose reader may leave, as ``| head`` does: what is at work goes on, and is not read."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, to nobody if need be."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, to nobody if need be."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


@contextmanager
def _unread() -> Iterator[None]:
    """Let a command not end because nobody reads its output any more."""
    before, sys.stdout = sys.stdout, cast(TextIO, _Patient(sys.stdout))
    try:
        yield
    finally:
        sys.stdout = before


@contextmanager
def progress() -> Iterator[Watcher]:
    """A progress bar on standard error, one line per stage; silent where nobody watches."""
    console = Console(stderr=True)
    description = TextColumn("{task.description:<28}", markup=False)
    columns = (description, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        current = bars.add_task("preparing", total=1.0, visible=False)

        def stage(name: str) -> None:
            nonlocal current
            bars.update(current, completed=1.0)
            current = bars.add_task(name, total=1.0)

        def advance(fraction: float) -> None:
            bars.update(current, completed=fraction)

        def note(text: str) -> None:
            console.print(sentence(text), markup=False, highlight=False, soft_wrap=True)

        yield Watcher(stage, advance, note)
        bars.update(current, completed=1.0)
