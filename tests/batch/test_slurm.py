"""The table of scenarios on a real SLURM."""

from tests.batch.scenarios import Scenarios, ann
from tests.batch.slurm import Slurm

__all__ = ["ann"]


class TestSlurm(Scenarios):
    """Every scenario."""

    kind = Slurm
