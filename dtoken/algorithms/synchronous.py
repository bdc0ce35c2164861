"""What methods that exchange messages in rounds share.

A round: every node writes a message (token i is that of node i), messages are delivered, every node takes a local step
with all its data. Each is a list of events for the same executor that runs token methods.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import WHOLE_NODES, SmoothMethod
from dtoken.algorithms.contract import Arrays, Facts, Vector
from dtoken.errors import InputError
from dtoken.graph.topology import Topology
from dtoken.schedule.clock import Costs
from dtoken.schedule.events import Events, concatenate
from dtoken.schedule.rounds import Rounds, exchange, local_steps
from dtoken.schedule.stream import Law, Schedule
from dtoken.theory.gossip import network


class Averaging(NamedTuple):
    """Constants of methods that average with (I + W) / 2, W = I - Lap / lambda_max."""

    n: int
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    kappa: float  # 1 + L_b / sigma
    step: float  # s
    gap: float  # gamma, of W
    own: Vector  # (n,) diagonal of (I + W) / 2
    other: float  # its other entries, for neighbours


class Messages(NamedTuple):
    """State of the tokens: what the nodes send."""

    message: Vector  # (n, d)


class Messaging:
    """A method whose tokens are messages, and whose events come in rounds."""

    reports_nodes = True
    meet = None

    def token_start(self, n: int) -> NDArray[np.int64]:
        """Every node has its own message."""
        return np.arange(n, dtype=np.int64)

    def law(self, c: Arrays, facts: Facts) -> Law:
        """Only for its number of tokens: the events come in rounds."""
        return Law(len(self.token_start(facts.n)), 0.0, 0.0, np.full(facts.n, 1 / facts.n))


@dataclass(frozen=True)
class Messenger(Messaging, SmoothMethod):
    """A method with rounds of messages, whose step size depends on the smoothness of the nodes' losses."""


@dataclass(frozen=True)
class RoundMethod(Messenger):
    """A method with rounds of messages and full gradients.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    step
        Step size, in units of 1 / (L_b + sigma).
    """

    step: float = 1.0

    draws_samples = False
    refuses = WHOLE_NODES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step < np.inf:
            raise InputError(f"algorithm.step={self.step} must be positive; 1 stands for 1 / (L_b + sigma)")

    def costs(self, facts: Facts) -> Costs:
        """A full gradient a local step."""
        return Costs(facts.rows, np.zeros(facts.n, np.int64))

    def weights(self, c: Arrays, L: Vector) -> Vector | None:
        """A local step uses all samples: none is drawn."""
        return None


@dataclass(frozen=True)
class AveragingMethod(RoundMethod):
    """A method whose rounds go along the edges of a connected undirected graph."""

    def constants(self, facts: Facts) -> Averaging:
        """Step size and weights."""
        net = network(facts.walk.topology, self.name)
        L_b = self.batch_smoothness(facts)
        return Averaging(
            n=facts.n,
            sigma=facts.sigma,
            L_b=L_b,
            kappa=1 + L_b / facts.sigma,
            step=self.step / (L_b + facts.sigma),
            gap=net.gap,
            own=1 - net.degree / (2 * net.lambda_max),
            other=1 / (2 * net.lambda_max),
        )

    def schedule(self, c: Averaging, facts: Facts, seed: int) -> Schedule:
        """Messages to all neighbours, then a local step everywhere."""
        return Rounds(neighbour_round(facts.walk.topology, self.name))


def neighbour_round(topology: Topology, method: str) -> Events:
    """Messages to all neighbours, then a local step everywhere."""
    return concatenate([exchange(network(topology, method).neighbours), local_steps(topology.n)])
