"""A Hydra callback that holds back the last jobs of a sweep until a file exists, so that a sweep lasts long enough."""

import time
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback


class Gate(Callback):
    """Lets jobs wait whose ``seed`` is at least ``first``."""

    def __init__(self, file: str, first: int) -> None:
        self._file, self._first = Path(file), first

    def on_job_start(self, config: Any, **_: Any) -> None:
        while config.seed >= self._first and not self._file.exists():
            time.sleep(0.1)
