"""Progress of a run on a terminal; silent where nobody watches."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dtoken.data.build import Watcher
from dtoken.engine.loop.recorder import Record
from dtoken.session.prepare import Prepared
from dtoken.session.viewer import Telling, Viewer, fraction
from dtoken.text import count, duration, sentence

LEAST = 1e-4  # share of a run that tells how fast it is
REFRESH = 0.1  # seconds between two looks at the clock


class Bar(Viewer):
    """A line on standard error that says what goes on: first the preparation, then events, speed and suboptimality."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[text]}"))
        self._bars = Progress(
            *columns, TimeElapsedColumn(), console=self._console, disable=not self._console.is_terminal
        )
        self._task = self._bars.add_task("preparing", total=1.0, text="", visible=False)
        self._run: Prepared | None = None  # the run that is shown
        self._first: int | None = None  # events when the run was taken up
        self._events = 0
        self._record: Record | None = None
        self._from: tuple[float, float] | None = None  # share of the run that was done at the first record, and when
        self._began = self._shown = self._seen = time.monotonic()

    @property
    def watcher(self) -> Watcher:
        """Shows each stage of the preparation."""
        return Watcher(self._stage, self._advance, self.note)

    def _stage(self, name: str) -> None:
        self._bars.reset(self._task, total=1.0, description=name, visible=True)

    def _advance(self, fraction: float) -> None:
        self._bars.update(self._task, completed=fraction)

    def note(self, text: str) -> None:
        """A sentence above the line."""
        self._bars.console.print(sentence(text), markup=False, highlight=False, soft_wrap=True)

    def show(self, name: str, text: str) -> None:
        """A line of the description of the run, on standard output."""
        Console(highlight=False).print(Text.assemble((f"{name:<10} ", "bold"), text), soft_wrap=True)

    def hide(self) -> None:
        """Preparation is over."""
        self._bars.update(self._task, visible=False)
        self._bars.refresh()

    def prepared(self, prepared: Prepared) -> None:
        """Show the progress of the run from now on."""
        self._bars.remove_task(self._task)
        self._task = self._bars.add_task("", total=1.0, text="")
        self._run = prepared

    def events(self, count: int) -> None:
        """Count, and show it from time to time; the first are those of before."""
        if self._first is None:
            self._first, self._began = count, time.monotonic()
        self._events += count
        if time.monotonic() - self._shown > REFRESH:
            self._show()

    def record(self, record: Record) -> None:
        """Remember it for the next time that something is shown."""
        self._record, self._seen = record, time.monotonic()
        if self._from is None and self._run is not None:
            self._from = fraction(record, self._run.settings.stop, self._run.gap), self._seen

    def _show(self) -> None:
        self._shown = time.monotonic()
        speed = (self._events - (self._first or 0)) / max(1e-9, self._shown - self._began)
        text = f"{count(self._events)} events  {count(speed)}/s"
        if self._record is not None and self._run is not None and self._from is not None:
            text += f"   subopt {self._record.suboptimality:.1e}"
            done = fraction(self._record, self._run.settings.stop, self._run.gap)
            text += left(done - self._from[0], 1.0 - done, self._seen - self._from[1])
            self._bars.update(self._task, completed=done)
        self._bars.update(self._task, text=text)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._run is not None and kind is None:
            self._show()
            self._bars.update(self._task, completed=1.0)
        self._bars.stop()


def left(done: float, rest: float, seconds: float) -> str:
    """When a run will end that did a share in so many seconds, and has a share left; nothing if it did too little.

    Examples
    --------
    >>> left(0.25, 0.75, 1200.0), left(0.0, 1.0, 3.0)
    ('   ends in 1 h 0 min', '')
    """
    return f"   ends in {duration(seconds * rest / done)}" if done > LEAST and rest > 0 else ""


class Screen(Bar, Telling):
    """What the command shows: the description of the run, its progress, and how it ended."""

    def prepared(self, prepared: Prepared) -> None:
        """Describe the run, then show its progress."""
        self.hide()
        Telling.prepared(self, prepared)
        Bar.prepared(self, prepared)
