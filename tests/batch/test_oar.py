"""The table of scenarios on a real OAR."""

from tests.batch.oar import Oar
from tests.batch.scenarios import Scenarios, ann

__all__ = ["ann"]


class TestOar(Scenarios):
    """Every scenario."""

    kind = Oar
