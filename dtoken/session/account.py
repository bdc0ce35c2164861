"""The account of a run: its summary while it goes on, all its files when it is over."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dtoken.config.values import plain
from dtoken.engine.loop.interruption import Cut
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import Outcome
from dtoken.session.files import (
    DIVERGED,
    DONE,
    FAILED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    TRAJECTORY,
    together,
    write_result,
    write_summary,
    write_trajectory,
)
from dtoken.session.prepare import Prepared
from dtoken.session.privacy import summarised
from dtoken.session.provenance import now, provenance
from dtoken.session.result import Result
from dtoken.session.summary import constants, graph_facts, measured_rate, predictions, time_facts, to_accuracy
from dtoken.session.tracking import Tracker


class Account:
    """Writes the summary of a run while it goes on, and in the end all its files, if there is a directory for them."""

    engine: dict[str, Any] | None = None  # what the engine has to say at the end
    begun: int = 0  # events that had happened when this process took the run up
    records: Sequence[Record] = ()  # measured so far
    trackers: Sequence[Tracker] = ()  # that were told of its beginning

    def __init__(self, prepared: Prepared, directory: Path | None) -> None:
        self._directory, self._started = directory, now()
        self._load = os.getloadavg()[0]
        self._files: dict[str, str] = {}  # digests of what the summary vouches for
        self.adopt(prepared)

    def adopt(self, prepared: Prepared) -> None:
        """What is to be run is this."""
        self._prepared, settings, meta = prepared, prepared.settings, prepared.store.meta
        self._head: dict[str, Any] = {
            "algorithm": settings.method.name,
            "constants": constants(prepared.experiment),
            "p_comm": prepared.choice and asdict(prepared.choice),
            "start_from": prepared.start_digest,
            "data": {
                "key": prepared.store.path.name,
                "path": str(prepared.store.path),
                "digest": prepared.store.digest,
                "nodes": meta.n,
                "features": meta.d,
                "rows": meta.rows,
                "nonzeros": meta.nonzeros,
                "optimum": prepared.experiment.optimum.objective,
            },
            "graph": plain(graph_facts(prepared.experiment)),
            "time": time_facts(prepared.experiment),
            "conditions": {
                "engine": settings.engine.kind,
                "threads": prepared.threads if settings.engine.here else None,
                "processors": os.cpu_count(),
                "load": self._load,
            },
            "provenance": provenance() | _inputs(prepared) | {"started": self._started},
            "config": settings.as_config(),
        }

    def write(
        self,
        status: str,
        records: Sequence[Record] = (),
        failure: str | None = None,
        stopped: str | None = None,
        final: Outcome | Cut | None = None,
    ) -> dict[str, Any]:
        """Write what is known now, with models if there are ``final`` ones, and return what the summary says."""
        theory, settings, experiment = self._prepared.theory, self._prepared.settings, self._prepared.experiment
        content = {
            "status": status,
            "failure": failure,
            "stopped": stopped,
            **self._head,
            "predicted_rate": theory.rate,
            "paper_rate": theory.paper_rate,
            "rate_is_proved": theory.proved,
            "predicted": predictions(theory, settings.accuracies, self._prepared.gap),
            "measured_rate": measured_rate(experiment, theory, records),
            "to_accuracy": to_accuracy(records, settings.accuracies),
            "end": records[-1].as_dict() if records else None,
            "engine": self._engine_facts(records),
            "privacy": None if status == RUNNING or not records else summarised(experiment, records[-1].event),
        }
        content["provenance"] = {**self._head["provenance"], "ended": None if status == RUNNING else now()}
        if self._directory is not None:
            with together(self._directory) as files:
                if final is not None:
                    self._files[RESULT] = write_result(files, self._directory, final.models, final.margins)
                if records:
                    self._files[TRAJECTORY] = write_trajectory(files, self._directory, records)
                content["files"] = self._files
                write_summary(files, self._directory, content)  # the last one: what it says of the others is true
        return content

    def _engine_facts(self, records: Sequence[Record]) -> dict[str, Any] | None:
        if self.engine is None or not records:
            return None
        last = records[-1]
        speed = last.event / last.wall if last.wall > 0 else None
        return {"kind": self._prepared.settings.engine.kind, "events_per_second": speed, **self.engine}

    def interrupted(self, cut: Cut | None) -> None:
        """Write what was measured so far, and the models, if the run was stopped at a ``cut``."""
        self.write(INTERRUPTED, self.records, final=cut)

    def finish(self, outcome: Outcome) -> Result:
        """Write everything; the result."""
        status = DONE
        if outcome.failure:
            status = DIVERGED if outcome.diverged else FAILED
        content = self.write(status, outcome.records, outcome.failure, outcome.stopped, outcome)
        return Result.of(outcome.records, content, outcome.models, self._directory)


def _inputs(prepared: Prepared) -> dict[str, Any]:
    """What goes in: the data by their key, and all seeds."""
    settings = prepared.settings
    seeds = {
        "schedule": settings.seed,
        "data": getattr(settings.source, "seed", None),
        "test": settings.test_seed if isinstance(settings.test, float) else None,
        "partition": settings.partition.seed,
        "graph": settings.graph.params.get("seed"),
        "time": settings.time.seed if settings.time.unequal else None,
    }
    seeds = {name: seed for name, seed in seeds.items() if seed is not None}
    return {"seed": settings.seed, "seeds": seeds, "data": prepared.store.path.name}
