"""Progress of a run on a terminal; silent where nobody watches."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from dtoken.cli.lines import count
from dtoken.cli.terminal import sentence
from dtoken.data.build import Watcher
from dtoken.engine.loop.recorder import Record
from dtoken.session.execute import fraction
from dtoken.session.prepare import Prepared, kernels_cached

REFRESH = 0.1  # seconds between two looks at the clock


class Screen:
    """A line on standard error that says what goes on."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[text]}"))
        self._bars = Progress(
            *columns, TimeElapsedColumn(), console=self._console, disable=not self._console.is_terminal
        )
        self._task = self._bars.add_task("preparing", total=1.0, text="", visible=False)
        self._observer: RunObserver | None = None
        self.watcher = Watcher(self._stage, self._advance, self.note)

    def _stage(self, name: str) -> None:
        self._bars.reset(self._task, total=1.0, description=name, visible=True)

    def _advance(self, fraction: float) -> None:
        self._bars.update(self._task, completed=fraction)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        self._bars.console.print(sentence(text), markup=False, highlight=False, soft_wrap=True)

    def show(self, name: str, text: str) -> None:
        """A line of the header, on standard output."""
        Console(highlight=False).print(Text.assemble((f"{name:<10} ", "bold"), text), soft_wrap=True)

    def hide(self) -> None:
        """Preparation is over."""
        self._bars.update(self._task, visible=False)
        self._bars.refresh()

    def observer(self, prepared: Prepared) -> "RunObserver":
        """Show the progress of a run from now on."""
        self._bars.remove_task(self._task)
        if not kernels_cached(prepared):
            self.note("compiling kernels (first run only)")
        task = self._bars.add_task("", total=1.0, text="")
        self._observer = RunObserver(self, self._bars, task, prepared)
        return self._observer

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._observer is not None and kind is None:
            self._observer.finish()
        self._bars.stop()


class RunObserver:
    """Shows events, their speed and the suboptimality."""

    def __init__(self, screen: Screen, bars: Progress, task: TaskID, prepared: Prepared) -> None:
        self._screen, self._bars, self._task = screen, bars, task
        self._stop, self._gap = prepared.settings.stop, prepared.gap
        self._first: int | None = None  # events when the run was taken up
        self._events = 0
        self._record: Record | None = None
        self._began = self._shown = time.monotonic()

    def events(self, count: int) -> None:
        """So many events happened."""
        if self._first is None:
            self._first, self._began = count, time.monotonic()
        self._events += count
        if time.monotonic() - self._shown > REFRESH:
            self._show()

    def record(self, record: Record) -> None:
        """This was measured."""
        self._record = record

    def show(self, name: str, text: str) -> None:
        """One more line of the header."""
        self._screen.show(name, text)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        self._screen.note(text)

    def _show(self) -> None:
        self._shown = time.monotonic()
        speed = (self._events - (self._first or 0)) / max(1e-9, self._shown - self._began)
        text = f"{count(self._events)} events  {count(speed)}/s"
        if self._record is not None:
            text += f"   subopt {self._record.suboptimality:.1e}"
            done = fraction(self._record, self._stop, self._gap)
            self._bars.update(self._task, completed=done)
        self._bars.update(self._task, text=text)

    def finish(self) -> None:
        """The run is over."""
        self._show()
        self._bars.update(self._task, completed=1.0)
