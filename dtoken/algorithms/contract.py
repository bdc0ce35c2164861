"""What a method is: hyper-parameters, constants, initial state, and compiled steps.

A method is a frozen dataclass. Its fields are its hyper-parameters and at the same time its Hydra schema. It knows
nothing of threads, workers or files: an engine decides when and where its steps run.

The compiled steps of a method, with the arguments that they all share:

- ``local(c, rows, nodes, i, r, t)``: node i uses its sample that begins in row r (r = -1: all rows)
- ``visit(c, rows, nodes, tokens, i, k, r, t)``: token k mixes with node i (and uses row r >= 0)
- ``meet(c, tokens, k, l, t)``: tokens k and l mix

In methods with rounds of messages, token k is the message of node k: ``visit`` with r = LOADING writes it, every other
``visit`` brings it to a node.

``c`` are the method's constants: a NamedTuple of numbers and of arrays with one number per node. ``rows`` are the data
of the hosted nodes (``HostedRows``): row r is ``data[start[r]:stop[r]]``, and rows may lie in any order. ``nodes`` and
``tokens`` are the states, NamedTuples of arrays whose first axis counts hosted nodes, rows of hosted nodes, or tokens;
``t`` is the event's time. Steps change the states in place.

Steps that need chance make it from the event: ``event_key(c.seed, t)`` is a key that no other event has, and the same
wherever the event happens; ``uniform``, ``normal``, ``below`` (`dtoken.schedule.random`) and orders of rows
(`dtoken.schedule.permuted`) are functions of keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError
from dtoken.graph.walks import Walk
from dtoken.problem.blocks import Blocks
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.clock import Costs
from dtoken.schedule.failures import NO_FAILURES, Failures
from dtoken.schedule.stream import Law, Schedule
from dtoken.theory.privacy import NO_PRIVACY, Privacy
from dtoken.theory.promise import Promise

Vector = NDArray[np.float64]
Foreseen = Callable[[int, float], NDArray[np.int64]]  # rows of hosted node i that its next visit, at time t, uses
Arrays = Any  # a NamedTuple of arrays and numbers; each method has its own


@dataclass(frozen=True)
class Facts:
    """What a method may know of problem and graph before it starts.

    Parameters
    ----------
    sigma
        Regulariser of each node.
    curvature
        c, the bound of the loss: phi'' <= c.
    rows
        (n,) m_i, the rows of each node.
    samples
        (n,) samples of each node, rows or blocks of rows, that are not empty.
    sum_L
        (n,) sum_j L_ij.
    largest_L
        (n,) max_j L_ij.
    batch_L
        Returns the smoothness of the loss of each node, (n,); costs passes over the data.
    over_samples
        Returns the sum, (n,), over each node's samples of what a function makes, element by element, of their L_ij;
        those that are 0 are left out. Costs a pass over the data.
    walk
        The walk of the tokens over the graph.
    seed
        Of the run, for steps that need chance (`dtoken.schedule.random`): such a method has it among its constants, as
        ``seed``, an ``np.uint64``.
    privacy
        How gradients are to be cut and made noisy, for methods with ``private = True``; others never see any of it.
    failures
        How tokens are lost and forked, which concerns the schedule of methods with ``loses_tokens = True``.
    """

    sigma: float
    curvature: float
    rows: NDArray[np.int64]
    samples: NDArray[np.int64]
    sum_L: Vector
    largest_L: Vector
    batch_L: Callable[[], Vector]
    over_samples: Callable[[Callable[[Vector], Vector]], Vector]
    walk: Walk
    seed: int = 0
    privacy: Privacy = NO_PRIVACY
    failures: Failures = NO_FAILURES

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.rows)

    @property
    def max_L(self) -> float:
        """max_ij L_ij."""
        return float(self.largest_L.max())


class Models(NamedTuple):
    """What a state says about theta: one estimate per hosted node and per token.

    Attributes
    ----------
    nodes
        (hosted, d).
    tokens
        (K, d), those whose gap is reported, so nodes again where tokens are only messages.
    failure
        Why the method cannot go on, in a sentence; None: it can.
    """

    nodes: Vector
    tokens: Vector
    failure: str | None = None


class Origin(NamedTuple):
    """Where a run begins that goes on from an earlier one."""

    nodes: Vector  # (hosted, d) models
    tokens: Vector  # (K, d) models
    margins: Vector  # (rows,) of the hosted nodes


@runtime_checkable
class Method(Protocol):
    """A method: what an engine asks of it.

    Attributes
    ----------
    name
        What the method is called in summaries, tables and figures.
    draws_samples
        Whether a local step uses one sample; False: all rows of its node.
    refuses
        Keys of other methods that cannot be keys of this one, and why.
    reports_nodes
        Whether tokens are only messages, so that the gap is that of the nodes' models.
    """

    name: ClassVar[str]
    draws_samples: ClassVar[bool]
    refuses: ClassVar[Mapping[str, str]]
    reports_nodes: ClassVar[bool]

    @property
    def phases(self) -> tuple[Callable[..., None], ...]:
        """A local step that uses all rows of its node, as compiled passes over them; empty: it cannot be divided.

        Each is ``phase(c, rows, nodes, i, first, stop, scratch)`` with the rows from ``first`` to before ``stop`` of
        node i. ``local`` calls each once with all rows of the node; where memory does not hold them, they are called
        with consecutive parts, each phase after the one before. ``scratch`` are d numbers that last for one step.
        """

    @property
    def blocks(self) -> Blocks:
        """What a sample is."""

    @property
    def local(self) -> Callable[..., None]:
        """The compiled local step."""

    @property
    def visit(self) -> Callable[..., None]:
        """The compiled visit."""

    @property
    def meet(self) -> Callable[..., None] | None:
        """The compiled meeting of two tokens; None: they do not meet."""

    def token_start(self, n: int) -> NDArray[np.int64]:
        """First node of each token, on a graph of ``n`` nodes."""

    def constants(self, facts: Facts) -> Arrays:
        """The constants, from facts; InputError where the method cannot do what is asked."""

    def law(self, c: Arrays, facts: Facts) -> Law:
        """The law of the events."""

    def schedule(self, c: Arrays, facts: Facts, seed: int) -> Schedule:
        """The events, by the law or in rounds."""

    def promise(self, c: Arrays, facts: Facts) -> Promise:
        """The rate of the theory for what is run, and whether it is proved."""

    def bound(self, c: Arrays, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """C, if E[F - F*] <= C (1 - rate)^t is proved for what is run; ``best``: the optimum. May take a pass."""

    def notes(self, c: Arrays, facts: Facts) -> tuple[str, ...]:
        """What a user should know before the run starts, in sentences."""

    def costs(self, facts: Facts) -> Costs:
        """Gradients of single samples that each step takes."""

    def weights(self, c: Arrays, L: Vector) -> Vector | None:
        """Sampling weights of samples with smoothnesses ``L``, of all nodes at once, one by one; None: uniform."""

    def states(self, c: Arrays, rows: HostedRows) -> tuple[Arrays, Arrays]:
        """The states of the hosted nodes and of the tokens before any row was looked at: `begin` does that."""

    def begin(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> None:
        """Let the nodes' initial state take in the rows in [first[i], first[i + 1]) of each node i.

        Called once with all rows, or, where they do not fit into memory, many times with consecutive parts of one or
        several nodes; methods that neither draw samples nor have ``phases`` nor ``foresee`` always get whole nodes.
        """

    def foresee(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> Foreseen | None:
        """Which rows the visits from here on use, of a method whose nodes compute at visits only; None: all of a node.

        So no others have to be in memory. The states are not touched; they may change before the answers are used.
        """

    def reach(self, rows: int) -> int:
        """At most so many of a node's rows does a visit use, with those that are read together with them."""

    def start_gradients(self, facts: Facts) -> NDArray[np.int64]:
        """(n,) gradients of single samples that the initial state of each node takes and that are to be counted."""

    def models(self, c: Arrays, nodes: Arrays, tokens: Arrays, t: float) -> Models:
        """The estimates at time ``t``; the states are not touched."""

    def margins(self, c: Arrays, nodes: Arrays) -> Vector | None:
        """(rows,) the margins z_ij of the hosted nodes, not a copy; None: the method keeps none."""


def check_choice(key: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an InputError unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise InputError(f"algorithm.{key}={value} is not known; use one of {', '.join(allowed)}")


def require_rows(facts: Facts, method: str) -> None:
    """Refuse nodes without a sample, for a method that draws one at every step."""
    if not facts.samples.all():
        raise InputError(
            f"node {int(np.argmin(facts.samples))} has only empty rows, and {method} draws one at every step"
        )
