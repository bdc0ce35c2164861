"""A Hydra callback that holds runs of a sweep until a file exists, so that the sweep lasts long enough."""

import time
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

from dtoken.sweep.progress import ProgressFile

tell = ProgressFile.record


class Gate(Callback):
    """Lets runs whose ``seed`` is at least ``first`` wait when they have made so many passes."""

    def __init__(self, file: str, first: int, passes: float = 0.0) -> None:
        self._file, self._first, self._passes = Path(file), first, passes

    def on_job_start(self, config: Any, **_: Any) -> None:
        def record(progress: ProgressFile, measured: Any) -> None:
            tell(progress, measured)
            while config.seed >= self._first and measured.passes >= self._passes and not self._file.exists():
                time.sleep(0.1)

        ProgressFile.record = record  # type: ignore[method-assign]
