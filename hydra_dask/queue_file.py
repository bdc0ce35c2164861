"""The jobs of the batch system on which a sweep runs, in a file for other machines to look at."""

import json
from pathlib import Path
from typing import Any, Self

from hydra_dask.manifest import RECORDS, write_json

NAME = "queue.json"


class QueueFile:
    """Keeps the file up to date while the driver is at work, and removes it in the end."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / RECORDS / NAME
        self._written: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def update(self, jobs: list[dict[str, Any]]) -> None:
        """Write the file if anything has changed."""
        if jobs != self._written:
            write_json(self._path, jobs, durable=False)
            self._written = jobs


def read_queue(directory: Path) -> list[dict[str, Any]]:
    """What the driver of a sweep, which lives, says of its jobs in the queue."""
    try:
        found: list[dict[str, Any]] = json.loads((directory / RECORDS / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found
