"""Runs in MLflow: ``+hydra.callbacks.mlflow._target_=dtoken.session.mlflow.MLflow`` (needs ``dtoken[mlflow]``)."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoken.config.settings import flat
from dtoken.engine.loop.recorder import Record
from dtoken.errors import InputError
from dtoken.session.tracking import Tracker, job_name

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from dtoken.session.result import Result

MEASURED = ("objective", "suboptimality", "distance", "consensus", "jumps", "messages", "gradients", "time", "wall")
LONGEST = 500  # letters of a value that every store of MLflow takes


class MLflow(Tracker):
    """Leaves each run in an experiment of MLflow: settings, what was measured by passes, status and costs.

    Parameters
    ----------
    uri
        Where MLflow keeps its runs: a folder, a database or a server; None: as ``MLFLOW_TRACKING_URI`` says. For a
        folder, MLflow wants ``MLFLOW_ALLOW_FILE_STORE=true``, which is set here: who names one means it.
    experiment
        The experiment in which the runs lie.
    """

    def __init__(self, uri: str | None = None, experiment: str = "dtoken") -> None:
        if find_spec("mlflow") is None:
            raise InputError("the tracker of MLflow needs mlflow-skinny; install it, or dtoken with its extra [mlflow]")
        self._uri, self._experiment = uri, experiment
        self._client: MlflowClient | None = None
        self._run = ""

    def begin(self, config: dict[str, Any], directory: Path, events: int) -> None:
        """Start a run with all settings as parameters."""
        if self._uri is not None and (self._uri.startswith("file:") or "://" not in self._uri):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = client = MlflowClient(self._uri)
        found = client.get_experiment_by_name(self._experiment)
        number = found.experiment_id if found else client.create_experiment(self._experiment)
        tags = {"directory": str(directory.absolute()), "resumed after events": str(events)}
        self._run = client.create_run(number, run_name=job_name() or directory.name, tags=tags).info.run_id
        params = [Param(key, str(value)[:LONGEST]) for key, value in flat(config).items()]
        client.log_batch(self._run, params=params)

    def record(self, record: Record) -> None:
        """Log what was measured; the step is the number of events."""
        from mlflow.entities import Metric

        assert self._client is not None
        now, values = round(1000 * record.wall), record.as_dict()
        metrics = [Metric(name, values[name], now, record.event) for name in MEASURED]
        self._client.log_batch(self._run, metrics=[*metrics, Metric("passes", record.passes, now, record.event)])

    def end(self, result: "Result | None") -> None:
        """Log what each accuracy cost, and how the run ended."""
        assert self._client is not None
        if result is None:
            self._client.set_terminated(self._run, "KILLED")
            return
        for accuracy, taken in result.summary["to_accuracy"].items():
            for name, cost in (taken["stays_below"] or {}).items():
                self._client.log_metric(self._run, f"{name} to {accuracy}", cost)
        self._client.set_tag(self._run, "stopped", str(result.summary["stopped"]))
        self._client.set_terminated(self._run, "FINISHED" if result.failure is None else "FAILED")
