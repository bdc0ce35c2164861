"""Whom a run tells what it does: nobody, a log, or (in ``cli``) a terminal."""

import math
import sys
from types import TracebackType
from typing import Self

from dtoken.data.build import Watcher
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import FLOOR, LOST
from dtoken.engine.loop.settings import Stop
from dtoken.session.lines import closing, header
from dtoken.session.prepare import Prepared
from dtoken.session.result import Result
from dtoken.text import sentence


class Viewer:
    """Is told everything about a run, and keeps it to itself; a context for the time that the run takes."""

    @property
    def watcher(self) -> Watcher:
        """Whom to tell how the preparation goes."""
        return Watcher(note=self.note)

    def found(self, result: Result) -> None:
        """The run had ended before, and this is its result."""

    def prepared(self, prepared: Prepared) -> None:
        """The run can begin."""

    def events(self, count: int) -> None:
        """So many more events have happened."""

    def record(self, record: Record) -> None:
        """This was measured."""

    def show(self, name: str, text: str) -> None:
        """One more line of the description of the run."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def ended(self, result: Result) -> None:
        """The run has ended, well or not."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        pass


class Telling(Viewer):
    """Prints what the run is and how it ended, as a log has it."""

    subject = "The run"  # of the sentence on how it ended

    def found(self, result: Result) -> None:
        """Say that there is nothing to do; a failure is the caller's to tell."""
        self.subject = f"{result.directory} holds this run, which"
        if not result.failure:
            ends = {FLOOR: "it cannot get closer", LOST: "all its tokens are lost"}
            more = ends.get(result.summary.get("stopped") or "", "a later stop would continue it")
            print(f"This run is done already; {more}.\n{result.directory}")

    def prepared(self, prepared: Prepared) -> None:
        """Describe the run."""
        for name, text in header(prepared):
            self.show(name, text)
        for note in prepared.notes:
            self.note(note)

    def show(self, name: str, text: str) -> None:
        """One line of the description, on standard output."""
        print(f"{name:<10} {text}")

    def note(self, text: str) -> None:
        """A sentence on standard error."""
        print(sentence(text), file=sys.stderr)

    def ended(self, result: Result) -> None:
        """Tell what it took, and where the files are."""
        for line in closing(result):
            print(line)
        print(result.directory)


def fraction(record: Record, stop: Stop, gap: float) -> float:
    """How much of a run that began ``gap`` above the optimum is done, by the criterion that is nearest."""
    shares = [
        record.passes / stop.passes if stop.passes else 0.0,
        record.jumps / stop.jumps if stop.jumps else 0.0,
        record.event / stop.events if stop.events else 0.0,
    ]
    if stop.suboptimality and 0 < record.suboptimality < gap and stop.suboptimality < gap:
        shares.append(math.log(gap / record.suboptimality) / math.log(gap / stop.suboptimality))
    return min(1.0, max(shares))
