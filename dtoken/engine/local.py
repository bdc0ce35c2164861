"""The local engine: all nodes in this process, in threads that hand tokens over in shared memory."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dtoken.algorithms.base import never
from dtoken.algorithms.contract import Arrays, Method, Models, Origin, Vector
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.parts import Part, PartFile, read_part
from dtoken.engine.loop.recorder import Measurement, Record, measure_models, of_tokens
from dtoken.engine.loop.sampling import Integers, Sample
from dtoken.engine.rows.memory import Room
from dtoken.engine.rows.node_rows import NodeRows
from dtoken.engine.runner import Runner, whole_site
from dtoken.problem.losses import Loss
from dtoken.problem.shards import Shards
from dtoken.schedule.events import Events
from dtoken.schedule.stream import Start


class LocalEngine(Runner):
    """Hosts all nodes of ``shards`` in this process and runs events on them with ``threads`` threads.

    They begin where the method says, or at the ``origin`` that an earlier run left.
    """

    leaving = False  # there is nobody who could

    def __init__(
        self,
        method: Method,
        c: Arrays,
        shards: Shards,
        loss: Loss,
        threads: int = 1,
        room: Room | None = None,
        origin: Origin | None = None,
    ) -> None:
        rows = NodeRows(shards, range(shards.n), loss, method, room)
        site = whole_site(rows.work, threads, method.token_start(shards.n), method.local is not never)
        super().__init__(method, c, rows, site, origin=origin)

    def run(self, events: Events, start: Start | None = None, offset: int = 0) -> None:
        """Let ``events`` happen, soon; where they stand in the schedule does not matter here."""
        self.happen(events)

    def settle(self) -> None:
        """Wait until all events have happened."""
        self.finish()

    def adopt(self, experiment: Experiment) -> None:
        """Go to the very start of an experiment that differs from this one in its constants only."""
        self.begin(experiment.constants)

    def facts(self, records: Sequence[Record], begun: int) -> dict[str, Any]:
        """In how many threads events happened."""
        return {"threads": self.threads}

    def models(self, t: float) -> Models:
        """The estimates at time ``t``, as copies."""
        found = super().models(t)
        return found._replace(nodes=found.nodes.copy(), tokens=found.tokens.copy())

    def measure(
        self, t: float, theta_star: Vector, sample: Sample | None = None, living: Integers | None = None
    ) -> Measurement:
        """Measure the estimates at time ``t``, of ``living`` tokens, the objective on a sample if there is one."""
        return measure_models(self, of_tokens(super().models(t), living), theta_star, sample)

    def save(self, folder: Path, cut: str) -> Part:
        """The state itself, to be written before anything happens."""
        return self.part(copy=False)

    def load(self, parts: Sequence[PartFile]) -> None:
        """Go back to a state that was saved before, by whatever engine."""
        self.restore(read_part(part) for part in parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
