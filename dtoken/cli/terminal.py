"""What all commands share: a sentence and an exit status for what goes wrong, progress on a terminal only."""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dtoken.data.build import Watcher
from dtoken.errors import InputError, RunError
from dtoken.text import sentence

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


def run_command(command: Callable[[], int]) -> int:
    """Run ``command``; tell errors that a user can meet in one sentence on standard error."""
    atexit.register(gc.freeze)  # the end of the process is not the time to look for garbage, which takes half a second
    try:
        with _terminable():
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
    except BrokenPipeError:  # the reader of our output has gone: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _fail(error, FAILED)


def _fail(message: object, status: int) -> int:
    print(sentence(message), file=sys.stderr)
    return status


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, with which batch systems end a job, clean up like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():  # signals are not its business
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
