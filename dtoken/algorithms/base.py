"""Hyper-parameters that several methods share, and what follows from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Facts, Foreseen, Vector, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.blocks import SINGLE_ROWS, Blocks
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.clock import Costs
from dtoken.schedule.permuted import Order
from dtoken.schedule.stream import Drawn, Law, Schedule, first_start
from dtoken.theory.bounds import allowed_deviation
from dtoken.theory.promise import PROVED, Promise

SMOOTHNESS = ("theory", "batch", "factor")
SAMPLING = ("uniform", "importance", "permuted")
BUCKET_ROWS = 32
P_COMM = ("balanced", "auto")
JUMPS = ("auto", "proved")
MOST_JUMPS = 10**6  # before a visit; all of them are drawn ahead
LEAST_MIXING = 1e-12  # what powers of transition matrices are computed to


class SingleRows:
    """A method whose samples are single rows."""

    name: ClassVar[str]
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        """A method that says nothing else is called like its class."""
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()

    @property
    def blocks(self) -> Blocks:
        """What a sample is."""
        return SINGLE_ROWS

    @property
    def phases(self) -> tuple[Callable[..., None], ...]:
        """Local steps are not divided."""
        return ()

    def foresee(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> Foreseen | None:
        """A visit may use all rows of its node."""
        return None

    def reach(self, rows: int) -> int:
        """All rows of a node."""
        return rows

    def start_gradients(self, facts: Facts) -> NDArray[np.int64]:
        """What the initial state takes is not counted."""
        return np.zeros_like(facts.rows)

    def begin(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> None:
        """The initial state does not depend on the rows."""

    def margins(self, c: Arrays, nodes: Arrays) -> Vector | None:
        """This method keeps no margins."""
        return None

    def notes(self, c: Arrays, facts: Facts) -> tuple[str, ...]:
        """Nothing."""
        return ()


NO_MARGINS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("start", "start_margin", "start_from"), "it keeps no margins, and its models begin at 0")
)
WHOLE_NODES: Mapping[str, str] = MappingProxyType(
    {**NO_MARGINS, "block_rows": "its steps need all rows of a node at once"}
)


@dataclass(frozen=True)
class InBlocks:
    """A method whose steps use all rows of a node, block by block where memory does not hold them: see ``phases``.

    Parameters
    ----------
    block_rows
        Rows that are read together where memory does not hold all of them; results do not depend on it.
    """

    block_rows: int = 64

    refuses: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the method that this is mixed into
        Blocks(self.block_rows)  # refuses numbers that make no sense


@dataclass(frozen=True)
class SmoothMethod(SingleRows):
    """A method whose step size depends on the smoothness of the nodes' losses.

    Parameters
    ----------
    smoothness
        What it is taken to be: ``theory``, the sum of a node's L_ij; ``batch``, the true smoothness of the node's loss;
        ``factor``, the paper's heuristic, ``factor`` times the sum.
    factor
        The heuristic factor; 0.02 in the paper, safe or not depending on the data.
    """

    smoothness: str = "batch"
    factor: float = 0.02

    def __post_init__(self) -> None:
        check_choice("smoothness", self.smoothness, SMOOTHNESS)
        if not 0 < self.factor <= 1:
            raise InputError(f"algorithm.factor={self.factor} must lie in (0, 1]")

    @property
    def heuristic(self) -> bool:
        """Whether step sizes are those of the heuristic factor, which no proof covers."""
        return self.smoothness == "factor"

    def batch_smoothness(self, facts: Facts) -> float:
        """L_b by the chosen rule."""
        return float(self.node_smoothness(facts).max())

    def node_smoothness(self, facts: Facts) -> Vector:
        """(n,) the smoothness of each node's loss by the chosen rule."""
        match self.smoothness:
            case "theory":
                return facts.sum_L
            case "batch":
                return facts.batch_L()
            case _:
                return self.factor * facts.sum_L

    def objective_smoothness(self, facts: Facts) -> float:
        """L_F, of the whole objective."""
        return float(self.node_smoothness(facts).sum()) + facts.n * facts.sigma

    def promise(self, c: Arrays, facts: Facts) -> Promise:
        """The rate among the constants, if there is one: what a method states is not checked."""
        rate = getattr(c, "rate", None)
        if rate is None:
            return Promise(None, "this method states no rate")
        return self.promised(rate, "stated by the method", getattr(c, "paper_rate", None))

    def promised(self, rate: float, basis: str, paper_rate: float | None = None) -> Promise:
        """A rate for steps that are as long as the theory says; others are not proved."""
        basis = "not proved: factor is a heuristic step size" if self.heuristic else basis
        return Promise(float(rate), basis, paper_rate)

    def bound(self, c: Arrays, facts: Facts, problem: FiniteSum, best: Vector) -> float | None:
        """Nothing is proved."""
        return None

    def notes(self, c: Arrays, facts: Facts) -> tuple[str, ...]:
        """Whether steps by the heuristic are longer than the true smoothness allows."""
        if self.smoothness != "factor":
            return ()
        taken, true = self.batch_smoothness(facts), float(facts.batch_L().max())
        if taken >= true:
            return ()
        needed = true / float(facts.sum_L.max())
        return (
            f"algorithm.factor={self.factor} takes the nodes' losses to have a smoothness of {taken:.3g}, and it is up "
            f"to {true:.3g}: the run may diverge; use algorithm.smoothness=batch, or a factor of at least {needed:.2g}",
        )


@dataclass(frozen=True)
class SamplingMethod(SmoothMethod):
    """A method whose nodes use one of their samples at a local step.

    Parameters
    ----------
    smoothness, factor
        As for all methods.
    sampling
        ``importance``: samples with a larger L_ij are drawn more often; ``uniform``: all alike; ``permuted``: every
        node goes through its samples in a fresh random order each epoch.
    bucket_rows
        Of ``permuted``: so many consecutive rows are a bucket; buckets come in random order, four at a time, in turns.
        At most a 16th of a node.
    """

    sampling: str = "importance"
    bucket_rows: int = BUCKET_ROWS

    draws_samples = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("sampling", self.sampling, SAMPLING)
        check_buckets(self.bucket_rows, self.sampling)

    @property
    def permuted(self) -> bool:
        """Whether nodes go through their samples in order."""
        return self.sampling == "permuted"

    @property
    def bucket(self) -> int:
        """How many samples that follow each other in the data are a bucket."""
        return max(1, self.bucket_rows // self.blocks.rows) if self.permuted else 1

    def order(self, facts: Facts) -> Order | None:
        """In which order, if they do."""
        return Order(facts.samples, self.bucket) if self.permuted else None

    def promised(self, rate: float, basis: str, paper_rate: float | None = None) -> Promise:
        """Theorems have independent draws."""
        found = super().promised(rate, basis, paper_rate)
        if self.permuted and found.basis.startswith(PROVED):
            return found._replace(basis="observed: the rate is proved for independent draws, not for permuted samples")
        return found

    @property
    def importance(self) -> bool:
        """Whether some samples are drawn more often than others."""
        return self.sampling == "importance"

    def costs(self, facts: Facts) -> Costs:
        """One gradient a local step."""
        return Costs(np.ones(facts.n, np.int64), np.zeros(facts.n, np.int64))


def check_buckets(bucket_rows: int, sampling: str) -> None:
    """Refuse buckets that make no sense."""
    if bucket_rows < 1:
        raise InputError(f"algorithm.bucket_rows={bucket_rows}, but a bucket has at least one row")
    if bucket_rows != BUCKET_ROWS and sampling != "permuted":
        raise InputError(
            f"algorithm.bucket_rows={bucket_rows} belongs to algorithm.sampling=permuted, not to {sampling}"
        )


class _Walks(Protocol):
    tokens: int

    def law(self, c: Arrays, facts: Facts) -> Law: ...


class Walking(SingleRows):
    """A method whose tokens walk over the graph, and whose events are drawn."""

    reports_nodes = False

    def token_start(self: _Walks, n: int) -> NDArray[np.int64]:
        """Tokens evenly spread over the nodes."""
        return first_start(n, self.tokens).positions

    def schedule(self: _Walks, c: Arrays, facts: Facts, seed: int) -> Schedule:
        """Drawn from the seed."""
        return Drawn(seed, self.law(c, facts), facts.walk, facts.failures)


@compiled
def never(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """A local step that does not happen: nodes only compute when a token is there."""


class _HasTokens(Protocol):
    @property
    def tokens(self) -> int: ...


class Visiting(Walking):
    """A method whose nodes compute only where a token is, in ``visit``, with any of their rows."""

    draws_samples = False
    local = staticmethod(never)
    meet = None

    def law(self: _HasTokens, c: Arrays, facts: Facts) -> Law:
        """Tokens walk and never wait."""
        return Law(self.tokens, 1.0, 0.0, np.full(facts.n, 1 / facts.n))

    def weights(self, c: Arrays, L: Vector) -> Vector | None:
        """The schedule draws no samples."""
        return None


class OneToken(Visiting):
    """A method with one token: only the node where it is computes."""

    tokens: ClassVar[int] = 1


@dataclass(frozen=True)
class VisitMethod(OneToken, SmoothMethod):
    """A method with one token: only the node where it is computes, with all its data, in ``visit``.

    Parameters
    ----------
    smoothness, factor
        As for all methods.
    """

    refuses = WHOLE_NODES

    def costs(self, facts: Facts) -> Costs:
        """A full gradient a visit."""
        return Costs(np.zeros(facts.n, np.int64), facts.rows)


@dataclass(frozen=True)
class TokenMethod(Walking, SmoothMethod):
    """Hyper-parameters that all token methods of the paper have.

    Parameters
    ----------
    smoothness, factor
        What kappa is made of: ``theory``, the sum of a node's L_ij; ``batch``, the true smoothness of the node's loss;
        ``factor``, the paper's heuristic, ``factor`` (0.02 in the paper, safe or not depending on the data) times the
        sum.
    tokens
        Number of tokens, K.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed; ``proved``: until it has mixed
        so well that the theorem on general graphs holds.
    mixing
        How close ``auto`` brings the walk to its stationary law, relative to the smallest probability.
    p_comm
        Probability that a step is a visit: ``balanced``, the theory's choice; a smaller number for more local steps
        between visits; ``auto``: by measured times, as long as the theory promises no longer run.
    """

    tokens: int = 1
    jumps: int | str = 1
    mixing: float = 0.25
    p_comm: float | str = "balanced"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise InputError(f"algorithm.tokens={self.tokens}, but a token method needs at least one")
        if not 0 < self.mixing < 1:
            raise InputError(f"algorithm.mixing={self.mixing} must lie in (0, 1)")
        if self.jumps not in JUMPS and not (isinstance(self.jumps, int) and 1 <= self.jumps <= MOST_JUMPS):
            raise InputError(
                f"algorithm.jumps={self.jumps} is neither {' nor '.join(JUMPS)} nor an integer from 1 to {MOST_JUMPS}"
            )
        if self.p_comm not in P_COMM and (isinstance(self.p_comm, str) or not 0 < self.p_comm < 1):
            raise InputError(f"algorithm.p_comm={self.p_comm} is neither balanced nor auto nor between 0 and 1")

    @property
    def given_p_comm(self) -> float | None:
        """p_comm if it is a number; ``auto`` is balanced until something was measured."""
        return None if isinstance(self.p_comm, str) else self.p_comm

    def covered(self, facts: Facts) -> bool:
        """Whether theorems cover the step sizes, and the draws and visits: all independent, or as good as that."""
        known = getattr(self, "start", "zero") != "warm"  # how far the end of another run is from the optimum is not
        independent = getattr(self, "sampling", "uniform") != "permuted"
        return known and independent and not self.heuristic and (facts.walk.iid or self.jumps == "proved")

    def mixed_promise(self, rate: float, facts: Facts, paper_rate: float | None = None) -> Promise | None:
        """What holds for visits that are independent, or nearly so; None: they are not."""
        if facts.walk.iid:
            return self.promised(rate, PROVED, paper_rate)
        if self.jumps == "proved":
            half = f"{PROVED}, with half the rate, because visits are only nearly independent"
            return self.promised(rate / 2, half, paper_rate)
        if self.jumps == "auto":
            nearly = "observed: visits are nearly independent, not as nearly as with jumps=proved"
            return self.promised(rate, nearly, paper_rate)
        return None

    def refuse_proved_jumps(self, facts: Facts) -> None:
        """For a method that no theorem covers unless visits are independent."""
        if self.jumps == "proved" and not facts.walk.iid:
            raise InputError(
                f"algorithm.jumps=proved, but no theorem covers {self.name} on {facts.walk.name}; "
                "use algorithm.jumps=auto"
            )

    def visit_law(self, facts: Facts) -> Vector:
        """The law of the visits: of ``proved`` jumps, which follow from it, that of a walk that has mixed."""
        return facts.walk.stationary if self.jumps == "proved" else facts.walk.visit_law(self.fixed_jumps(facts))

    def jumps_per_visit(self, c: Arrays, facts: Facts) -> int:
        """N, how often a token jumps before it visits."""
        if self.jumps != "proved" or facts.walk.iid:
            return self.fixed_jumps(facts)
        eps = allowed_deviation(c.rate) * float(facts.walk.stationary.min())
        if eps < LEAST_MIXING:
            raise InputError(
                f"algorithm.jumps=proved needs a walk that comes within {eps:.1g} of its law, which is below rounding; "
                f"use algorithm.jumps=auto"
            )
        return facts.walk.mixing(eps)

    def fixed_jumps(self, facts: Facts) -> int:
        """N where it does not depend on step sizes."""
        if isinstance(self.jumps, int):
            return self.jumps
        return 1 if facts.walk.iid else self.jumps_until_mixed(facts)

    def jumps_until_mixed(self, facts: Facts) -> int:
        """N of ``auto``: after so many jumps visits are nearly independent."""
        return facts.walk.mixing(self.mixing * float(facts.walk.stationary.min()))
