"""What the loop and the session ask of an engine, wherever it lets events happen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from dtoken.algorithms.contract import Models, Vector
from dtoken.engine.loop.experiment import Experiment
from dtoken.engine.loop.parts import Part, PartFile
from dtoken.engine.loop.recorder import Measurement, Record
from dtoken.engine.loop.sampling import Integers, Sample
from dtoken.schedule.events import Events
from dtoken.schedule.samples import Samples
from dtoken.schedule.stream import Start


class Engine(Protocol):
    """Where events happen."""

    @property
    def leaving(self) -> bool:
        """Whether something that the engine uses is about to go, and waits for a cut."""

    def run(self, events: Events, start: Start, offset: int) -> None:
        """Let events happen, soon: they are number ``offset`` and following of the segment that begins at ``start``."""

    def settle(self) -> None:
        """Wait until all events have happened."""

    def start_seconds(self) -> float:
        """Seconds that the initial state took."""

    def margins(self) -> Vector | None:
        """The margins of all rows; None: the method keeps none."""

    def models(self, t: float) -> Models:
        """The estimates at time ``t``."""

    def measure(
        self, t: float, theta_star: Vector, sample: Sample | None = None, living: Integers | None = None
    ) -> Measurement:
        """Measure the estimates at time ``t``, of ``living`` tokens, the objective on a sample if there is one."""

    def save(self, folder: Path, cut: str) -> Part | Sequence[str]:
        """The state, to be written before anything happens; or names of files in ``folder`` that hosts wrote for it."""

    def load(self, parts: Sequence[PartFile]) -> None:
        """Go back to a state that was saved before."""

    def adopt(self, experiment: Experiment) -> None:
        """Go to the very start of an experiment that differs from this one in its constants only."""

    def samples(self) -> Samples:
        """What the nodes draw from."""

    def facts(self, records: Sequence[Record], begun: int) -> dict[str, Any]:
        """What the engine has to say of a run that it took up after ``begun`` events, for the summary."""
