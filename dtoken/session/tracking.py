"""Trackers: Hydra callbacks that are told of every record and of the result of a run, in the process that runs it.

``hydra.callbacks`` names them, as many as you like: ``+hydra.callbacks.a._target_=dtoken.session.tracking.JsonLines``
writes a line of JSON for each thing that happens.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback

from dtoken.engine.loop.recorder import Record

if TYPE_CHECKING:
    from dtoken.session.result import Result

TRACKERS: list["Tracker"] = []  # of the job of this process


class Tracker(Callback):
    """Is told what a run does; to be derived from."""

    def on_job_start(self, *_: Any, **__: Any) -> None:
        """A job starts: listen."""
        if self not in TRACKERS:
            TRACKERS.append(self)

    def on_job_end(self, *_: Any, **__: Any) -> None:
        """The job is over: do not listen any more."""
        if self in TRACKERS:
            TRACKERS.remove(self)

    def begin(self, config: dict[str, Any], directory: Path, events: int) -> None:
        """A run begins, or goes on after so many events; ``config`` has all its settings."""

    def record(self, record: Record) -> None:
        """This was measured."""

    def end(self, result: "Result | None") -> None:
        """The run has ended with this result; None: it was interrupted, or failed."""


class JsonLines(Tracker):
    """Writes a line of JSON when a run begins, for each record, and when it ends.

    Parameters
    ----------
    path
        The file; None: ``stream.jsonl`` in the directory of the run. Runs that share one append to it.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._file, self._run = Path(), ""

    def begin(self, config: dict[str, Any], directory: Path, events: int) -> None:
        """Write the settings."""
        self._run = str(directory)
        self._file = directory / "stream.jsonl" if self._path is None else Path(self._path)
        self._write({"what": "begin", "events": events, "config": config})

    def record(self, record: Record) -> None:
        """Write what was measured."""
        self._write({"what": "record", **record.as_dict()})

    def end(self, result: "Result | None") -> None:
        """Write how it ended."""
        summary = result.summary if result is not None else {}
        keys = ("status", "failure", "stopped", "to_accuracy")
        self._write({"what": "end", **{key: summary.get(key) for key in keys}})

    def _write(self, content: dict[str, Any]) -> None:
        with open(self._file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"run": self._run} | content) + "\n")


def job_name() -> str:
    """What a tracker may call the run: the words that tell it from others."""
    return str(HydraConfig.get().job.override_dirname) if HydraConfig.initialized() else ""
