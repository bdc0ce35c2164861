"""How far a run of a sweep is, in a small file in its directory: for the launcher's screen and for other machines."""

import time
from pathlib import Path

from dtoken.engine.loop.recorder import Record
from dtoken.session.files import write_json
from dtoken.session.prepare import Prepared
from dtoken.session.viewer import Telling, fraction
from hydra_dask.manifest import PROGRESS
from hydra_dask.pruning import report

SECONDS = 1.0  # from one version to the next


class ProgressFile(Telling):
    """Writes the file, and tells the rest to the log of the job."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROGRESS
        self._written, self._records = -SECONDS, 0

    def prepared(self, prepared: Prepared) -> None:
        """Describe the run."""
        self._stop, self._gap = prepared.settings.stop, prepared.gap
        super().prepared(prepared)

    def record(self, record: Record) -> None:
        """Write the file, if the last one is old enough; let a sweeper that prunes know in any case."""
        self._records += 1
        report(self._records, record.suboptimality)
        if time.monotonic() - self._written >= SECONDS:
            self._written = time.monotonic()
            content = {
                "text": f"subopt {record.suboptimality:.1e}",
                "fraction": fraction(record, self._stop, self._gap),
                "suboptimality": record.suboptimality,
                "passes": record.passes,
            }
            write_json(self._path, content, durable=False)

    def remove(self) -> None:
        """The run is over."""
        self._path.unlink(missing_ok=True)
