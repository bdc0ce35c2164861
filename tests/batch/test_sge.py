"""The table of scenarios on a real Grid Engine."""

from tests.batch.scenarios import Scenarios, ann
from tests.batch.sge import GridEngine

__all__ = ["ann"]


class TestGridEngine(Scenarios):
    """Every scenario."""

    kind = GridEngine
