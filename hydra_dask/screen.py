"""What a sweep says: lines at its beginning and end, and progress where somebody watches."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hydra_dask.identity import swept_keys
from hydra_dask.manifest import DONE, FAILED, PROGRESS, RUNNING, WAITING, Job

FAILURES_SHOWN, JOBS_SHOWN = 20, 8
REFRESH_SECONDS = 0.5
MOST_BAR = 30  # letters
T = TypeVar("T")


def say(text: str, name: str = "") -> None:
    """Print a line on standard output, whole, for grep and for copying."""
    Console(highlight=False).print(Text.assemble((f"{name:<10} " if name else "", "bold"), text), soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> plural(1, "job"), plural(36, "job")
    ('1 job', '36 jobs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def opening(jobs: int, todo: int, directory: Path, checked: bool) -> str:
    """How many jobs there are, and how many are done already."""
    text = plural(jobs, "job") + (", all configurations valid" if checked else "")
    done = f"; {jobs - todo:,} already done in {directory}, {todo:,} to run" if todo < jobs else ""
    return text + done


def short(job: Job, swept: set[str]) -> str:
    """What distinguishes a job from the others of its sweep."""
    differing = [word for word in job.overrides if word.lstrip("+~").partition("=")[0].replace("/", ".") in swept]
    return " ".join(differing or job.overrides)


def counted(jobs: Sequence[Job]) -> dict[str, int]:
    """How many jobs have each status; those that jobs gave their own ends stand after ``failed``."""
    found = Counter(job.status for job in jobs)
    own = sorted(found.keys() - {DONE, RUNNING, FAILED, WAITING})
    return {status: found[status] for status in (DONE, RUNNING, FAILED, *own, WAITING)}


def in_words(counts: Mapping[str, int], total: int) -> str:
    """The line of numbers of a sweep.

    Examples
    --------
    >>> in_words({"done": 29, "running": 5, "failed": 1, "waiting": 1}, 36)
    '29/36 done   5 running   1 failed   1 waiting'
    """
    return "   ".join(
        f"{number:,}{f'/{total:,}' if status == DONE else ''} {status}" for status, number in counts.items()
    )


def closing(jobs: Sequence[Job], directory: Path) -> list[str]:
    """How the jobs ended; failures with overrides, reason and log."""
    failed = [job for job in jobs if job.status not in (DONE, WAITING, RUNNING)]
    words = [f"{number:,} {status}" for status, number in counted(jobs).items() if number and status != RUNNING]
    lines = [", ".join(words) or "no jobs"]
    swept = swept_keys([job.overrides for job in jobs])
    for job in failed[:FAILURES_SHOWN]:
        lines += [f"  #{job.index:<4} {short(job, swept)}", f"        {job.error}", f"        {directory / job.log}"]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"  and {len(failed) - FAILURES_SHOWN:,} more; {directory / 'manifest.json'} has them all")
    return lines


def eta(jobs: Sequence[Job], began: float, done_before: int) -> float | None:
    """Seconds until the end, by the pace so far; None: too early to tell."""
    over = sum(job.status not in (WAITING, RUNNING) for job in jobs)
    if over <= done_before:
        return None
    return (time.monotonic() - began) / (over - done_before) * (len(jobs) - over)


def clock(seconds: float) -> str:
    """A duration.

    Examples
    --------
    >>> clock(130), clock(7265)
    ('0:02:10', '2:01:05')
    """
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def bar_width(words: str, width: int) -> int:
    """How wide the bar may be beside these words on a terminal of this width.

    Examples
    --------
    >>> bar_width("2/6 done   ETA 0:00:10", 120), bar_width(60 * "x", 80)
    (30, 17)
    """
    return max(MOST_BAR // 6, min(MOST_BAR, width - len(words) - 3))


def read_progress(directory: Path, job: Job) -> dict[str, Any]:
    """What a running job tells about itself; nothing, if it does not."""
    try:
        found = json.loads((directory / job.folder / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def watched(items: Sequence[T], doing: str) -> Iterator[T]:
    """The items, with a bar on standard error that says how far it is; silent where nobody watches."""
    console = Console(stderr=True)
    columns = (MofNCompleteColumn(), TextColumn("{task.description}"), BarColumn(MOST_BAR))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield from bar.track(items, description=doing)


class Screen:
    """A bar with counts, and a line for each running job, on standard error; silent where nobody watches."""

    def __init__(self, jobs: Sequence[Job], directory: Path) -> None:
        self._jobs, self._directory = jobs, directory
        self._swept = swept_keys([job.overrides for job in jobs])
        self._began, self._shown = time.monotonic(), 0.0
        self._before = sum(job.status not in (WAITING, RUNNING) for job in jobs)
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Say something that is worth a line, also in the log of a driver that nobody watches."""
        if self._live is None:
            say(text, "note")
        else:
            self._live.console.print(Text.assemble((f"{'note':<10} ", "bold"), text), soft_wrap=True)

    def update(self) -> None:
        """Something may have changed."""
        if self._live is not None and time.monotonic() - self._shown > REFRESH_SECONDS:
            self._shown = time.monotonic()
            self._live.update(self._picture(self._live.console.width), refresh=True)

    def _picture(self, width: int) -> Group:
        counts, total = counted(self._jobs), len(self._jobs)
        left = eta(self._jobs, self._began, self._before)
        words = in_words(counts, total) + ("" if left is None else f"   ETA {clock(left)}")
        head = Table.grid(padding=(0, 2))
        head.add_row(
            ProgressBar(total, total - counts[WAITING] - counts[RUNNING], width=bar_width(words, width)), Text(words)
        )
        running = [job for job in self._jobs if job.status == RUNNING]
        lines = [self._line(job) for job in running[:JOBS_SHOWN]]
        return Group(head, *lines)

    def _line(self, job: Job) -> Text:
        told = read_progress(self._directory, job)
        fraction = told.get("fraction")
        share = f"   {fraction:.0%}" if isinstance(fraction, int | float) else ""
        return Text(f"  #{job.index:<4} {short(job, self._swept)}   {told.get('text', '')}{share}", no_wrap=True)
