"""How far a run of a sweep is, in a small file in its directory: for the launcher's screen and for other machines."""

import time
from pathlib import Path

from dtoken.engine.loop.recorder import Record
from dtoken.session.execute import Observer, fraction
from dtoken.session.files import write_json
from dtoken.session.prepare import Prepared

FILE = "progress.json"  # the launcher shows its text and its fraction
SECONDS = 1.0  # from one version to the next


class ProgressFile:
    """Tells another observer everything, and writes the file."""

    def __init__(self, prepared: Prepared, directory: Path, observer: Observer) -> None:
        self._stop, self._gap = prepared.settings.stop, prepared.gap
        self._path, self._observer = directory / FILE, observer
        self._written = -SECONDS

    def events(self, count: int) -> None:
        """So many events happened."""
        self._observer.events(count)

    def record(self, record: Record) -> None:
        """This was measured."""
        self._observer.record(record)
        if time.monotonic() - self._written >= SECONDS:
            self._written = time.monotonic()
            content = {
                "text": f"subopt {record.suboptimality:.1e}",
                "fraction": fraction(record, self._stop, self._gap),
                "suboptimality": record.suboptimality,
                "passes": record.passes,
            }
            write_json(self._path, content)

    def show(self, name: str, text: str) -> None:
        """One more line of the header."""
        self._observer.show(name, text)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        self._observer.note(text)
