"""A Hydra callback that holds runs of a sweep until a file exists, so that the sweep lasts long enough."""

import time
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

from dtoken.sweep.progress import ProgressFile
from hydra_dask.stopping import asked_to_stop

tell = ProgressFile.record


class Gate(Callback):
    """Lets runs whose ``seed`` is at least ``first`` wait when they have made so many passes.

    With ``lets_go`` those that are asked to stop go on, and do.
    """

    def __init__(self, file: str, first: int, passes: float = 0.0, lets_go: bool = False) -> None:
        self._file, self._first, self._passes, self._lets_go = Path(file), first, passes, lets_go

    def on_job_start(self, config: Any, **_: Any) -> None:
        def record(progress: ProgressFile, measured: Any) -> None:
            tell(progress, measured)
            while config.seed >= self._first and measured.passes >= self._passes and not self._opened():
                time.sleep(0.1)

        ProgressFile.record = record  # type: ignore[method-assign]

    def _opened(self) -> bool:
        return self._file.exists() or (self._lets_go and asked_to_stop())
