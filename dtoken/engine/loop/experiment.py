"""Everything about a run that is decided before its first event: problem, method, graph, schedule, optimum."""

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.checks import check_fit
from dtoken.algorithms.contract import Arrays, Facts, Method, Origin
from dtoken.data.ranges import range_sums
from dtoken.engine.events.draws import drawn_samples
from dtoken.errors import InputError
from dtoken.graph.walks import Walk
from dtoken.problem.blocks import SINGLE_ROWS, Blocks, block_norms
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.held_out import HeldOut
from dtoken.problem.optimum import ROUGH, Optimum, optimum
from dtoken.problem.smoothness import batch_smoothness, max_smoothness, row_facts, sum_over_rows, sum_smoothness
from dtoken.schedule.clock import Clock, Costs, TimeModel, start_clock, times
from dtoken.schedule.failures import NO_FAILURES, Failures, told
from dtoken.schedule.fate import first_state, living
from dtoken.schedule.links import check_links, unequal_times
from dtoken.schedule.stream import Drawn, Law, Schedule, Start, start_at
from dtoken.schedule.timed import Timed
from dtoken.theory.privacy import NO_PRIVACY, Privacy

WORST_CONDITION = 1e60  # sum of a node's L_ij over sigma


class Replay(Schedule, Protocol):
    """A schedule that was recorded before."""

    @property
    def token_start(self) -> NDArray[np.int64]:
        """The tokens' first nodes."""


@dataclass(frozen=True)
class Experiment:
    """A method on a problem over a graph, with all its constants."""

    problem: FiniteSum
    method: Method
    walk: Walk
    facts: Facts
    constants: Arrays
    law: Law
    costs: Costs
    time: TimeModel
    seed: int
    optimum: Optimum
    bound: float | None = None  # C: E[F - F*] <= C (1 - rate)^t is proved; None: it is not
    replay: Replay | None = None  # a log to take the events from
    origin: Origin | None = None  # where an earlier run ended, if this one goes on from there
    held_out: HeldOut | None = None  # rows to test the model on
    timed: bool = False  # whether events follow from speeds

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.problem.n

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the run starts, in sentences."""
        return (
            *self.method.notes(self.constants, self.facts),
            *unequal_times(self.time, self.n),
            *told(self.facts.failures, self.law.tokens, self.n),
            *self._of_timed,
            *_rough(self.optimum),
        )

    @property
    def _of_timed(self) -> tuple[str, ...]:
        """What is different where events follow from speeds."""
        if not self.timed:
            return ()
        share = getattr(self.method, "given_p_comm", None)
        visits = "" if share is None else f"about {share:.3g} of the steps are visits, for which constants are made; "
        return (f"schedule=timed: {visits}steps are not independent draws, and no rate is proved",)

    @property
    def start(self) -> Start:
        """Where the schedule begins."""
        first = start_at(self.hosted.token_start(self.n) if self.replay is None else self.replay.token_start)
        failures, tokens = self.facts.failures, self.law.tokens
        if not failures.on:
            return first
        if self.replay is None:  # tokens that are to come are at any place
            first.positions[:tokens] = self.method.token_start(self.n)
        return first._replace(fate=first_state(failures, tokens, self.n))

    @property
    def hosted(self) -> Method:
        """The method with as many tokens as there may ever be: what engines keep states for."""
        return with_slots(self.method, self.facts.failures, self.n)

    @property
    def clock(self) -> Clock:
        """The clock at the start."""
        first, failures = self.start, self.facts.failures
        alive = living(failures, first.fate, self.n) if failures.on else None
        return start_clock(self.n, len(first.positions), alive)

    @property
    def schedule(self) -> Schedule:
        """The events of this run."""
        if self.replay is not None:
            return self.replay
        schedule = self.method.schedule(self.constants, self.facts, self.seed)
        if not (self.timed and isinstance(schedule, Drawn)):
            return schedule
        taken = times(self.time, self.n)
        return Timed(schedule, taken, self.costs, taken.comp * self.method.start_gradients(self.facts))


def _rough(found: Optimum) -> tuple[str, ...]:
    """What to say where F* is not known well."""
    if found.error <= ROUGH * abs(found.objective):
        return ()
    return (
        f"F* is known to within {found.error:.1g} only, which is where float64 ends for these data, and smaller values "
        "of F - F* mean nothing; give features similar sizes, or use a larger problem.sigma",
    )


def with_slots(method: Method, failures: Failures, n: int) -> Method:
    """The method with as many tokens as there may ever be."""
    if not failures.forks:
        return method
    tokens = failures.slots(cast(Any, method).tokens, n)
    return cast(Method, replace(cast(Any, method), tokens=tokens))


def check_failures(method: Method, failures: Failures, walk: Walk) -> None:
    """Refuse tokens that are lost where a method or a walk cannot do without them."""
    if not failures.on:
        return
    if not getattr(method, "loses_tokens", False):
        raise InputError(
            f"failures are for methods with tokens that can do without each other, and {method.name} has none; use "
            "algorithm=token, tvr or tavr"
        )
    if method.meet is not None:
        raise InputError("failures have no meaning yet for tokens that meet; use algorithm.interactions=0")
    if getattr(method, "start", "zero") == "warm":
        raise InputError("algorithm.start=warm has no place for tokens to come; use another start with failures")
    if walk.law is not None and walk.law.jump is not None:
        raise InputError(
            f"graph.walk={walk.kind} remembers what its tokens did, and failures need tokens that can be copied; use "
            "another walk"
        )
    failures.check(len(method.token_start(walk.n)), walk.n)


def check_private(method: Method, privacy: Privacy) -> None:
    """Refuse noise for a method that has no place for it."""
    if privacy.asked and not getattr(method, "private", False):
        raise InputError(
            f"privacy.clip={privacy.clip:g}, but {method.name} neither cuts gradients nor adds noise, and there is no "
            "guarantee for it; use algorithm=walk_sgd"
        )


def prepare(
    problem: FiniteSum,
    method: Method,
    walk: Walk,
    time: TimeModel,
    seed: int,
    privacy: Privacy = NO_PRIVACY,
    failures: Failures = NO_FAILURES,
) -> Experiment:
    """Check that the method can do what is asked, and compute all constants and the reference optimum."""
    tokens = len(method.token_start(problem.n))
    if tokens > problem.n:
        raise InputError(f"algorithm.tokens={tokens} but there are only {problem.n} nodes; use tokens<={problem.n}")
    if not 0 <= seed < 2**64:
        raise InputError(f"seed={seed} must be an integer from 0 to 2**64 - 1")
    check_private(method, privacy)
    check_failures(method, failures, walk)
    facts = replace(gather_facts(problem, walk, method.blocks), seed=seed, privacy=privacy, failures=failures)
    _check_condition(facts)
    constants = method.constants(facts)
    law = method.law(constants, facts)
    check_fit(method, constants, facts, law, method.costs(facts))
    costs = exact_costs(problem, method, constants, facts)
    check_links(time, method.schedule(constants, facts, seed), law, walk, method.name)
    best = optimum(problem)
    bound = _bound(method, constants, facts, problem, best)
    return Experiment(problem, method, walk, facts, constants, law, costs, time, seed, best, bound)


def _bound(method: Method, constants: Arrays, facts: Facts, problem: FiniteSum, best: Optimum) -> float | None:
    """C of the method's proof, if there is one and float64 can hold it."""
    if getattr(constants, "rate", 1.0) == 0 or facts.failures.on:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        found = method.bound(constants, facts, problem, best.theta)
    return found if found is not None and np.isfinite(found) else None


def _check_condition(facts: Facts) -> None:
    """Refuse problems whose constants float64 cannot hold: some are products of several condition numbers."""
    largest = float(facts.sum_L.max())
    condition = largest / facts.sigma
    if condition <= WORST_CONDITION:
        return
    remedy = "smaller features"
    if math.isfinite(largest):
        remedy = f"a problem.sigma of at least {largest / WORST_CONDITION:.0e}"
    raise InputError(
        f"problem.sigma={facts.sigma:g} makes the condition number {condition:.0e}, and dtoken computes with no more "
        f"than {WORST_CONDITION:.0e}; use {remedy}"
    )


def with_p_comm(experiment: Experiment, p_comm: float) -> Experiment:
    """The same with another share of visits."""
    method: Any = experiment.method
    method = replace(method, p_comm=p_comm)
    facts, problem = experiment.facts, experiment.problem
    constants = method.constants(facts)
    bound = _bound(method, constants, facts, problem, experiment.optimum)
    problem.reader.forget()
    return replace(experiment, method=method, constants=constants, law=method.law(constants, facts), bound=bound)


def with_seed(experiment: Experiment, seed: int) -> Experiment:
    """The same with the chance that the steps of another run had."""
    if not hasattr(experiment.constants, "seed"):
        return experiment
    return replace(experiment, constants=experiment.constants._replace(seed=np.uint64(seed)))


def exact_costs(problem: FiniteSum, method: Method, constants: Arrays, facts: Facts) -> Costs:
    """The costs of a method, with the nodes whose last block has fewer rows than the others."""
    costs, size = method.costs(facts), method.blocks.rows
    before_last = (facts.rows - 1) // size * size
    short = np.minimum(facts.rows, size) - (facts.rows - before_last)
    if not (method.draws_samples and short.any()):
        return costs
    norms = block_norms(problem.shards, method.blocks, problem.threads)
    first = np.cumsum(facts.rows) - facts.rows
    samples = drawn_samples(method, constants, norms, facts.rows, facts.curvature * (1.0 / facts.rows))
    return costs._replace(short=short, first=first, last=first + before_last, samples=samples)


def gather_facts(problem: FiniteSum, walk: Walk, blocks: Blocks = SINGLE_ROWS) -> Facts:
    """What a method with such samples may know of problem and graph, in one pass over the data."""
    if blocks.rows > 1:
        return _facts_of_blocks(problem, walk, blocks)
    rows = row_facts(problem)
    return Facts(
        sigma=problem.sigma,
        curvature=problem.loss.curvature,
        rows=rows.rows,
        samples=rows.rows - rows.empty,
        sum_L=sum_smoothness(problem, rows),
        largest_L=max_smoothness(problem, rows),
        batch_L=lambda: batch_smoothness(problem),
        over_samples=lambda function: sum_over_rows(problem, function),
        walk=walk,
    )


def _facts_of_blocks(problem: FiniteSum, walk: Walk, blocks: Blocks) -> Facts:
    rows, curvature = np.array(problem.shards.node_rows, np.int64), problem.loss.curvature
    counts = blocks.counts(rows)
    first = np.concatenate([[0], np.cumsum(counts)])
    L = curvature * block_norms(problem.shards, blocks, problem.threads) / np.repeat(rows, counts)
    used = L > 0
    samples = np.add.reduceat(used, first[:-1], dtype=np.int64)
    return Facts(
        sigma=problem.sigma,
        curvature=curvature,
        rows=rows,
        samples=samples,
        sum_L=range_sums(L, first),
        largest_L=np.maximum.reduceat(L, first[:-1]),
        batch_L=lambda: batch_smoothness(problem),
        over_samples=lambda function: range_sums(function(L[used]), np.concatenate([[0], np.cumsum(samples)])),
        walk=walk,
    )
